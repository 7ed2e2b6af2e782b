"""Does weighing help? The battery: tables × models × splits, every arm paired with equal weights.

    python benchmarks/weighting.py run --data FOLDER --model linear      # resumable, one JSON line per split
    python benchmarks/weighting.py run --data FOLDER --measures noise …  # measures beside the default's
    python benchmarks/weighting.py summary                               # tables, written beside the lines
    python benchmarks/weighting.py ratios --data FOLDER                  # one ratio for every table
    python benchmarks/weighting.py rules                                 # how measures and rule were settled

A search per split scores every candidate (measure × k × ratio) on the training part alone; each arm is a
choice from those candidates, refitted and scored once on the outer test part that no choice saw. The
measures and the rule of choice were settled on development splits (``--first-seed 100 --keep-candidates``,
then ``rules``): other splits of the same tables, none of them among the results. ``benchmarks/fresh_tables.py``
makes a folder of tables that no choice has seen.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor

from reproduction.records import Records, machine, write_json
from steep import VarianceWeightedCV, WeightSearch, neighbor_variance
from steep.evidence import weigh_evidence
from steep.measures import MEASURES
from steep.metrics import resolve_scorers
from steep.rescaling import Rescaling, rescale
from steep.weighting.candidates import default_measures
from steep.weighting.fitting import task_of
from steep.weighting.weights import TrainingSet, measure_samples
from tables import load_tables

RESULTS = Path(__file__).parent / "results"
DEVELOPMENT = RESULTS / "weighting-development.jsonl.gz"
LENIENT = 0.5  # the arms that do not say otherwise
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
    ("mlp", "regression"): MLPRegressor(hidden_layer_sizes=(16,), max_iter=60, learning_rate_init=0.01, random_state=0),
    ("boosting", "classification"): HistGradientBoostingClassifier(early_stopping=False, random_state=0),
    ("boosting", "regression"): HistGradientBoostingRegressor(early_stopping=False, random_state=0),
}
# The paper's measure beside the default ones of VarianceWeightedCV; "border" is for classes alone.
MENU = ("variance", "misfit", "border")
RATIOS = {
    "linear": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 40.0, 100.0),
    "mlp": (0.1, 1.0, 10.0),
    "boosting": (0.1, 1.0, 10.0),
}


def sizes_of(measure, task):
    """The k to try: the defaults for the default measures, the paper's for the others."""
    if task == "classification":
        return (1, 5) if MEASURES[measure].needs == "model" else (20,)
    return (1, 5, 20) if measure in ("variance", "misfit") else (20,)


def split_and_scale(table, seed, n_train):
    """Outer split; inputs, and regression targets, scaled by the training part."""
    stratify = table.y if table.task == "classification" else None
    keep = min(n_train, int(0.7 * len(table.X)))
    rest = min(len(table.X) - keep, 5000)
    parts = train_test_split(table.X, table.y, train_size=keep, test_size=rest, random_state=seed, stratify=stratify)
    X, X_test, y, y_test = parts
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread[spread == 0] = 1
    if table.task == "regression":
        y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
    return (X - mean) / spread, y, (X_test - mean) / spread, y_test


def arms_of(menu, default):
    """Name → measures an arm may choose from."""
    arms = {f"cv:{m}": (m,) for m in menu}
    return arms | {"cv:default": default} if set(default) <= set(menu) else arms


def search_all(model, menu, X, y, seed, model_name, task, repeats):
    """One table of candidates; searches with the same seed share their folds, and so the control."""
    tables, scorers = [], {}
    for sizes in sorted({sizes_of(m, task) for m in menu}):
        search = VarianceWeightedCV(
            model, measure=[m for m in menu if sizes_of(m, task) == sizes], n_neighbors=sizes,
            weight_ratio=RATIOS[model_name], scoring=list(SCORES[task]), embedding=None,
            # Racing would drop by the first score what the others need.
            search=WeightSearch(n_repeats=repeats, shortcuts="exact"), random_state=seed,
        ).fit(X, y)  # fmt: skip
        frame = pd.DataFrame(search.cv_results_)
        tables.append(frame if not tables else frame[frame["measure"].notna()])
        scorers = search.scorers_
    return pd.concat(tables, ignore_index=True), scorers


