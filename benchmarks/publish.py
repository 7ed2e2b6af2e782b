"""The tables of docs/benchmarks, made from the stored results.

    python benchmarks/publish.py            # write them into the pages
    python benchmarks/publish.py --check    # exit code 1 if a page and the results disagree

A table stands in a page between ``<!-- table: name -->`` and ``<!-- end -->``; ``name`` is a function of this file. The
text around it is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "benchmarks").glob("*.md"))
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def stored(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def table(head, rows):
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def pair(cell):
    return f"{cell['rmse']['ratio']:.2f} / {cell['linf']['ratio']:.2f}"


SURROGATES = {"network": "network", "matern": "Matérn process", "rbf": "RBF process"}


def design_functions(half="unseen"):
    found = stored(f"design-{half}")
    rows = [[f"`{name}`", *(pair(cells[kind]) for kind in SURROGATES)] for name, cells in found["functions"].items()]
    return table(["function", *SURROGATES.values()], rows)


def design_simulators():
    return design_functions("simulators")


def design_league():
    found, rows = stored("design-unseen"), []
    for name, row in found["means"].items():
        ranks = found["ranks"].get(name)
        means = [f"{row[kind]['rmse']:.2f} / {row[kind]['linf']:.2f}" for kind in SURROGATES]
        places = [f"{ranks['rmse']:.1f}", f"{ranks['linf']:.1f}"] if ranks else ["–", "–"]
        rows.append(
            [name, row["functions"], row["seeds"], *means, f"{row['above']} of {3 * row['functions']}", *places]
        )
    head = ["design", "functions", "seeds", *SURROGATES.values(), "above 1.03", "rank, RMSE", "rank, largest"]
    return table(head, rows)


def claims():
    found, rows = stored("surrogates")["unseen"], []
    for name, cells in found["steep"].items():
        even, runs = found["even"].get(name, {}), cells.get("median runs", {})
        medians = ["–" if runs.get(goal) is None else f"{runs[goal]:.0f}" for goal in ("0.2", "0.1", "0.05")]
        rows.append(
            [f"`{name}`" if name != "all" else name, cells["campaigns"], cells["claims"], cells["true"], *medians,
             f"{100 * cells['covered']:.1f}", f"{100 * cells['covered in the widest tenth']:.0f}",
             f"{even.get('true', 0)} of {even.get('claims', 0)}"]
        )  # fmt: skip
    head = [
        "function",
        "campaigns",
        "claims",
        "true",
        "runs, .2",
        ".1",
        ".05",
        "covered, %",
        "widest tenth, %",
        "Sobol",
    ]
    return table(head, rows)


def same_error():
    found = stored("surrogates")["unseen"]["runs for the same error"]["functions"]
    rows = [[f"`{name}`", *(f"{ratio:.2f}" for ratio in row.values())] for name, row in found.items()]
    return table(["function", *(f"error of {n} Sobol points" for n in (100, 200, 400))], rows)


def surrogate_rivals():
    found, rows = stored("surrogates")["unseen"]["rivals"], []
    for name, cells in found.items():
        rows.append([f"`{name}`", *(f"{cell['rmse']:.4f} / {cell['seconds']:.1f}" for cell in cells.values())])
    return table(["function", *next(iter(found.values()))], rows)


def hybrid():
    rows = []
    for order, cells in stored("surrogates")["hybrid"]["orders"].items():
        seconds, before, after = cells["seconds"], *cells["course"][-2:]
        last = (after[2] - before[2]) / (after[0] - before[0])
        alone = cells["seconds of the simulator alone"] / cells["calls"]
        rows.append(
            [order, f"{cells['calls']:,}", f"{100 * cells['by model'] / cells['calls']:.0f}",
             f"{seconds['hybrid']:.0f} / {cells['seconds of the simulator alone']:.0f}", f"{cells['times faster']:.2f}",
             f"{alone / last:.1f}", f"{100 * cells['true share off']:.2f}",
             f"{cells['found off']} of {cells['checked']}", f"{100 * cells['bound']:.2f}"]
        )  # fmt: skip
    head = [
        "order", "calls", "by the model, %", "CPU seconds, hybrid / simulator alone", "times faster",
        "at the end", "off, % of calls", "checks found off", "bound, %",
    ]  # fmt: skip
    return table(head, rows)


def failing():
    keys = ("part of the domain", "design, 100 runs", "design, 200 runs", "campaign, 100 runs")
    rows = [
        [row["region"], row["inputs"], *(f"{row[key]:.2f}" for key in keys)]
        for row in stored("failing_regions")["lines"]
    ]
    return table(["region that fails", "inputs", *keys], rows)


SCORES = {
    "accuracy": "accuracy, points", "neg_root_mean_squared_error": "RMSE, % lower",
    "neg_mean_absolute_error": "MAE, % lower", "worst_decile": "worst decile, % lower",
    "max_error": "largest error, % lower",
}  # fmt: skip


def weightings(name, arms, model="linear"):
    """Mean gain and tables significantly better / worse, corrected for overlapping splits."""
    found = {(row["arm"], row["score"]): row for row in stored(name)["overall"] if row["model"] == model}
    rows = []
    for score, title in SCORES.items():
        cells = [found[arm, score] for arm in arms if (arm, score) in found]
        figures = [f"{c['mean_gain']:+.2f} ({c['wins_corrected']} / {c['losses_corrected']})" for c in cells]
        rows.append([title, cells[-1]["tables"], *figures, f"{cells[-1]['median_gain']:+.2f}"])
    return table(["score", "tables", *arms.values(), "median of the last"], rows)


def weights_fresh():
    arms = {"paper": "fixed m = 40", "cv:variance": "variance, chosen", "cv:default": "default, chosen"}
    return weightings("weighting-fresh", arms)


def weights_battery():
    return weightings(
        "weighting", {"paper": "fixed m = 40", "cv:variance": "variance, chosen", "cv:default": "default, chosen"}
    )


def weights_perceptron():
    return weightings("weighting", {"paper": "fixed m = 40", "cv:default": "default, chosen"}, "mlp")


def weights_boosting():
    return weightings("weighting", {"paper": "fixed m = 40", "cv:default": "default, chosen"}, "boosting")


def weights_promises():
    found = stored("promises")["unseen"]
    null, worse, gains = found["null"]["all"], found["worse"], found["gains"]["without exact targets"]
    rows = [
        ["equal weights are kept where weights cannot help", f"{null['kept']:.0%} of {null['searches']} searches"],
        ["significantly worse than equal weights", f"{worse['worse']} of {worse['pairs']} pairs of table and model"],
        [
            "stated over realised gain",
            f"{gains['stated_over_realised']:.2f} ({gains['searches']} searches chose weights)",
        ],
    ]
    for model, race in found["race"].items():
        fits = f"{race['median_fits']:.0f} fits instead of {race['median_fits_full']:.0f}"
        rows.append([f"racing decides as the full search, {model}", f"{race['same_decision']:.0%}, {fits}"])
    return table(["promise", "measured"], rows)


def weights_cost():
    keys = ("ratio_all", "ratio_all_largest", "ratio_none")
    found = stored("evidence")["overall"].items()
    rows = [[name, *(f"{row[key]:.0f}" for key in keys), f"{row['same_all']:.0%}"] for name, row in found]
    return table(["tables", "plain fits, median", "largest", "without shortcuts", "same decision"], rows)


def suspects_on(part, first):
    found = stored("suspects")[part]
    means = found["mean_average_precision"]
    kinds = list(means[first])
    rows = [[name, *(f"{row[kind]:.3f}" for kind in kinds)] for name, row in means.items()]
    return table(["ranking", *kinds], rows)


def suspects_classes():
    return suspects_on("unseen classification", "steep")


def suspects_numbers():
    return suspects_on("unseen numbers", "steep")


def suspects_refit():
    found = stored("suspects-refit")
    arms = list(found["means"]["unseen"])
    rows = [
        [name, *(f"{scores[arm]:.3f}" for arm in arms)]
        for part, tables in found["tables"].items()
        for name, scores in {**tables, f"mean, {part}": found["means"][part]}.items()
    ]
    return table(["table", *arms], rows)


def suspects_real():
    cells = sorted(stored("suspects-real")["cells"].items(), key=lambda cell: cell[1]["part"] != "unseen")
    arms = list(cells[0][1]["average_precision"])
    rows = []
    for name, cell in cells:
        precision = [f"{cell['average_precision'][arm]:.3f}" for arm in arms]
        mean, low, high = (f"{value:,}" for value in cell["estimate"])
        rows.append([f"{name}, {cell['part']}", *precision, f"{cell['n_wrong']:,}", mean, f"{low} to {high}"])
    return table(["labels of CIFAR-10", *arms, "wrong", "estimate", "limits"], rows)


def groups_means():
    found = {name: part for name, part in stored("groups").items() if name.endswith(", unseen")}
    problems = list(found)
    arms = list(dict.fromkeys(arm for part in found.values() for arm in part["arms"]))
    rows = [
        [arm, *(f"{found[p]['arms'][arm]['test']:.1f}" if arm in found[p]["arms"] else "–" for p in problems)]
        for arm in arms
    ]
    return table(["worst group or balanced accuracy, %", *(p.removesuffix(", unseen") for p in problems)], rows)


def groups_gaps():
    found = {name: part for name, part in stored("groups").items() if name.endswith(", unseen")}
    rows = []
    for name in next(iter(found.values()))["gaps"]:
        if name.startswith("steep, unseen") and name.endswith(("as trained", "same data")):
            continue
        cells = [part["gaps"].get(name) for part in found.values()]
        rows.append([
            name, *(f"{c['mean']:+.1f} ({c['significantly_better']}, {c['significantly_worse']})"
                    if c and "significantly_better" in c else f"{c['mean']:+.1f}" if c else "–" for c in cells),
        ])  # fmt: skip
    return table(["difference", *(p.removesuffix(", unseen") for p in found)], rows)


def group_scores():
    found = {name: part for name, part in stored("group-scores").items() if name.endswith(", unseen")}
    rival, rows = "logistic regression, tuned", []
    for name, part in found.items():
        if name.startswith("promises"):
            continue
        gap, test = part[f"steep − {rival}"], part["test"]
        means = (f"{test[arm]:.1f}" for arm in ("as trained", rival, "steep"))
        rows.append([
            name.removesuffix(", unseen"), part["networks"], *means,
            f"{gap['mean']:+.1f}", gap["significantly_better"], gap["significantly_worse"],
        ])  # fmt: skip
    names = [
        "problem, score",
        "networks",
        "as trained",
        "logistic regression",
        "steep",
        "difference",
        "better",
        "worse",
    ]
    return table(names, rows)


def improve_promises():
    rows = []
    for part, found in stored("improve-promises")["parts"].items():
        with_validation = found["pooled_by_data"]["validation"]
        rows.append([
            part, with_validation["calls"], with_validation["replaced"], f"{with_validation['ratio']:.2f}",
            f"{with_validation['coverage']:.0%}", with_validation["significantly_worse"],
        ])  # fmt: skip
    return table(
        ["data", "calls", "heads replaced", "promised / delivered", "95 % intervals that cover", "significantly worse"],
        rows,
    )


def neighbors():
    found = stored("neighbors")["unseen"]
    recalls = ["0.8", "0.95", "0.99", "variance"]
    rows = [
        [
            name,
            *(
                f"{row[r]['ours']:.2f} s / {row[r]['peer']} {row[r]['theirs']:.2f} s = {row[r]['ratio']:.1f}"
                for r in recalls
            ),
        ]
        for name, row in found["data"].items()
    ]
    rows.append(["geometric mean", *(f"**{found['means'][r]['geometric mean']:.2f}**" for r in recalls)])
    return table(["data", *(f"recall {r}" if r != "variance" else "local variance" for r in recalls)], rows)


def crashes():
    keys = ("crashes", "finished", "lost", "repeated", "stuck")
    names = {"kill": "campaign killed", "workers": "worker killed", "disk": "disk full for a second"}
    rows = [
        [names[row["discipline"]], row["player"], *(f"{row[key]:,}" for key in keys)]
        for row in stored("crash_league")["rows"]
    ]
    return table(["what happens", "library", *keys], rows)


def main():
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        made = BLOCK.sub(lambda found: f"{found[1]}{globals()[found[2]]()}\n{found[3]}", text)
        if made != text:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(made, encoding="utf-8")
    print("\n".join(stale) or "all pages agree with the results")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
