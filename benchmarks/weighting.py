"""Does weighing help? The battery: tables × models × splits, every arm paired with equal weights.

    python benchmarks/weighting.py run --data FOLDER --model linear      # resumable, one JSON line per split
    python benchmarks/weighting.py summary                               # tables, written beside the lines
    python benchmarks/weighting.py cost --data FOLDER                    # what the neighbour search costs
    python benchmarks/weighting.py rules --input DEVELOPMENT.jsonl       # how the rule of choice was settled

One search per split scores every candidate (measure × ratio) on the training part alone; each arm is a
choice from those candidates, refitted and scored once on the outer test part that no choice saw. The
rule of choice and its menu were settled on development splits (``--first-seed 100 --keep-candidates``,
then ``rules``): new splits of the same tables, none of them among the results.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor

from steep import VarianceWeightedCV
from steep.measures import MEASURES, variations
from steep.rescaling import rescale
from steep.weighting.candidates import neighborhood
from steep.weighting.evidence import weigh_evidence
from tables import load_tables

RESULTS = Path(__file__).parent / "results"
N_NEIGHBORS = (20,)
STRICT = 0.84  # one standard error, corrected for the number of candidates
PAPER = ("variance", 20, 40.0)
SCORES = {
    "classification": ("accuracy",),
    "regression": ("neg_root_mean_squared_error", "neg_mean_absolute_error", "worst_decile", "max_error"),
}
MODELS = {
    ("linear", "classification"): LogisticRegression(max_iter=500, tol=1e-3, warm_start=True),
    ("linear", "regression"): Ridge(),
    ("mlp", "classification"): MLPClassifier(
        hidden_layer_sizes=(16,), max_iter=60, learning_rate_init=0.01, random_state=0
    ),
    ("mlp", "regression"): MLPRegressor(
        hidden_layer_sizes=(16,), max_iter=60, learning_rate_init=0.01, random_state=0
    ),
    ("boosting", "classification"): GradientBoostingClassifier(n_estimators=30, random_state=0),
    ("boosting", "regression"): GradientBoostingRegressor(n_estimators=30, random_state=0),
}
# The default menu of VarianceWeightedCV, and all measures for the model that is quick to fit.
DEFAULT = ("variance", "noise")
MENUS = {"linear": tuple(MEASURES), "mlp": DEFAULT, "boosting": DEFAULT}
RATIOS = {
    "linear": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 40.0),
    "mlp": (0.1, 1.0, 10.0),
    "boosting": (0.1, 1.0, 10.0),
}


def split_and_scale(table, seed, n_train):
    """Outer split; inputs, and regression targets, scaled by the training part."""
    stratify = table.y if table.task == "classification" else None
    keep = min(n_train, int(0.7 * len(table.X)))
    rest = min(len(table.X) - keep, 5000)
    parts = train_test_split(
        table.X, table.y, train_size=keep, test_size=rest, random_state=seed, stratify=stratify
    )
    X, X_test, y, y_test = parts
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread[spread == 0] = 1
    if table.task == "regression":
        y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
    return (X - mean) / spread, y, (X_test - mean) / spread, y_test


def arms_of(menu):
    """Name → measures an arm may choose from."""
    return {f"cv:{m}": (m,) for m in menu} | {"cv:default": DEFAULT}


def run_split(table, model_name, seed, options):
    """All arms on one outer split: one line of results."""
    started = time.perf_counter()
    model, menu = MODELS[model_name, table.task], MENUS[model_name]
    X, y, X_test, y_test = split_and_scale(table, seed, options.n_train)
    search = VarianceWeightedCV(
        model, measure=menu, n_neighbors=N_NEIGHBORS, weight_ratio=RATIOS[model_name], scoring=list(SCORES[table.task]),
        n_repeats=options.repeats, embedding=None, random_state=seed,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, UserWarning))
        search.fit(X, y)
        tester = Tester(model, X, y, X_test, y_test, search)
        line = {
            "table": table.name,
            "task": table.task,
            "model": model_name,
            "seed": seed,
            "n_train": len(X),
            "arms": {},
        }
        results = pd.DataFrame(search.cv_results_)
        for score in SCORES[table.task]:
            for arm, menu_of_arm in arms_of(menu).items():
                chosen = choose(results, score, menu_of_arm, options.confidence, seed)
                line["arms"][f"{arm}|{score}"] = [chosen, tester.gain(chosen, score)]
            strict = choose(results, score, DEFAULT, STRICT, seed)
            line["arms"][f"cv:strict|{score}"] = [strict, tester.gain(strict, score)]
            line["arms"][f"paper|{score}"] = [PAPER, tester.gain(PAPER, score)]
            line["arms"][f"equal|{score}"] = [None, tester.score(None, score)]
    if options.keep_candidates:
        line["candidates"] = tester.every_candidate(results)
    line |= {
        "seconds": round(time.perf_counter() - started, 2),
        "seconds_neighbors": round(search.seconds_["neighbors"], 3),
    }
    line["seconds_fits"] = round(search.seconds_["fits"], 3)
    return line


def choose(results, score, menu, confidence, seed):
    """The rule of VarianceWeightedCV on the candidates of some measures; None is equal weights."""
    rows = results[results["measure"].isin(menu)]
    control = results[results["measure"].isna()].iloc[0]
    columns = [c for c in results if c.startswith("split") and c.endswith(f"_test_{score}")]
    differences = rows[columns].to_numpy(float) - control[columns].to_numpy(float)
    evidence = weigh_evidence(differences, 0.25, confidence, np.random.default_rng(seed))
    if evidence.chosen is None:
        return None
    best = rows.iloc[evidence.chosen]
    return [best["measure"], int(best["n_neighbors"]), float(best["weight_ratio"])]


class Tester:
    """Outer test scores, each candidate fitted once."""

    def __init__(self, model, X, y, X_test, y_test, search):
        self.model, self.data, self.test, self.scorers = model, (X, y), (X_test, y_test), search.scorers_
        self.around = neighborhood(X, y, model, max(max(N_NEIGHBORS), PAPER[1]), None)
        self.cache = {}

    def score(self, candidate, score):
        """Score on the outer test part; None is equal weights."""
        key = tuple(candidate) if candidate else None
        if key not in self.cache:
            weights = np.ones(len(self.data[0]))
            if key is not None:
                variation = variations(self.around, key[0], [key[1]])[0]
                weights = rescale(variation, weight_ratio=key[2], clip=None if key == PAPER else 0.98)
            fitted = clone(self.model).fit(*self.data, sample_weight=weights)
            self.cache[key] = {
                name: float(scorer(fitted, *self.test)) for name, scorer in self.scorers.items()
            }
        return self.cache[key][score]

    def gain(self, candidate, score):
        """Score minus that of equal weights."""
        return self.score(candidate, score) - self.score(None, score)

    def every_candidate(self, results):
        """For choosing the rule on development seeds: fold differences and outer gains of all."""
        rows = []
        for _, row in results[results["measure"].notna()].iterrows():
            candidate = (row["measure"], int(row["n_neighbors"]), float(row["weight_ratio"]))
            for score in self.scorers:
                columns = [c for c in results if c.startswith("split") and c.endswith(f"_test_{score}")]
                control = results[results["measure"].isna()].iloc[0][columns].to_numpy(float)
                differences = row[columns].to_numpy(float) - control
                rows.append(
                    [*candidate, score, np.round(differences, 6).tolist(), self.gain(candidate, score)]
                )
        return rows


def run(options):
    path = options.output or RESULTS / f"weighting-{options.model}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = set()
    if path.exists():
        done = {(r["table"], r["seed"]) for r in map(json.loads, path.read_text().splitlines())}
    tables = [t for task in SCORES for t in load_tables(options.data, task) if task in options.task]
    jobs = [(t, s) for s in range(options.first_seed, options.first_seed + options.seeds) for t in tables]
    jobs = [
        (t, s) for t, s in jobs if (t.name, s) not in done and (not options.only or t.name in options.only)
    ]
    lines = Parallel(options.n_jobs, return_as="generator_unordered")(
        delayed(run_split)(table, options.model, seed, options) for table, seed in jobs
    )
    with path.open("a") as out:
        for count, line in enumerate(lines, start=1):
            out.write(json.dumps(line) + "\n")
            out.flush()
            print(f"{count}/{len(jobs)} {line['table']} seed {line['seed']}: {line['seconds']} s", flush=True)


def rules(options):
    """Gain on development splits of each rule: how sure to be, and which of those that count to take."""
    records = [json.loads(line) for path in options.input for line in path.read_text().splitlines()]
    menus = {
        "variance": ("variance",),
        "noise": ("noise",),
        "variance+noise": DEFAULT,
        "all": tuple(MEASURES),
    }
    rows = []
    for record in records:
        frame = pd.DataFrame(
            record["candidates"], columns=["measure", "k", "ratio", "score", "folds", "gain"]
        )
        for (score, group), (name, menu) in product(frame.groupby("score"), menus.items()):
            group = group[group["measure"].isin(menu)]
            scale = 100 / (
                1 if record["task"] == "classification" else abs(record["arms"][f"equal|{score}"][1])
            )
            for confidence in (0.0, 0.3, 0.5, 0.7, 0.84, 0.98):
                evidence = weigh_evidence(
                    np.array(group["folds"].tolist()), 0.25, confidence, np.random.default_rng(0)
                )
                gain = 0.0 if evidence.chosen is None else group["gain"].iloc[evidence.chosen] * scale
                rows.append((score, name, confidence, record["table"], gain))
    table = pd.DataFrame(rows, columns=["score", "menu", "confidence", "table", "gain"])
    means = (
        table.groupby(["score", "confidence", "menu", "table"])["gain"].mean().groupby(level=[0, 1, 2]).mean()
    )
    print(means.unstack().round(2).to_string())
    record = {"command": "python benchmarks/weighting.py rules", "tables": sorted(table["table"].unique())}
    record |= {"splits": len(records), "mean_gain": means.round(3).reset_index().to_dict("records")}
    (RESULTS / "weighting-development.json").write_text(json.dumps(record, indent=1) + "\n")


def cost(options):
    """Share of the default search that goes to neighbours and measures, table by table."""
    rows = []
    for task in SCORES:
        for table in load_tables(options.data, task):
            X, y, _, _ = split_and_scale(table, 0, 1500)
            model = clone(MODELS["linear", task]).set_params(
                **({"warm_start": False} if task == "classification" else {})
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", (ConvergenceWarning, UserWarning))
                seconds = VarianceWeightedCV(model, random_state=0).fit(X, y).seconds_
            rows.append({"table": table.name, "task": task, "samples": len(X)} | seconds)
            rows[-1]["share"] = seconds["neighbors"] / (seconds["neighbors"] + seconds["fits"])
            print({k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
    frame = pd.DataFrame(rows)
    shares = (
        frame.groupby("task")["neighbors"].sum()
        / frame.groupby("task")[["neighbors", "fits"]].sum().sum(axis=1)
    ).round(4)
    print(shares.to_string())
    record = {
        "command": "python benchmarks/weighting.py cost",
        "share_of_time": shares.to_dict(),
        "tables": rows,
    }
    (RESULTS / "weighting-cost.json").write_text(json.dumps(record, indent=1) + "\n")


def interval(values):
    """Mean and 95 % interval over outer splits, corrected for their overlap (test share 0.3)."""
    from scipy import stats

    values = np.asarray(values, float)
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) * np.sqrt(1 / len(values) + 0.3 / 0.7)
    plain = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean(), half, plain


def summarize(paths):
    """Per model, task, score and arm: mean gain over tables, wins, ties and losses at 95 %."""
    records = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    rows, tables = [], []
    frame = pd.DataFrame(
        {"model": r["model"], "task": r["task"], "table": r["table"], "seed": r["seed"], "arm": arm, "score": score,
         "gain": gain, "equal": r["arms"][f"equal|{score}"][1], "chosen": chosen}
        for r in records
        for (arm, score), (chosen, gain) in (((tuple(k.split("|"))), v) for k, v in r["arms"].items())
        if arm != "equal"
    )  # fmt: skip
    for (model, task, score, arm, table), group in frame.groupby(["model", "task", "score", "arm", "table"]):
        relative = 100 * group["gain"] / (1 if task == "classification" else group["equal"].abs())
        mean, half, plain = interval(relative)
        kept = float(np.mean([c is None for c in group["chosen"]]))
        names = {"model": model, "task": task, "score": score, "arm": arm, "table": table}
        figures = {"gain": mean, "half_width": half, "half_width_uncorrected": plain}
        tables.append(names | figures | {"kept_equal": kept, "splits": len(group)})
    per_table = pd.DataFrame(tables)
    for keys, group in per_table.groupby(["model", "task", "score", "arm"]):
        rows.append(dict(zip(("model", "task", "score", "arm"), keys, strict=True)) | {
            "mean_gain": group["gain"].mean(), "tables": len(group),
            "wins": int((group["gain"] - group["half_width_uncorrected"] > 0).sum()),
            "losses": int((group["gain"] + group["half_width_uncorrected"] < 0).sum()),
            "wins_corrected": int((group["gain"] - group["half_width"] > 0).sum()),
            "losses_corrected": int((group["gain"] + group["half_width"] < 0).sum()),
            "kept_equal": group["kept_equal"].mean(),
        })  # fmt: skip
    shares = [r["seconds_neighbors"] / (r["seconds_neighbors"] + r["seconds_fits"]) for r in records]
    return pd.DataFrame(rows), per_table, {"neighbour_share_of_search": float(np.mean(shares))}


def draw(per_table, path):
    """One dot per table and score of the linear models: the default choice beside the paper's fixed ratio."""
    from matplotlib import pyplot

    titles = {
        "accuracy": "accuracy, points", "neg_mean_absolute_error": "MAE, % lower",
        "worst_decile": "worst decile, % lower", "max_error": "largest error, % lower",
    }  # fmt: skip
    figure, axes = pyplot.subplots(1, 4, figsize=(13, 5.2), layout="constrained")
    for ax, (score, title) in zip(axes, titles.items(), strict=True):
        rows = per_table[(per_table["model"] == "linear") & (per_table["score"] == score)]
        for arm, colour, label in (
            ("paper", "#b0b0b0", "fixed m=40, k=20"),
            ("cv:default", "#d94800", "chosen by evidence"),
        ):
            part = rows[rows["arm"] == arm].sort_values("table")
            ax.errorbar(
                part["gain"],
                part["table"],
                xerr=part["half_width_uncorrected"],
                fmt="o",
                ms=4,
                lw=1,
                color=colour,
                label=label,
            )
        ax.axvline(0, color="black", lw=0.8)
        ax.set_xlim(-8, 8)
        ax.set_title(title, fontsize=10)
        ax.tick_params(labelsize=7)
    axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    figure.suptitle("Gain over equal weights on held-out splits, 95 % intervals (cut at ±8)", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def summary(options):
    paths = options.input or sorted(RESULTS.glob("weighting-*.jsonl"))
    overall, per_table, cost = summarize(paths)
    with pd.option_context("display.width", 200, "display.max_rows", 500):
        print(overall.round(3).to_string(index=False))
    print(cost)
    versions = {name: version(name) for name in ("steep", "numpy", "scikit-learn")} | {
        "python": platform.python_version()
    }
    record = {"command": "python benchmarks/weighting.py summary", "versions": versions, "cost": cost}
    record |= {
        "overall": overall.round(4).to_dict("records"),
        "tables": per_table.round(4).to_dict("records"),
    }
    if not options.input:
        draw(per_table, RESULTS.parents[1] / "docs" / "images" / "weighting.png")
        (RESULTS / "weighting.json").write_text(json.dumps(record, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument(
        "--data", type=Path, help="folder of CSV tables, target last; default: tables of installed packages"
    )
    runner.add_argument("--model", choices=("linear", "mlp", "boosting"), default="linear")
    runner.add_argument("--task", nargs="+", default=list(SCORES), choices=list(SCORES))
    runner.add_argument("--only", nargs="+", help="names of tables")
    runner.add_argument("--seeds", type=int, default=10)
    runner.add_argument("--first-seed", type=int, default=0)
    runner.add_argument("--n-train", type=int, default=1500, help="training samples at most")
    runner.add_argument("--repeats", type=int, default=2, help="repeats of the 5 inner folds")
    runner.add_argument("--confidence", type=float, default=0.5)
    runner.add_argument("--keep-candidates", action="store_true")
    runner.add_argument("--n-jobs", type=int, default=1)
    runner.add_argument("--output", type=Path)
    runner.set_defaults(call=run)
    ruler = commands.add_parser("rules")
    ruler.add_argument("--input", type=Path, nargs="+", required=True)
    ruler.set_defaults(call=rules)
    coster = commands.add_parser("cost")
    coster.add_argument("--data", type=Path)
    coster.set_defaults(call=cost)
    summer = commands.add_parser("summary")
    summer.add_argument("--input", type=Path, nargs="+")
    summer.set_defaults(call=summary)
    options = parser.parse_args()
    options.call(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