def run_split(table, model_name, seed, options):
    """All arms on one outer split: key, settings and result of one line."""
    started = time.perf_counter()
    model, scores = MODELS[model_name, table.task], SCORES[table.task]
    menu = [m for m in options.measures if table.task == "classification" or m != "border"]
    X, y, X_test, y_test = split_and_scale(table, seed, options.n_train)
    default = default_measures(model, TrainingSet.check(X, y, embedding=None, task=task_of(model)))
    line = {"arms": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, UserWarning))
        results, scorers = search_all(model, menu, X, y, seed, model_name, table.task, options.repeats)
        tester = Tester(model, X, y, X_test, y_test, scorers, table.task)
        for score in scores:
            for arm, menu_of_arm in arms_of(menu, default).items():
                chosen = choose(results, score, menu_of_arm, options.confidence, seed)
                line["arms"][f"{arm}|{score}"] = [chosen, tester.gain(chosen, score)]
            if "cv:default" in arms_of(menu, default):
                strict = choose(results, score, default, STRICT, seed)
                line["arms"][f"cv:strict|{score}"] = [strict, tester.gain(strict, score)]
                line["arms"][f"paper|{score}"] = [PAPER, tester.gain(PAPER, score)]
            line["arms"][f"equal|{score}"] = [None, tester.score(None, score)]
        if options.keep_candidates:
            line["candidates"] = tester.every_candidate(results)
    line["seconds"] = round(time.perf_counter() - started, 2)
    return (table.name, model_name, seed), {"task": table.task, "n_train": len(X)}, line


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

    def __init__(self, model, X, y, X_test, y_test, scorers, task):
        self.model, self.data, self.test, self.scorers = model, (X, y), (X_test, y_test), scorers
        self.task = task
        self.cache, self.variation = {}, {}

    def measured(self, measure, k):
        """Variation of the training part; all k of a measure at once."""
        if (measure, k) not in self.variation:
            found = MEASURES[measure]
            samples = TrainingSet.check(*self.data, embedding=None, task=task_of(self.model))
            sizes = sorted(s for s in {k, *sizes_of(measure, self.task)} if s >= found.smallest_k)
            measured = measure_samples(samples, {found: sizes}, estimator=self.model)
            self.variation |= {(measure, size): values for (_, size), values in measured.variation.items()}
        return self.variation[measure, k]

    def score(self, candidate, score):
        """Score on the outer test part; None is equal weights."""
        key = tuple(candidate) if candidate else None
        if key not in self.cache:
            weights = np.ones(len(self.data[0]))
            if key is not None:
                clip = None if key == PAPER else 0.98
                weights = rescale(self.measured(*key[:2]), weight_ratio=key[2], rescaling=Rescaling(clip=clip))
            fitted = clone(self.model).fit(*self.data, sample_weight=weights)
            self.cache[key] = {name: float(scorer(fitted, *self.test)) for name, scorer in self.scorers.items()}
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
                gain = round(self.gain(candidate, score), 5)
                rows.append([*candidate, score, np.round(differences, 5).tolist(), gain])
        return rows


def run(options):
    records = Records(options.output or RESULTS / f"weighting-{options.model}.jsonl")
    tables = [t for task in SCORES for t in load_tables(options.data, task) if task in options.task]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    named = {t.name: t for t in tables if not options.only or t.name in options.only}
    jobs = list(records.missing((name, options.model, seed) for seed in seeds for name in named))
    lines = Parallel(options.n_jobs, return_as="generator_unordered")(
        delayed(run_split)(named[name], model, seed, options) for name, model, seed in jobs
    )
    for count, (key, settings, result) in enumerate(lines, start=1):
        records.add(*key, settings=settings, result=result)
        print(f"{count}/{len(jobs)} {key[0]} seed {key[2]}: {result['seconds']} s", flush=True)


def read(path):
    """The lines of a file of results, packed or not, each as one mapping."""
    for line in Records(path):
        names = {"table": line["experiment"], "model": line["arm"], "seed": line["seed"]}
        yield names | line["settings"] | line["result"]


