"""Do suspects find the labels that are wrong? Tables and images with labels made wrong on purpose, peers side by side.

    python benchmarks/suspects.py tables --data FOLDER... --part development   # what the rule was settled on
    python benchmarks/suspects.py tables --data FOLDER... --part unseen        # resumable, one JSON line a run
    python benchmarks/suspects.py images                                       # MNIST and CIFAR-10, STEEP_DATA
    python benchmarks/suspects.py real --data FOLDER                           # real wrong labels, probabilities given
    python benchmarks/suspects.py numbers --data FOLDER... --real FOLDER       # against CleanLearning, real errors too
    python benchmarks/suspects.py refit --data FOLDER...                       # drop or correct, then fit again
    python benchmarks/suspects.py count --data FOLDER...                       # how many labels are wrong
    python benchmarks/suspects.py speed                                        # 1,000,000 × 64 on one core
    python benchmarks/suspects.py summary                                      # tables, written beside the lines

FOLDER are folders of CSV tables, target last (``suspect_tables.py`` says which tables are which and makes those
that are not at hand). Every arm of a run sees the same wrong labels; steep and cleanlab also see the same
cross-fitted probabilities (a forest of 100 trees, five parts). Data-OOB has as many trees as the five forests
together; the arms called out-of-bag see the out-of-bag probabilities of those same trees, which is what
``steep.suspects`` uses when no model is passed. The figure is the average precision of the ranking, for which
wrong labels are the positives.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from cleanlab.rank import get_label_quality_scores
from cleanlab.regression.rank import get_label_quality_scores as get_number_quality_scores
from scipy import stats
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

import steep
from data_oob import data_oob
from reproduction.records import Records, cpu_seconds, machine, write_json
from steep.metrics import paired_interval
from suspect_tables import LISTS, load
from tables import load_tables
from wrong_labels import CLASS_KINDS, NUMBER_KINDS, spoil

RESULTS = Path(__file__).parent / "results"
KINDS = {"classification": CLASS_KINDS, "regression": NUMBER_KINDS[:3]}
METHODS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
N_TREES, N_PARTS = 100, 5


def cleanlab_scores(given, predicted):
    """Every way cleanlab ranks labels by the same probabilities; it rejects to adjust the third."""
    found = {}
    for method in METHODS:
        for adjusted in (False, True)[: 1 if method == METHODS[2] else 2]:
            quality = get_label_quality_scores(given, predicted, method=method, adjust_pred_probs=adjusted)
            found[f"cleanlab {method}{' adjusted' if adjusted else ''}"] = -quality
    return found


def rank_classes(X, given, seed):
    """Scores by arm, larger is more suspect, and what steep says of how many are wrong."""
    forest = RandomForestClassifier(N_TREES, random_state=seed)
    parts = StratifiedKFold(N_PARTS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class of fewer samples than parts, and its missing columns
        predicted = cross_val_predict(forest, X, given, cv=parts, method="predict_proba")
    given = np.unique(given, return_inverse=True)[1]  # a class may have lost all its labels
    found = steep.suspects(X, given, pred_probs=predicted, task="classification", random_state=seed)
    psi, out_of_bag = data_oob(X, given, N_TREES * N_PARTS, seed)
    again = steep.suspects(X, given, pred_probs=out_of_bag, task="classification", random_state=seed)
    scores = {
        "steep": found.score,
        "neighbors": -(given[found.indices] == given[:, None]).mean(axis=1),
        "data-oob": -psi,
        "steep, out-of-bag": again.score,
        "cleanlab normalized_margin, out-of-bag": cleanlab_scores(given, out_of_bag)["cleanlab normalized_margin"],
    }
    return scores | cleanlab_scores(given, predicted), found


def rank_numbers(X, given, seed):
    """The same for numbers; labels standardised for cleanlab, whose residual score is exp(−|residual|)."""
    forest = RandomForestRegressor(N_TREES, max_features=0.5, random_state=seed)
    parts = KFold(N_PARTS, shuffle=True, random_state=seed)
    predicted = cross_val_predict(forest, X, given, cv=parts)
    found = steep.suspects(X, given, predictions=predicted, task="regression", random_state=seed)
    mean, spread = given.mean(), given.std()
    scores = {"steep": found.score}
    for method in ("residual", "outre"):
        quality = get_number_quality_scores((given - mean) / spread, (predicted - mean) / spread, method=method)
        scores[f"cleanlab {method}"] = -quality
    return scores, found


def run_table(table, kind, rate, seed, n_rows):
    """Average precision of every arm on one table with one kind of wrong labels."""
    rows = np.random.default_rng(seed).permutation(len(table.y))[:n_rows]
    X, y = table.X[rows], table.y[rows]
    if table.task == "classification":
        y = np.unique(y, return_inverse=True)[1]
    given, wrong = spoil(kind, X, y, rate, np.random.default_rng([seed, KINDS[table.task].index(kind)]))
    scores, found = (rank_classes if table.task == "classification" else rank_numbers)(X, given, seed)
    return {
        "average_precision": {arm: average_precision_score(wrong, score) for arm, score in scores.items()},
        "n_samples": len(y),
        "n_wrong": int(wrong.sum()),
        "estimate": [found.n_wrong.mean, found.n_wrong.low, found.n_wrong.high],
        "reliability": reliability(wrong, found.score),
    }


def reliability(wrong, score):
    """[samples, sum of scores, wrong ones] of ten bins of the score."""
    place = np.minimum((10 * score).astype(int), 9)
    columns = [np.bincount(place, weights=w, minlength=10) for w in (np.ones(len(score)), score, wrong)]
    return np.round(np.transpose(columns), 3).tolist()


def tables(options):
    records = Records(options.output or RESULTS / f"suspects-{options.part}.jsonl")
    for task in options.task:
        found = {table.name: table for table in load(options.data, options.part, task)}
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            wanted = [
                (f"{name}|{kind}", f"{rate:g}", seed)
                for name in LISTS[options.part, task] for rate in options.rate for kind in KINDS[task]
            ]  # fmt: skip
            for experiment, rate, _ in records.missing(wanted):
                name, kind = experiment.split("|")
                with cpu_seconds() as spent:
                    result = run_table(found[name], kind, float(rate), seed, options.rows)
                settings = {"task": task, "rows": options.rows}
                records.add(experiment, rate, seed, result=result, settings=settings, seconds=spent["seconds"])
                print(experiment, rate, seed, f"{spent['seconds']:.1f} s", flush=True)


# ------------------------------------------------------------------------------------------ numbers

# Real erroneous targets: dataset/*.csv of cleanlab/regression-label-error-benchmark, commit 01fcbb5314a6.
REAL_NUMBERS = {
    "development": (
        "airquality_co", "metaphor_novelity_easy_diff", "standford_politeness_wiki", "telomere_cq_scg",
    ),
    "unseen": ("airquality_nmhc", "airquality_no2", "standford_politeness_stack", "telomere_cq_telo", "telomere_ts"),
}  # fmt: skip
N_NUMBERS, N_REAL = 1_000, 1_500


def real_numbers(folder, name):
    """Features, targets as given and which are wrong; texts as 50 components of their words."""
    frame = pd.read_csv(folder / f"{name}.csv")
    frame = frame.iloc[np.random.default_rng(0).permutation(len(frame))[:N_REAL]].reset_index(drop=True)
    given, wrong = frame["given_label"].to_numpy(float), frame["true_error"].to_numpy() == 1
    left_out = ["Unnamed: 0", "id", "meta.Binary", "given_label", "true_error", "true_label"]
    inputs = frame.drop(columns=left_out, errors="ignore")
    if "text" not in inputs:
        return pd.get_dummies(inputs, dtype=float).to_numpy(), given, wrong
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(min_df=2, sublinear_tf=True).fit_transform(inputs["text"])
    return TruncatedSVD(50, random_state=0).fit_transform(words), given, wrong


def against_cleaning(X, given, wrong):
    """Average precision of steep, of CleanLearning with LightGBM, and of a forest's residuals."""
    from cleanlab.regression.learn import CleanLearning
    from lightgbm import LGBMRegressor

    found = steep.suspects(X, given, task="regression", random_state=0)
    cleaning = CleanLearning(LGBMRegressor(verbose=-1, n_jobs=1, random_state=0), seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quality = cleaning.find_label_issues(X, given)["label_quality"].to_numpy()
    forest = RandomForestRegressor(N_TREES, max_features=0.5, random_state=0)
    predicted = cross_val_predict(forest, X, given, cv=KFold(N_PARTS, shuffle=True, random_state=0))
    scores = {"steep": found.score, "CleanLearning": -quality, "residual of a forest": np.abs(given - predicted)}
    return {
        "average_precision": {arm: round(average_precision_score(wrong, x), 4) for arm, x in scores.items()},
        "n_wrong": int(wrong.sum()),
        "n_samples": len(given),
        "estimate": [round(x, 1) for x in (found.n_wrong.mean, found.n_wrong.low, found.n_wrong.high)],
    }


def numbers(options):
    """Each table with two of the six kinds of errors, a tenth wrong, and the real errors of one half."""
    records = Records(options.output or RESULTS / f"suspects-numbers-{options.part}.jsonl")
    settings = {"rows": N_NUMBERS, "rate": 0.1}
    if options.real is not None:
        for name, *_ in records.missing([(name, "real", 0) for name in REAL_NUMBERS[options.part]]):
            result = against_cleaning(*real_numbers(options.real, name))
            records.add(name, "real", 0, result=result, settings={"rows": N_REAL})
            print(name, result["average_precision"], flush=True)
    tables = {table.name: table for table in load(options.data, options.part, "regression")}
    wanted = [
        (name, kind, 0) for i, name in enumerate(LISTS[options.part, "regression"])
        for j, kind in enumerate(NUMBER_KINDS) if (i + j) % 3 == 0
    ]  # fmt: skip
    for name, kind, seed in records.missing(wanted):
        table = tables[name]
        rows = np.random.default_rng(seed).permutation(len(table.y))[:N_NUMBERS]
        X, y = table.X[rows], table.y[rows]
        given, wrong = spoil(kind, X, y, 0.1, np.random.default_rng([seed, NUMBER_KINDS.index(kind)]))
        result = against_cleaning(X, given, wrong)
        records.add(name, kind, seed, result=result, settings=settings)
        print(name, kind, result["average_precision"], flush=True)


# ------------------------------------------------------------------------------------------ refit

REFIT = {
    "development": ("letter", "magic", "phoneme", "segment", "texture"),
    "unseen": (  # those of UNSEEN_CLASSES with 1,400 rows or more
        "banana", "chess", "contraceptive", "mushroom", "optdigits", "ring", "satimage", "splice", "titanic",
        "twonorm", "yeast",
    ),
}  # fmt: skip


def refit(options):
    """The share of the accuracy lost to wrong labels that dropping or correcting wins back, with LightGBM."""
    found = {part: {} for part in REFIT}
    tables = {table.name: table for folder in options.data for table in load_tables(folder, "classification")}
    for part, names in REFIT.items():
        for name in names:
            found[part][name] = refitted(tables[name])
            print(name, found[part][name], flush=True)
    means = {part: pd.DataFrame(rows).T.mean() for part, rows in found.items()}
    won = {
        part: ((mean - mean["as given"]) / (mean["true labels"] - mean["as given"])).round(3).to_dict()
        for part, mean in means.items()
    }
    print(won)
    record = {"tables": found, "means": {part: mean.round(4).to_dict() for part, mean in means.items()}}
    write_json(options.output or RESULTS / "suspects-refit.json", record | {"share_won_back": won} | machine())


def refitted(table):
    """Accuracy on clean rows of a third of the table, by the labels that LightGBM is fitted to."""
    from cleanlab.classification import CleanLearning
    from lightgbm import LGBMClassifier

    rows = np.random.default_rng(0).permutation(len(table.y))[:1_500]
    X, y = table.X[rows], np.unique(table.y[rows], return_inverse=True)[1]
    test = np.arange(len(y)) >= 1_000 * len(y) // 1_500
    rest, truth = X[~test], y[~test]
    given, _ = spoil("class", rest, truth, 0.2, np.random.default_rng(0))
    result = steep.suspects(rest, given, task="classification", random_state=0)
    doubted = result.score > 0.5
    fits = {
        "true labels": (rest, truth),
        "as given": (rest, given),
        "dropped": (rest[~doubted], given[~doubted]),
        "corrected": (rest, np.where(doubted, result.suggested, given)),
        "CleanLearning": (rest, given),
    }
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way, labelled in fits.items():
            model = LGBMClassifier(verbose=-1, n_jobs=1, random_state=0)
            model = CleanLearning(model, seed=0) if way == "CleanLearning" else model
            scores[way] = float((model.fit(*labelled).predict(X[test]) == y[test]).mean())
    return scores


# ------------------------------------------------------------------------------------------ images

IMAGE_RATES = (0.1, 0.2, 0.4)
N_TRAINED, N_LOOKED_AT, EPOCHS = 15_000, 20_000, 6


def features_of(name, rate, seed):
    """Features of images a small network was not trained on, and their true labels.

    The network is trained on other images whose labels are wrong at the same rate: no one has a clean set to
    train on where the labels are in doubt.
    """
    import torch
    from torch import nn

    from reproduction.data import Data
    from reproduction.networks import lenet5

    data = getattr(Data(), name)()
    rows = np.random.default_rng(seed).permutation(len(data.y_train))[: N_TRAINED + N_LOOKED_AT]
    images = torch.as_tensor(data.x_train[rows], dtype=torch.float32) / 255
    images = images[:, None] if images.ndim == 3 else images.permute(0, 3, 1, 2).contiguous()
    labels = data.y_train[rows].astype(int)
    network = lenet5(seed)
    if images.shape[1] == 3:  # 32 × 32 in colour: 5 × 5 pixels and three times the channels at the first layers
        torch.manual_seed(seed)
        first = [nn.Conv2d(3, 18, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(18, 48, 5), nn.ReLU(), nn.MaxPool2d(2)]
        network = nn.Sequential(*first, nn.Flatten(), nn.Linear(1200, 120), *list(network)[8:])
    noisy, _ = spoil("uniform", None, labels[:N_TRAINED], rate, np.random.default_rng([seed, 1]))
    fit_network(network, images[:N_TRAINED], torch.as_tensor(noisy), seed)
    with torch.no_grad():
        parts = [network[:-1](batch) for batch in images[N_TRAINED:].split(1000)]
        features = torch.cat(parts)
        logits = network[-1](features)
    return features.numpy(), torch.softmax(logits, dim=1).numpy(), labels[N_TRAINED:]


def fit_network(network, images, labels, seed):
    import torch
    from torch.nn import functional

    order = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images), generator=order).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()


