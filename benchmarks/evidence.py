"""What the evidence costs: the default search over one plain fit, with and without its shortcuts.

    python benchmarks/evidence.py run --data FOLDER --tables tuned     # resumable, one JSON line per split
    python benchmarks/evidence.py run --data FOLDER --tables unseen    # tables no shortcut was tuned on, run once
    python benchmarks/evidence.py summary
    python benchmarks/evidence.py replay                               # racing alone, on recorded scores of candidates
    python benchmarks/evidence.py null                                 # how often weights win where nothing differs

Logistic and ridge regression with their default settings; CPU seconds of one thread. On every outer split the same
search is made without shortcuts ("none"), with linear models solved at once ("exact") and with racing too ("all", the
default): what each chose, what that gained on the outer test part, and its time over that of one plain fit. ``replay``
takes the fold scores of every candidate that ``weighting.py`` recorded on development splits, and chooses with and
without racing: hundreds of splits for no fit at all. ``null`` simulates fold scores of 24 correlated weightings, with
heavy tails and without any difference, and counts how often equal weights are given up.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from evidence_tables import TUNED, UNSEEN
from reproduction.records import Records, machine, write_json
from steep import VarianceWeightedCV, WeightSearch
from steep.evidence import weigh_evidence
from steep.measures import MEASURES
from steep.metrics import resolve_scorers
from steep.weighting.candidates import EQUAL, WeightingCandidate
from steep.weighting.racing import race
from tables import load_tables
from weighting import DEVELOPMENT, read, split_and_scale, warm_up

RESULTS = Path(__file__).parent / "results"
MODELS = {"classification": LogisticRegression(), "regression": Ridge()}
# The first is the estimator's own score: the default search.
SCORES = {"classification": (None,), "regression": (None, "neg_mean_absolute_error", "max_error")}
SHORTCUTS = ("none", "exact", "all")
CONFIDENCE = 0.95  # the default


def cpu(call):
    """CPU seconds of a call, and what it returns."""
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def run_split(table, seed, score, n_train):
    """Choices, gains and CPU seconds of one outer split, by shortcut."""
    X, y, X_test, y_test = split_and_scale(table, seed, n_train)
    model = MODELS[table.task]
    (scorer,) = resolve_scorers(model, score).values()
    plain, found = [], {}

    def fit_plainly():
        plain.extend(cpu(lambda: clone(model).fit(X, y))[0] for _ in range(5))

    fit_plainly()
    equal = float(scorer(clone(model).fit(X, y), X_test, y_test))
    for shortcuts in SHORTCUTS:
        search = VarianceWeightedCV(model, scoring=score, search=WeightSearch(shortcuts=shortcuts), random_state=seed)
        seconds, fitted = cpu(lambda search=search: search.fit(X, y))
        fit_plainly()
        found[shortcuts] = {
            "seconds": seconds,
            "chosen": dict(fitted.best_params_),
            "gain": float(scorer(fitted, X_test, y_test)) - equal,
        }
    return {"plain": float(np.median(plain)), "equal": equal, **found}


def run(options):
    records = Records(options.output)
    names = {"tuned": TUNED, "unseen": UNSEEN}[options.tables]
    tables = {t.name: t for task in SCORES for t in load_tables(options.data, task) if t.name in names}
    for model in MODELS.values():
        warm_up(clone(model))
    keys = [
        (name, score or "own score", seed)
        for seed in range(options.seeds)
        for name, table in tables.items()
        for score in SCORES[table.task]
    ]
    for key in records.missing(keys):
        table, score = tables[key[0]], None if key[1] == "own score" else key[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (ConvergenceWarning, UserWarning))
            result = run_split(table, key[2], score, options.n_train)
        settings = {"task": table.task, "tables": options.tables, "n_train": options.n_train}
        records.add(*key, settings=settings, result=result)
        ratios = {s: round(result[s]["seconds"] / result["plain"]) for s in SHORTCUTS}
        print(*key, ratios, {s: result[s]["chosen"] for s in SHORTCUTS}, flush=True)


def frame_of(records):
    """One row per split."""
    rows = []
    for line in records:
        result, settings = line["result"], line["settings"]
        whole = 1.0 if settings["task"] == "classification" else abs(result["equal"])
        row = {"table": line["experiment"], "score": line["arm"], "seed": line["seed"], **settings}
        for name in SHORTCUTS:
            row[f"ratio_{name}"] = result[name]["seconds"] / result["plain"]
            row[f"gain_{name}"] = 100 * result[name]["gain"] / whole
            row[f"weighted_{name}"] = result[name]["chosen"]["weight_ratio"] != 1
        for name in ("exact", "all"):
            row[f"same_{name}"] = result[name]["chosen"] == result["none"]["chosen"]
            row[f"same_kind_{name}"] = row[f"weighted_{name}"] == row["weighted_none"]
        row["same_by_racing"] = result["all"]["chosen"] == result["exact"]["chosen"]
        row["plain_ms"] = 1e3 * result["plain"]
        rows.append(row)
    return pd.DataFrame(rows)


def figures_of(frame):
    """Means over splits; ratios are medians over a table's splits with the default score, and geometric over tables."""
    default = frame[frame["score"] == "own score"]
    per_table = default.groupby("table")[[f"ratio_{name}" for name in SHORTCUTS]].median()
    figures = {"splits": len(frame), "tables": len(per_table)}
    for name in SHORTCUTS:
        figures[f"ratio_{name}"] = float(np.exp(np.log(per_table[f"ratio_{name}"]).mean()))
    figures["ratio_all_largest"] = float(per_table["ratio_all"].max())
    figures["tables_at_30_or_less"] = int((per_table["ratio_all"] <= 30).sum())
    columns = [c for c in frame if c.startswith(("same", "gain_", "weighted_"))]
    figures |= {c: float(frame[c].mean()) for c in columns}
    found = stats.binomtest(int(frame["same_all"].sum()), len(frame)).proportion_ci(method="wilson")
    lost = frame["gain_all"] - frame["gain_none"]
    half = stats.t.ppf(0.975, len(lost) - 1) * lost.std() / np.sqrt(len(lost))
    ranges = default.groupby("table")["ratio_all"]
    return figures | {
        "same_all_low": found.low,
        "same_all_high": found.high,
        "gain_difference": float(lost.mean()),
        "gain_difference_half_width": float(half),
        "ratio_all_smallest_split": float(ranges.min().min()),
        "ratio_all_largest_split": float(ranges.max().max()),
    }