def rules(options):
    """Gain on development splits by measure and by how sure to be; tables significantly better and worse."""
    records = [record for path in options.input for record in read(path)]
    rows = []
    for record in records:
        frame = pd.DataFrame(record["candidates"], columns=["measure", "k", "ratio", "score", "folds", "gain"])
        whole = {s: 1.0 if s == "accuracy" else abs(record["arms"][f"equal|{s}"][1]) for s in frame["score"].unique()}
        for (score, group), (name, menu) in product(frame.groupby("score"), menus_of(frame).items()):
            group = group[[pair in menu for pair in zip(group["measure"], group["k"], strict=True)]]
            differences = np.array(group["folds"].tolist())
            for confidence in (0.3, 0.5, 0.7, 0.84, 0.95, 0.98):
                evidence = weigh_evidence(differences, 0.25, confidence, np.random.default_rng(0))
                gain = 0.0 if evidence.chosen is None else group["gain"].iloc[evidence.chosen]
                rows.append((score, name, confidence, record["table"], 100 * gain / whole[score]))
    frame = pd.DataFrame(rows, columns=["score", "menu", "confidence", "table", "gain"])
    per_table = frame.groupby(["score", "menu", "confidence", "table"])["gain"].agg(list)
    figures = per_table.groupby(level=[0, 1, 2]).agg(settle).apply(pd.Series).reset_index()
    with pd.option_context("display.width", 200, "display.max_rows", 500):
        print(figures.round(3).to_string(index=False))
    record = {"command": "python benchmarks/weighting.py rules", "tables": sorted(frame["table"].unique())}
    record |= {"splits": len(records), "figures": figures.round(3).to_dict("records")}
    write_json(RESULTS / "weighting-development.json", record)


def menus_of(frame):
    """Every measure and k alone, the default ones together, and the paper's beside them."""
    pairs = sorted(set(zip(frame["measure"], frame["k"], strict=True)))
    menus = {f"{measure}, k={k}": {(measure, k)} for measure, k in pairs}
    asked = {(measure, k) for measure, k in pairs if measure in MEASURES and MEASURES[measure].needs == "model"}
    with_variance = asked | {("variance", 20)}
    if "accuracy" not in set(frame["score"]):
        few = {("misfit", 1), ("misfit", 5)}
        return menus | {"default": with_variance, "without variance": asked, "misfit, k=1 and 5": few}
    if "border" not in set(frame["measure"]):
        return menus  # trials from before "border" was squared
    return menus | {"default": asked, "with variance": with_variance}


def settle(tables):
    """Mean gain over tables, and how many are better or worse at 95 % (as far as few splits can tell)."""
    means, halves = np.array([(mean, plain) for mean, _, plain in map(interval, tables)]).T
    counts = {"wins": int((means > halves).sum()), "losses": int((means < -halves).sum())}
    return {"mean_gain": float(means.mean())} | counts | {"worst_table": float(means.min())}


FIXED = (0.1, 0.25, 0.5, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 40.0)


def ratios(options):
    """Gain of one ratio for every table, by the paper's measure and k, on development splits (seeds from 100)."""
    rows = []
    for table in [t for task in SCORES for t in load_tables(options.data, task)]:
        task, equal = table.task, {}
        for seed in range(100, 100 + options.seeds):
            X, y, X_test, y_test = split_and_scale(table, seed, options.n_train)
            variation = neighbor_variance(X, y, n_neighbors=20, task=task)
            model, scorers = MODELS["linear", task], resolve_scorers(MODELS["linear", task], list(SCORES[task]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                for clip, ratio in [(None, 1.0), *product((None, 0.98), FIXED)]:
                    weights = rescale(variation, weight_ratio=ratio, rescaling=Rescaling(clip=clip))
                    fitted = clone(model).fit(X, y, sample_weight=weights)
                    found = {name: float(scorer(fitted, X_test, y_test)) for name, scorer in scorers.items()}
                    equal = found if ratio == 1 else equal
                    for name in () if ratio == 1 else found:
                        whole = 1.0 if name == "accuracy" else abs(equal[name])
                        gain = 100 * (found[name] - equal[name]) / whole
                        rows.append((name, "none" if clip is None else clip, ratio, table.name, gain))
    frame = pd.DataFrame(rows, columns=["score", "clip", "ratio", "table", "gain"])
    per_table = frame.groupby(["score", "clip", "ratio", "table"])["gain"].agg(list)
    figures = per_table.groupby(level=[0, 1, 2]).agg(settle).apply(pd.Series).reset_index()
    print(figures.round(3).to_string(index=False))
    record = {"command": "python benchmarks/weighting.py ratios", "splits": options.seeds, "n_train": options.n_train}
    record |= {"tables": sorted(frame["table"].unique()), "figures": figures.round(4).to_dict("records")}
    write_json(RESULTS / "weighting-ratios.json", record)


def warm_up(model):
    """One search on made-up data of several widths: compiled kernels are loaded once per process."""
    rng = np.random.default_rng(0)
    for width in (3, 8, 30):
        X = rng.normal(size=(1500, width))
        y = X[:, 0] + rng.normal(size=1500)
        y = (y > 0).astype(int) if hasattr(model, "predict_proba") else y
        VarianceWeightedCV(model, weight_ratio=(1, 3), random_state=0).fit(X, y)


def interval(values):
    """Mean and 95 % interval over outer splits, corrected for their overlap (test share 0.3)."""
    from scipy import stats

    values = np.asarray(values, float)
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) * np.sqrt(1 / len(values) + 0.3 / 0.7)
    plain = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean(), half, plain


def summarize(paths):
    """Per model, task, score and arm: mean gain over tables, wins, ties and losses at 95 %."""
    records = [record for path in paths for record in read(path)]
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
            "mean_gain": group["gain"].mean(), "median_gain": group["gain"].median(), "tables": len(group),
            "wins": int((group["gain"] - group["half_width_uncorrected"] > 0).sum()),
            "losses": int((group["gain"] + group["half_width_uncorrected"] < 0).sum()),
            "wins_corrected": int((group["gain"] - group["half_width"] > 0).sum()),
            "losses_corrected": int((group["gain"] + group["half_width"] < 0).sum()),
            "kept_equal": group["kept_equal"].mean(),
        })  # fmt: skip
    return pd.DataFrame(rows), per_table