def images(options):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    records = Records(options.output or RESULTS / "suspects-images.jsonl")
    wanted = [
        (name, f"{rate:g}", seed) for seed in range(options.seeds) for name in ("mnist", "cifar10")
        for rate in IMAGE_RATES
    ]  # fmt: skip
    for name, rate, seed in records.missing(wanted):
        with cpu_seconds() as spent:
            X, softmax, y = features_of(name, float(rate), seed)
            given, wrong = spoil("uniform", X, y, float(rate), np.random.default_rng([seed, 2]))
            head = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200, tol=1e-3))
            parts = StratifiedKFold(N_PARTS, shuffle=True, random_state=seed)
            fitted = cross_val_predict(head, X, given, cv=parts, method="predict_proba")
            result = {"accuracy": float(np.mean(softmax.argmax(axis=1) == y)), "n_samples": len(y)}
            for source, predicted in (("head", fitted), ("network", softmax)):
                scores = cleanlab_scores(given, predicted)
                found = steep.suspects(X, given, pred_probs=predicted, embedding=None, random_state=seed)
                scores["steep"] = found.score
                result[source] = {arm: average_precision_score(wrong, score) for arm, score in scores.items()}
                result[f"{source} estimate"] = [found.n_wrong.mean, found.n_wrong.low, found.n_wrong.high]
            result["n_wrong"] = int(wrong.sum())
        records.add(name, rate, seed, result=result, seconds=spent["seconds"])
        print(name, rate, seed, f"{spent['seconds']:.0f} s", flush=True)