def summary(options):
    frame = frame_of(Records(options.output))
    overall = {
        f"{tables}, {task}": figures_of(group) for (tables, task), group in frame.groupby(["tables", "task"])
    } | {tables: figures_of(group) for tables, group in frame.groupby("tables")}
    tables = frame.groupby(["tables", "task", "table", "score"])
    numbers = frame.select_dtypes(["number", "bool"]).columns.drop(["seed", "n_train"])
    per_table = tables[list(numbers)].agg(lambda column: float(np.median(column.astype(float)))).reset_index()
    means = [c for c in numbers if c.startswith(("same", "gain_", "weighted_"))]
    per_table[means] = tables[means].mean().reset_index()[means]
    with pd.option_context("display.width", 220, "display.max_columns", 40):
        print(pd.DataFrame(overall).round(3).to_string())
        print(per_table[["tables", "table", "score", "plain_ms", "ratio_none", "ratio_exact", "ratio_all", "same_all",
                         "gain_none", "gain_all"]].round(3).to_string(index=False))  # fmt: skip
    record = {"command": "python benchmarks/evidence.py summary", "versions": versions()}
    write_json(
        options.output.with_suffix(".json"),
        record | {"overall": overall, "tables": per_table.round(4).to_dict("records")},
    )


def replay(options):
    """Choices and gains with and without racing, on recorded scores of the default candidates."""
    rows = []
    for record in read(DEVELOPMENT):
        frame = pd.DataFrame(record["candidates"], columns=["measure", "k", "ratio", "score", "folds", "gain"])
        for score, group in frame.groupby("score"):
            menu = {"misfit", "border"} if score == "accuracy" else {"misfit", "variance"}
            group = group[group["measure"].isin(menu)]
            if len(group) < 14:  # trials of one measure alone
                continue
            whole = 1.0 if score == "accuracy" else abs(record["arms"][f"equal|{score}"][1])
            rows.append({"tables": "unseen" if record["table"] in UNSEEN else "others", "score": score}
                        | raced(group, whole, record["seed"]))  # fmt: skip
    frame = pd.DataFrame(rows)
    figures = frame.groupby(["tables", "score"]).mean().assign(splits=frame.groupby(["tables", "score"]).size())
    totals = frame.drop(columns="score").groupby("tables").mean().assign(splits=frame.groupby("tables").size())
    print(figures.round(3).to_string(), totals.round(3).to_string(), sep="\n")
    record = {"command": "python benchmarks/evidence.py replay", "versions": versions()}
    record |= {"scores": figures.reset_index().round(4).to_dict("records")}
    write_json(RESULTS / "evidence-replay.json", record | {"all": totals.reset_index().round(4).to_dict("records")})


