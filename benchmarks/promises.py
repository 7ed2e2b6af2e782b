"""Does the search keep its promises? Stated against realised gains, fits, agreement, and searches without a gain.

    python benchmarks/fresh_tables.py FOLDER
    python benchmarks/promises.py run --data FOLDER --half unseen      # resumable, one JSON line per search
    python benchmarks/promises.py null --data FOLDER --half unseen     # labels in which no weighting can help
    python benchmarks/promises.py summary

The tables of ``fresh_tables.py``, at most 400 training rows (LightGBM 350). Every second table of each task was used
while the race, the default confidence and the correction of the stated gain were settled ("tuned"); the others were not
("unseen"). On every outer split the default search of ``VarianceWeightedCV`` is made with a linear model (logistic or
ridge regression), a support vector machine and LightGBM (up to four classes), scored by accuracy or by the mean
absolute error, without controls. The *stated* gain is ``gain_``; the *seen* one is the mean over the folds, which was
stated before; the *realised* one is measured on the outer test part. For SVM and LightGBM the same search is made
without racing too ("full"). ``run --controls`` adds a robust loss as a control, by MAE, for ridge regression.

``null`` gives the inputs of the tables random labels, half of each class, so that any classifier is right in half of
all cases, or a linear target with Gaussian noise of one size, and counts how often equal weights are kept.
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
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, SVR

from reproduction.records import Records, machine, write_json
from steep import VarianceWeightedCV, WeightSearch
from steep.metrics import resolve_scorers
from tables import load_tables
from weighting import split_and_scale

RESULTS = Path(__file__).parent / "results"
SCORES = {"classification": "accuracy", "regression": "neg_mean_absolute_error"}
SEEDS = {"linear": 8, "svm": 5, "lightgbm": 2}
ROWS = {"linear": 400, "svm": 400, "lightgbm": 350}
MOST_CLASSES = {"lightgbm": 4}
NULL_ROWS = {"linear": 300, "svm": 200, "ridge": 300}
HALVES = {"tuned": 0, "unseen": 1}
# Targets that are exact linear functions of the inputs: there weights only undo the penalty of a ridge regression.
EXACT = ("boom_bikes", "excitation_current")


def model_of(name, task):
    """An estimator with its default settings."""
    is_classes = task == "classification"
    if name == "linear":
        return LogisticRegression() if is_classes else Ridge()
    if name == "svm":
        return SVC() if is_classes else SVR()
    from lightgbm import LGBMClassifier, LGBMRegressor

    return (LGBMClassifier if is_classes else LGBMRegressor)(verbose=-1, n_jobs=1)


def tables_of(folder, half):
    """Every second table of each task."""
    return {t.name: t for task in SCORES for t in list(load_tables(folder, task))[HALVES[half] :: len(HALVES)]}


def searched(model, score, data, test, seed, **options):
    """One search: what it stated, what that realised on the test part, and what it cost."""
    started = time.process_time()
    search = VarianceWeightedCV(model, scoring=score, random_state=seed, **options).fit(*data)
    seconds = time.process_time() - started
    (scorer,) = resolve_scorers(model, score).values()
    equal = float(scorer(clone(model).fit(*data), *test))
    seen = float(search.cv_results_[f"mean_gain_{score}"][search.best_index_])
    return {
        "chosen": {name: value for name, value in search.best_params_.items() if name != "estimator"},
        "stated": search.gain_,
        "seen": seen,
        "realised": float(scorer(search, *test)) - equal,
        "equal": equal,
        "fits": search.n_fits_,
        "folds": search.n_splits_,
        "seconds": seconds,
    }


def run_split(table, name, seed, controls):
    """The default search of one outer split, and the full one for models that race."""
    X, y, X_test, y_test = split_and_scale(table, seed, ROWS[name])
    model, score = model_of(name, table.task), SCORES[table.task]
    arguments = (model, score, (X, y), (X_test, y_test), seed)
    if controls:
        return {"default": searched(*arguments)}
    found = {"default": searched(*arguments, search=WeightSearch(controls=()))}
    if name != "linear":
        found["full"] = searched(*arguments, search=WeightSearch(controls=(), shortcuts="exact"))
    return found


def run(options):
    records = Records(options.output)
    tables = tables_of(options.data, options.half)
    arms = ["linear with controls"] if options.controls else options.models
    keys = [
        (name, arm, seed)
        for arm in arms
        for seed in range(SEEDS[arm.split()[0]])
        for name, table in tables.items()
        if table.task == "regression" or (not options.controls and _classes(table) <= MOST_CLASSES.get(arm, 99))
    ]
    for key in records.missing(keys):
        table = tables[key[0]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = run_split(table, key[1].split()[0], key[2], options.controls)
        records.add(*key, settings={"task": table.task, "half": options.half}, result=result)
        print(*key, {arm: (r["fits"], r["chosen"]["weight_ratio"]) for arm, r in result.items()}, flush=True)


def _classes(table):
    return len(np.unique(table.y))


def null(options):
    records = Records(options.output)
    tables = tables_of(options.data, options.half)
    keys = [(name, f"null {arm}", seed) for arm in NULL_ROWS for seed in range(options.repeats) for name in tables]
    for key in records.missing(keys):
        name, arm = key[0], key[1].removeprefix("null ")
        rng = np.random.default_rng([key[2], *name.encode()])
        X = tables[name].X[rng.permutation(len(tables[name].X))[: NULL_ROWS[arm]]]
        X = ((X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1))[:, X.std(axis=0) > 0]
        if arm == "ridge":
            y = X @ rng.normal(size=X.shape[1]) / np.sqrt(X.shape[1]) + rng.normal(size=len(X))
        else:
            y = rng.permutation(np.arange(len(X)) % 2)
        task = "regression" if arm == "ridge" else "classification"
        model = model_of("svm" if arm == "svm" else "linear", task)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = VarianceWeightedCV(
                model, scoring=SCORES[task], search=WeightSearch(controls=()), random_state=key[2]
            ).fit(X, y)
        result = {"kept": search.best_params_ == {"weight_ratio": 1.0}, "fits": search.n_fits_}
        records.add(*key, settings={"half": options.half}, result=result)


def summary(options):
    rows, nulls, controls = [], [], []
    for line in Records(options.output):
        names = {"table": line["experiment"], "model": line["arm"], "seed": line["seed"], **line["settings"]}
        if line["arm"].startswith("null"):
            nulls.append(names | line["result"])
        elif line["arm"].endswith("controls"):
            controls.append(names | line["result"]["default"])
        else:
            rows.append(names | _row(line["result"], line["settings"]["task"]))
    record = {"command": "python benchmarks/promises.py summary"}
    record |= {"versions": machine(["steep", "numpy", "scikit-learn", "lightgbm"])["versions"]}
    frame = pd.DataFrame(rows)
    for half, group in sorted(frame.groupby("half"), reverse=True):
        record[half] = {
            "gains": _gains(group),
            "worse": _worse(group),
            "race": {name: _race(some) for name, some in group.dropna(subset="same").groupby("model")},
            "null": _null(pd.DataFrame(nulls).query("half == @half")),
            "controls": _controls(pd.DataFrame(controls).query("half == @half")) if controls else {},
        }
    record["all"] = {"gains": _gains(frame), "worse": _worse(frame), "null": _null(pd.DataFrame(nulls))}
    write_json(options.output.with_suffix(".json"), record)
    import json

    print(json.dumps(record, indent=1))


def _row(result, task):
    """Gains in points of accuracy or per cent of the error; agreement with the full search."""
    found = result["default"]
    whole = 1.0 if task == "classification" else abs(found["equal"])
    gains = {name: 100 * found[name] / whole for name in ("stated", "seen", "realised")}
    row = gains | {"weighted": found["chosen"]["weight_ratio"] != 1, "fits": found["fits"], "same": None}
    if full := result.get("full"):
        row["same"] = (full["chosen"]["weight_ratio"] != 1) == row["weighted"]
        row["same_candidate"] = full["chosen"] == found["chosen"]
        row |= {"fits_full": full["fits"], "realised_full": 100 * full["realised"] / whole}
    return row


def _gains(frame):
    """Stated and realised gains of the searches that chose weights, by task and over both."""
    chosen = frame[frame["weighted"]]
    groups = {"all": chosen, "without exact targets": chosen[~chosen["table"].isin(EXACT)]}
    groups |= dict(iter(chosen.groupby("task"))) | dict(iter(chosen.groupby("model")))
    found = {}
    for name, some in groups.items():
        means = some[["seen", "stated", "realised"]].mean()
        found[str(name)] = {k: round(float(v), 3) for k, v in means.items()} | {
            "searches": len(some),
            "seen_over_realised": round(float(means["seen"] / means["realised"]), 3),
            "stated_over_realised": round(float(means["stated"] / means["realised"]), 3),
        }
    return found


def _worse(frame):
    """Tables and models whose mean realised gain is significantly below or above 0 over the splits."""
    counts = {"worse": 0, "better": 0, "pairs": 0, "mean_realised": round(float(frame["realised"].mean()), 3)}
    for _, some in frame.groupby(["table", "model"]):
        values = some["realised"].to_numpy()
        counts["pairs"] += int(len(values) > 2)  # two splits say nothing about one table
        if len(values) > 2 and values.std() > 0:
            half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
            counts["worse"] += int(values.mean() < -half)
            counts["better"] += int(values.mean() > half)
    return counts


def _race(frame):
    return {
        "searches": len(frame),
        "median_fits": float(frame["fits"].median()),
        "mean_fits": round(float(frame["fits"].mean()), 1),
        "median_fits_full": float(frame["fits_full"].median()),
        "same_decision": round(float(frame["same"].astype(bool).mean()), 3),
        "same_candidate": round(float(frame["same_candidate"].astype(bool).mean()), 3),
        "weighted": round(float(frame["weighted"].mean()), 3),
        "realised": round(float(frame["realised"].mean()), 3),
        "realised_full": round(float(frame["realised_full"].mean()), 3),
    }


def _null(frame):
    """Share of searches that kept equal weights, with a 95 % interval."""
    found = {}
    for name, some in [("all", frame), *frame.groupby("model")]:
        low, high = stats.binomtest(int(some["kept"].sum()), len(some)).proportion_ci(method="wilson")
        found[str(name)] = {
            "kept": round(float(some["kept"].mean()), 3), "low": round(low, 3), "high": round(high, 3),
            "searches": len(some),
        }  # fmt: skip
    return found


def _controls(frame):
    """How often a robust loss, weights and equal weights were chosen, and what that realised in per cent."""
    kind = [c.get("control") or ("weights" if c["weight_ratio"] != 1 else "equal weights") for c in frame["chosen"]]
    gain = 100 * frame["realised"] / frame["equal"].abs()
    return pd.DataFrame({"kind": kind, "gain": gain}).groupby("kind")["gain"].agg(["size", "mean"]).round(3).T.to_dict()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--models", nargs="+", default=list(SEEDS), choices=list(SEEDS))
    runner.add_argument("--controls", action="store_true")
    runner.set_defaults(call=run)
    simulator = commands.add_parser("null")
    simulator.add_argument("--repeats", type=int, default=8)
    simulator.set_defaults(call=null)
    for command in (runner, simulator):
        command.add_argument("--data", type=Path, required=True)
        command.add_argument("--half", choices=list(HALVES), required=True)
    summer = commands.add_parser("summary")
    summer.set_defaults(call=summary)
    for command in (runner, simulator, summer):
        command.add_argument("--output", type=Path, default=RESULTS / "promises.jsonl")
    options = parser.parse_args()
    options.call(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