# ------------------------------------------------------------------------------------------ real


def real(options):
    """Real wrong labels: probabilities of networks, of which the neighbours are searched too.

    Each .npz of the folder holds P (n_samples, n_classes), out-of-sample, the labels y as given, and t, the true ones.
    """
    found = {}
    for path in sorted(options.data.glob("*.npz")):
        data = np.load(path)
        predicted = data["P"].astype(np.float64)
        predicted /= predicted.sum(axis=1, keepdims=True)
        given, wrong = data["y"].astype(int), data["y"] != data["t"]
        result = steep.suspects(predicted, given, pred_probs=predicted, embedding=None, random_state=0)
        scores = {"steep": result.score} | one_line_scores(predicted, given)
        found[path.stem] = {
            "part": "development" if path.stem in REAL_DEVELOPMENT else "unseen",
            "average_precision": {arm: round(average_precision_score(wrong, x), 4) for arm, x in scores.items()},
            "n_samples": len(given),
            "n_wrong": int(wrong.sum()),
            "estimate": [round(x) for x in (result.n_wrong.mean, result.n_wrong.low, result.n_wrong.high)],
            "looks_per_wrong_label": looks(wrong, result.score),
        }
        print(path.stem, found[path.stem], flush=True)
    write_json(options.output or RESULTS / "suspects-real.json", {"cells": found} | machine())