def raced(group, whole, seed):
    """Whether racing leaves the choice as it is, gains with and without, and the share of fits left.

    "solved" is the race of linear models, "fitted" that of all others.
    """
    differences, gains = np.array(group["folds"].tolist()), 100 * group["gain"].to_numpy() / whole
    pairs = zip(group["measure"], group["k"], group["ratio"], strict=True)
    candidates = [
        WeightingCandidate(control=EQUAL),
        *(WeightingCandidate(MEASURES[m], k, ratio) for m, k, ratio in pairs),
    ]
    scores = np.vstack([np.zeros(differences.shape[1]), differences])
    plain = weigh_evidence(differences, 0.25, CONFIDENCE, np.random.default_rng(seed)).chosen
    figures = {"gain": 0.0 if plain is None else gains[plain]}
    for name, solved in (("solved", True), ("fitted", False)):
        quick, n_fits = race_of(candidates, scores, solved, CONFIDENCE, np.random.default_rng(seed))
        figures |= {
            f"same_{name}": quick == plain,
            f"same_kind_{name}": (quick is None) == (plain is None),
            f"gain_{name}": 0.0 if quick is None else gains[quick],
            f"fits_{name}": n_fits / scores.size,
        }
    return figures


def race_of(candidates, scores, solved, confidence, generator, *, only_survivors=False):
    """What a race chooses from recorded scores, the first of which are those of equal weights; and its fits."""
    spent = []

    def score(first, last, rows):
        spent.append((last - first) * len(rows))
        return scores[rows, first:last, None]

    tried, found = race(candidates, scores.shape[1], score, solved=solved)
    seen, tried = (found[:, :, 0] - found[0, :, 0])[1:], np.array(tried[1:]) - 1
    if only_survivors:
        kept = ~np.isnan(seen).any(axis=1)
        seen, tried = seen[kept], tried[kept]
    chosen = weigh_evidence(seen, 0.25, confidence, generator).chosen if len(tried) else None
    return None if chosen is None else int(tried[chosen]), sum(spent)


def null(options):
    """How often equal weights are given up where nothing differs: without racing, with it, by survivors alone."""
    ratios = (0.01, 0.03, 0.1, 0.3, 3.0, 10.0, 40.0, 100.0)
    weightings = [WeightingCandidate(MEASURES["variance"], k, ratio) for k in (3, 5, 20) for ratio in ratios]
    candidates = [WeightingCandidate(control=EQUAL), *weightings]
    place = np.tile(np.linspace(-1, 1, 8), 3)[:, None]
    rates = {}
    for confidence in (0.5, 0.84, CONFIDENCE):
        rng, given_up = np.random.default_rng(options.seed), []
        for _ in range(options.searches):
            slope, bend, own = (rng.standard_t(4, size=(n, 10)) for n in (1, 1, 24))
            scores = np.vstack([np.zeros((1, 10)), place * slope + place**2 * bend + 0.3 * own])
            raced = [
                race_of(candidates, scores, solved, confidence, rng, only_survivors=survivors)[0] is not None
                for solved, survivors in ((True, False), (False, False), (True, True))
            ]
            given_up.append([weigh_evidence(scores[1:], 0.25, confidence, rng).chosen is not None, *raced])
        plain, solved, fitted, survivors = np.mean(given_up, axis=0).tolist()
        error = float(np.sqrt(confidence * (1 - confidence) / options.searches))
        rates[f"confidence {confidence}"] = {
            "nominal": 1 - confidence, "without racing": plain, "with racing": solved,
            "with racing from a coarse grid": fitted, "by the bound of survivors": survivors, "standard error": error,
        }  # fmt: skip
    print(pd.DataFrame(rates).round(4).to_string())
    record = {"command": f"python benchmarks/evidence.py null --searches {options.searches}"}
    write_json(RESULTS / "evidence-null.json", record | {"seed": options.seed, "versions": versions(), **rates})


def versions():
    return machine(["steep", "numpy", "scipy", "scikit-learn"])["versions"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--data", type=Path, default=os.environ.get("STEEP_DATA"))
    runner.add_argument("--tables", choices=("tuned", "unseen"), required=True)
    runner.add_argument("--seeds", type=int, default=5)
    runner.add_argument("--n-train", type=int, default=1500)
    runner.set_defaults(call=run)
    summer = commands.add_parser("summary")
    summer.set_defaults(call=summary)
    replayer = commands.add_parser("replay")
    replayer.set_defaults(call=replay)
    simulator = commands.add_parser("null")
    simulator.add_argument("--searches", type=int, default=1200)
    simulator.add_argument("--seed", type=int, default=0)
    simulator.set_defaults(call=null)
    for command in (runner, summer):
        command.add_argument("--output", type=Path, default=RESULTS / "evidence.jsonl")
    options = parser.parse_args()
    options.call(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