def draw(per_table, path):
    """One dot per table and score of the linear models: the default choice beside the paper's fixed ratio."""
    from matplotlib import pyplot

    titles = {
        "accuracy": ("accuracy, points", 6.5), "neg_mean_absolute_error": ("MAE, % lower", 12),
        "worst_decile": ("worst decile, % lower", 12), "max_error": ("largest error, % lower", 30),
    }  # fmt: skip
    figure, axes = pyplot.subplots(1, 4, figsize=(13, 5.2), layout="constrained")
    for ax, (score, (title, limit)) in zip(axes, titles.items(), strict=True):
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
        ax.set_xlim(-limit, limit)
        ax.set_title(title, fontsize=10)
        ax.tick_params(labelsize=7)
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=9, ncols=2, loc="outside lower center")
    figure.suptitle("Gain over equal weights on held-out splits, 95 % intervals (cut at the axes)", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def summary(options):
    paths = options.input or sorted(RESULTS.glob("weighting-linear*.jsonl")) + [
        path for name in ("mlp", "boosting") if (path := RESULTS / f"weighting-{name}.jsonl").exists()
    ]
    overall, per_table = summarize(paths)
    with pd.option_context("display.width", 200, "display.max_rows", 500):
        print(overall.round(3).to_string(index=False))
    versions = machine(["steep", "numpy", "scikit-learn"])["versions"]
    record = {"command": "python benchmarks/weighting.py summary", "versions": versions}
    record |= {"overall": overall.round(4).to_dict("records"), "tables": per_table.round(4).to_dict("records")}
    target = options.output or (None if options.input else RESULTS / "weighting.json")
    if target:
        write_json(target, record)
    if not options.input:
        draw(per_table, RESULTS.parents[1] / "docs" / "images" / "weighting.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument(
        "--data", type=Path, help="folder of CSV tables, target last; default: tables of installed packages"
    )
    runner.add_argument("--measures", nargs="+", default=list(MENU), choices=list(MEASURES))
    runner.add_argument("--model", choices=("linear", "mlp", "boosting"), default="linear")
    runner.add_argument("--task", nargs="+", default=list(SCORES), choices=list(SCORES))
    runner.add_argument("--only", nargs="+", help="names of tables")
    runner.add_argument("--seeds", type=int, default=10)
    runner.add_argument("--first-seed", type=int, default=0)
    runner.add_argument("--n-train", type=int, default=4000, help="training samples at most")
    runner.add_argument("--repeats", type=int, default=2, help="repeats of the 5 inner folds")
    runner.add_argument("--confidence", type=float, default=LENIENT)
    runner.add_argument("--keep-candidates", action="store_true")
    runner.add_argument("--n-jobs", type=int, default=1)
    runner.add_argument("--output", type=Path)
    runner.set_defaults(call=run)
    fixed = commands.add_parser("ratios")
    fixed.add_argument("--data", type=Path)
    fixed.add_argument("--seeds", type=int, default=6)
    fixed.add_argument("--n-train", type=int, default=1000)
    fixed.set_defaults(call=ratios)
    ruler = commands.add_parser("rules")
    ruler.add_argument("--input", type=Path, nargs="+", default=[DEVELOPMENT])
    ruler.set_defaults(call=rules)
    summer = commands.add_parser("summary")
    summer.add_argument("--input", type=Path, nargs="+")
    summer.add_argument("--output", type=Path)
    summer.set_defaults(call=summary)
    options = parser.parse_args()
    options.call(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