def looks(wrong, score, left=0.05):
    """Labels looked at in the order of the score for each wrong one found, until a share ``left`` is wrong."""
    found = np.cumsum(wrong[np.argsort(-score, kind="stable")])
    wanted = int(np.ceil(wrong.sum() - left * len(wrong)))
    return round(float(np.searchsorted(found, wanted) + 1) / wanted, 3) if wanted > 0 else None


def one_line_scores(predicted, given):
    """Self-confidence and the margin of probabilities, larger is more suspect."""
    rows, others = np.arange(len(given)), predicted.copy()
    own, others[rows, given] = predicted[rows, given], -1.0
    return {"self-confidence": -own, "margin": others.max(axis=1) - own}


def count(options):
    """How many labels are wrong, and the ranking next to one-line scores of the same out-of-bag probabilities."""
    found = {}
    tables = [table for folder in options.data for table in load_tables(folder, "classification")]
    for table in (table for table in tables if table.name in SET_ASIDE):
        rows = np.random.default_rng(0).permutation(len(table.y))[:2000]
        X, y = table.X[rows], np.unique(table.y[rows], return_inverse=True)[1]
        for kind in CLASS_KINDS:
            for rate in (0.05, 0.2):
                given, wrong = spoil(kind, X, y, rate, np.random.default_rng([0, len(kind)]))
                given = np.unique(given, return_inverse=True)[1]
                result = steep.suspects(X, given, task="classification", random_state=0)
                scores = {"steep": result.score} | one_line_scores(result.predicted, given)
                found[f"{table.name} {kind} {rate:g}"] = {
                    "average_precision": {
                        arm: round(average_precision_score(wrong, x), 4) for arm, x in scores.items()
                    },
                    "n_wrong": int(wrong.sum()),
                    "estimate": [round(x, 1) for x in (result.n_wrong.mean, result.n_wrong.low, result.n_wrong.high)],
                }
        print(table.name, flush=True)
    held = sum(run["estimate"][1] <= run["n_wrong"] <= run["estimate"][2] for run in found.values())
    means = pd.DataFrame([run["average_precision"] for run in found.values()]).mean().round(4).to_dict()
    record = {"runs": found, "limits_hold": held, "of": len(found), "mean_average_precision": means}
    write_json(options.output or RESULTS / "suspects-count.json", record | machine())


# Tables that took no part in settling the limits of the count.
SET_ASIDE = ("heart", "magic", "page_blocks", "phoneme", "spambase", "wine")

# Cells on which the choice between the model and its neighbours was settled.
REAL_DEVELOPMENT = (
    "cifar10-sparse-resnet18", "cifar10-sparse-efficientnet_b1", "cifar10n-aggregate-efficientnet_b1",
)  # fmt: skip


# ------------------------------------------------------------------------------------------ speed


def made_features(n_samples, rng):
    """Features as a network gives them: ten classes, 64 columns, a dozen directions that matter; 5 % wrong labels."""
    y = rng.integers(0, 10, n_samples)
    directions = rng.normal(size=(12, 64))
    X = rng.normal(size=(10, 64))[y] + 0.6 * rng.normal(size=(n_samples, 12)) @ directions
    X += 0.3 * rng.normal(size=X.shape)
    given, wrong = spoil("uniform", X, y, 0.05, rng)
    return X.astype(np.float32), given, wrong


def speed(options):
    X, given, wrong = made_features(options.rows, np.random.default_rng(0))
    steep.suspects(X[:25_000], given[:25_000], random_state=0)  # compiles the engine
    with cpu_seconds() as spent:
        found = steep.suspects(X, given, random_state=0)
        table = found.table
    result = {
        "average_precision": average_precision_score(wrong, found.score),
        "cpu_seconds": round(spent["seconds"], 1),
        "wall_seconds": {stage: round(seconds, 1) for stage, seconds in found.seconds.items()},
        "rows": len(table),
        "features": X.shape[1],
    }
    print(result)
    write_json(options.output or RESULTS / "suspects-speed.json", result | machine())


# ------------------------------------------------------------------------------------------ summary


def summarize(lines, peers, task):
    """Mean average precision by arm and kind; per table, how far steep is from each peer."""
    rows = [
        {"table": name, "kind": kind, "rate": line["arm"], "seed": line["seed"], **line["result"]["average_precision"]}
        for line in lines if line["settings"]["task"] == task
        for name, kind in [line["experiment"].split("|")]
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    arms = [column for column in frame if column not in ("table", "kind", "rate", "seed")]
    overall = {"all": frame[arms].mean()} | {
        f"{kind} {rate}": part[arms].mean() for (kind, rate), part in frame.groupby(["kind", "rate"], sort=False)
    }
    by_table = frame.groupby("table", sort=False)[arms].mean()
    against = {peer: compare(frame, by_table, peer) for peer in peers}
    return {
        "runs": len(frame),
        "tables": frame["table"].nunique(),
        "seeds": frame["seed"].nunique(),
        "mean_average_precision": pd.DataFrame(overall).round(4).to_dict("index"),
        "against": against,
        "by_table": by_table.round(4).to_dict("index"),
    }


def compare(frame, by_table, peer):
    """Mean gain with its interval over tables; where steep is worse at 5 %, alone and corrected for many tables."""
    gains = by_table["steep"] - by_table[peer]
    interval = paired_interval(by_table[peer].to_numpy(), by_table["steep"].to_numpy())
    p_values = {}
    for name, part in frame.groupby("table", sort=False):
        difference = (part["steep"] - part[peer]).to_numpy()
        flat = np.ptp(difference) == 0
        p_values[name] = 1.0 if flat or difference.mean() > 0 else float(stats.ttest_1samp(difference, 0).pvalue)
    worse = sorted(name for name, p in p_values.items() if p < 0.05)
    return {
        "gain": [round(interval.mean, 4), round(interval.low, 4), round(interval.high, 4)],
        "tables_better": int((gains > 0).sum()),
        "worst": {name: round(gain, 4) for name, gain in gains.nsmallest(3).items()},
        "significantly_worse": worse,
        "significantly_worse_corrected": [name for name in worse if p_values[name] < 0.05 / len(p_values)],
    }


def counted(lines, task):
    """How good the estimated number of wrong labels is."""
    rows = [line["result"] for line in lines if line["settings"]["task"] == task]
    counts = np.array([[*row["estimate"], row["n_wrong"]] for row in rows])
    share = counts / np.array([[row["n_samples"]] for row in rows])
    inside = (share[:, 1] <= share[:, 3]) & (share[:, 3] <= share[:, 2])
    bins = np.sum([row["reliability"] for row in rows], axis=0)
    return {
        "mean_estimate": round(share[:, 0].mean(), 4),
        "mean_truth": round(share[:, 3].mean(), 4),
        "mean_absolute_error": round(np.abs(share[:, 0] - share[:, 3]).mean(), 4),
        "interval_holds_truth": round(inside.mean(), 3),
        "score_bins": [
            {"samples": int(n), "mean_score": round(s / n, 3), "share_wrong": round(w / n, 3)}
            for n, s, w in bins if n
        ],
    }  # fmt: skip


def whole_draws(lines, part):
    """Lines of the seeds that every table and kind has been run with: the others would count some tables more."""
    kept = []
    for task, kinds in KINDS.items():
        wanted = {f"{name}|{kind}" for name in LISTS[part, task] for kind in kinds}
        draws = {}
        for line in lines:
            if line["settings"]["task"] == task:
                draws.setdefault((line["arm"], line["seed"]), {})[line["experiment"]] = line
        kept += [line for draw in draws.values() if wanted <= draw.keys() for line in draw.values()]
    return kept


def summary(options):
    record = {"command": "python benchmarks/suspects.py summary"}
    for part in ("unseen", "development"):
        lines = whole_draws(Records(RESULTS / f"suspects-{part}.jsonl").by_key().values(), part)
        for task, peers in PEERS.items():
            if any(line["settings"]["task"] == task for line in lines):
                record[f"{part} {task}"] = summarize(lines, peers, task) | {"count": counted(lines, task)}
    lines = list(Records(RESULTS / "suspects-numbers-unseen.jsonl").by_key().values())
    if lines:
        record["unseen numbers"] = summarize_numbers(lines)
    lines = list(Records(RESULTS / "suspects-images.jsonl").by_key().values())
    for source in ("head", "network") if lines else ():
        rows = [{"images": x["experiment"], "rate": x["arm"], **x["result"][source]} for x in lines]
        means = pd.DataFrame(rows).groupby(["images", "rate"], sort=False).mean().round(4)
        record[f"images {source}"] = {" ".join(key): row for key, row in means.to_dict("index").items()}
    for name, part in record.items():
        if isinstance(part, dict):
            print(f"\n{name}")
            means = part.get("mean_average_precision", part)
            print(pd.DataFrame(means).T.to_string())
            for peer, found in part.get("against", {}).items():
                print(f"against {peer}: {found}")
    write_json(options.output or RESULTS / "suspects.json", record)


def summarize_numbers(lines):
    """Mean average precision by kind of error, and how far steep is from CleanLearning."""
    rows = [{"table": x["experiment"], "kind": x["arm"], **x["result"]["average_precision"]} for x in lines]
    frame = pd.DataFrame(rows)
    arms = list(rows[0])[2:]
    parts = {"made": frame[frame["kind"] != "real"], "real": frame[frame["kind"] == "real"]}
    parts |= {kind: part for kind, part in frame.groupby("kind", sort=False) if kind != "real"}
    gains = {}
    for name in ("made", "real"):
        part = parts[name].groupby("table")[["steep", "CleanLearning"]].mean()
        if len(part) > 1:
            found = paired_interval(part["CleanLearning"].to_numpy(), part["steep"].to_numpy())
            gains[name] = [round(found.mean, 4), round(found.low, 4), round(found.high, 4)]
    estimates = np.array([[*x["result"]["estimate"], x["result"]["n_wrong"]] for x in lines])
    return {
        "runs": len(frame),
        "tables": frame["table"].nunique(),
        "mean_average_precision": {
            arm: {name: round(part[arm].mean(), 4) for name, part in parts.items()} for arm in arms
        },
        "gain_over_CleanLearning": gains,
        "runs_better": int((frame["steep"] > frame["CleanLearning"]).sum()),
        "limits_hold": round(
            float(np.mean((estimates[:, 1] <= estimates[:, 3]) & (estimates[:, 3] <= estimates[:, 2]))), 3
        ),
        "by_run": frame.to_dict("records"),
    }


# What each goal is measured against: cleanlab's best way on the development tables, and the others beside it.
PEERS = {
    "classification": ("cleanlab normalized_margin", "cleanlab self_confidence", "data-oob", "neighbors"),
    "regression": ("cleanlab residual", "cleanlab outre"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("tables")
    runner.add_argument("--data", type=Path, nargs="+", required=True, help="folders of CSV tables, target last")
    runner.add_argument("--part", choices=("development", "unseen"), default="unseen")
    runner.add_argument("--task", nargs="+", choices=list(KINDS), default=list(KINDS))
    runner.add_argument("--rate", type=float, nargs="+", default=[0.2])
    runner.add_argument("--seeds", type=int, default=5)
    runner.add_argument("--first-seed", type=int, default=0)
    runner.add_argument("--rows", type=int, default=2000, help="samples of a table at most")
    runner.set_defaults(call=tables)
    painter = commands.add_parser("images")
    painter.add_argument("--seeds", type=int, default=3)
    painter.set_defaults(call=images)
    judge = commands.add_parser("real")
    judge.add_argument("--data", type=Path, required=True, help="folder of .npz files with P, y and t")
    judge.set_defaults(call=real)
    cleaner = commands.add_parser("numbers")
    cleaner.add_argument("--data", type=Path, nargs="+", required=True, help="folders of CSV tables, target last")
    cleaner.add_argument("--real", type=Path, help="folder of the tables with real erroneous targets")
    cleaner.add_argument("--part", choices=("development", "unseen"), default="unseen")
    cleaner.set_defaults(call=numbers)
    fitter = commands.add_parser("refit")
    fitter.add_argument("--data", type=Path, nargs="+", required=True, help="folders of CSV tables, target last")
    fitter.set_defaults(call=refit)
    counter = commands.add_parser("count")
    counter.add_argument("--data", type=Path, nargs="+", required=True, help="folders of CSV tables, target last")
    counter.set_defaults(call=count)
    timer = commands.add_parser("speed")
    timer.add_argument("--rows", type=int, default=1_000_000)
    timer.set_defaults(call=speed)
    summer = commands.add_parser("summary")
    summer.set_defaults(call=summary)
    for command in (runner, painter, judge, cleaner, fitter, counter, timer, summer):
        command.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.call(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
