"""Any score of rare classes: what ``improve`` gains, beside logistic regression on the same features.

    python benchmarks/groups.py train --problem rare imbalance --seeds 30 31 32 33 --cache FOLDER    # needs STEEP_DATA
    python benchmarks/group_scores.py run --seeds 30 31 32 33 --cache FOLDER
    python benchmarks/group_scores.py run --seeds 40 41 42 43 44 --cache FOLDER
    python benchmarks/group_scores.py show

Seeds 30 to 33 are the development networks, 40 to 44 were run once at the end. The rival is logistic regression with
weights 1/n_y on the training features, λ chosen by the score on the validation data, and decisions tuned on them: the
best of all thresholds for two classes; for more, a shift of each logit by coordinate ascent (three rounds of 31
values). It is fitted once for every λ; no part of its choice is held back. "untuned" has no threshold.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn import metrics

import group_rivals as rivals
from group_problems import load_problem
from groups import network_of
from reproduction.records import Records, cpu_seconds, write_json
from steep.metrics import paired_interval
from steep.nn import improve
from steep.nn.heads import Head

RESULTS = Path(__file__).parent / "results"
SCORES = {
    "rare": ("f1", "f2", "balanced_accuracy", "matthews_corrcoef", "average_precision"),
    "imbalance": ("f1_macro", "balanced_accuracy", "matthews_corrcoef", "average_precision"),
}
DEVELOPMENT, UNSEEN = range(30, 34), range(40, 45)
SHIFTS, N_ROUNDS, N_DRAWS = np.linspace(-3, 3, 31), 3, 200


def value_of(name, y, outputs):
    """A score of outputs, by scikit-learn."""
    if name == "average_precision":
        shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        if shares.shape[1] == 2:
            return metrics.average_precision_score(y, shares[:, 1])
        return metrics.average_precision_score(np.eye(shares.shape[1])[y], shares)
    predicted = outputs.argmax(axis=1)
    return {
        "f1": lambda: metrics.f1_score(y, predicted),
        "f2": lambda: metrics.fbeta_score(y, predicted, beta=2),
        "f1_macro": lambda: metrics.f1_score(y, predicted, average="macro"),
        "balanced_accuracy": lambda: metrics.balanced_accuracy_score(y, predicted),
        "matthews_corrcoef": lambda: metrics.matthews_corrcoef(y, predicted),
    }[name]()


def tuned_shift(name, y, outputs):
    """Shifts of the logits that are best on the validation data, and the score there."""
    n_classes = outputs.shape[1]
    if name == "average_precision":
        return np.zeros(n_classes), value_of(name, y, outputs)
    if n_classes == 2:
        cuts = np.unique(np.quantile(outputs[:, 1] - outputs[:, 0], np.linspace(0, 1, 1001)))
        shifts = [np.array([cut, 0.0]) for cut in cuts]
        values = [value_of(name, y, outputs + shift) for shift in shifts]
        return shifts[int(np.argmax(values))], max(values)
    shift = np.zeros(n_classes)
    for _ in range(N_ROUNDS):
        for label in range(n_classes):
            tries = [shift + step * (np.arange(n_classes) == label) for step in SHIFTS]
            shift = tries[int(np.argmax([value_of(name, y, outputs + one) for one in tries]))]
    return shift, value_of(name, y, outputs + shift)


def logistic_regression(name, parts, first):
    """Test outputs of the rival, tuned and untuned."""
    train, validation, test = (parts[part] for part in ("train", "validation", "test"))
    best = {"tuned": (-np.inf, None), "untuned": (-np.inf, None)}
    for _, head in rivals.inverse_frequency(train.x, train.y, first):
        outputs = head.outputs(validation.x)
        shift, tuned = tuned_shift(name, validation.y, outputs)
        for key, value, own in (("tuned", tuned, shift), ("untuned", value_of(name, validation.y, outputs), 0.0)):
            if value > best[key][0]:
                best[key] = value, head.outputs(test.x) + own
    return {f"logistic regression, {key}": outputs for key, (_, outputs) in best.items()}


def difference(name, y, one, other, rng):
    """95 % interval of a difference on test samples drawn within their classes."""
    rows = [np.flatnonzero(y == label) for label in np.unique(y)]
    found = []
    for _ in range(N_DRAWS):
        drawn = np.concatenate([rng.choice(own, len(own)) for own in rows])
        found.append(value_of(name, y[drawn], one[drawn]) - value_of(name, y[drawn], other[drawn]))
    return [round(100 * float(q), 2) for q in np.quantile(found, (0.025, 0.975))]


def figures(problem, name, seed, cache):
    data = load_problem(problem, seed, cache)
    first = Head(data.weight.astype(np.float64), data.bias.astype(np.float64))
    train, validation, test = (data.parts[part] for part in ("train", "validation", "test"))
    result = improve(network_of(data), train[:2], validation[:2], scoring=name)
    outputs = {"as trained": first.outputs(test.x), "steep": result.heads["chosen"].outputs(test.x)}
    outputs |= logistic_regression(name, data.parts, first)
    told = {key: round(100 * value_of(name, test.y, own), 2) for key, own in outputs.items()}
    rng = np.random.default_rng(seed)
    gaps = {key: difference(name, test.y, outputs["steep"], own, rng) for key, own in outputs.items() if key != "steep"}
    interval = result.verdict.interval
    promise = {key: round(100 * getattr(interval, key), 3) for key in ("mean", "low", "high")}
    return {"test": told, "gaps": gaps, "promised": promise, "chosen": str(result.chosen)}


def run(options):
    records = Records(options.results)
    wanted = [(p, name, seed) for seed in options.seeds for p in options.problem for name in SCORES[p]]
    for problem, name, seed in records.missing(wanted):
        with cpu_seconds() as spent:
            found = figures(problem, name, seed, options.cache)
        records.add(problem, name, seed, result=found, seconds=spent["seconds"])
        print(problem, name, seed, f"{spent['seconds']:.0f} s", found["test"], found["chosen"], flush=True)


def summary(lines):
    """Mean test scores, differences to the rival, and gains stated against gains on test samples."""
    tests = [line["test"] for line in lines]
    out = {"networks": len(lines), "test": {key: round(float(np.mean([t[key] for t in tests])), 2) for key in tests[0]}}
    for key in lines[0]["gaps"]:
        pair = [[t[name] for t in tests] for name in (key, "steep")]
        spread = paired_interval(*pair).half_width if len(lines) > 1 and np.ptp(np.subtract(*pair)) > 0 else 0.0
        out[f"steep − {key}"] = {
            "mean": round(float(np.mean(pair[1]) - np.mean(pair[0])), 2), "half_width": round(spread, 2),
            "significantly_better": sum(line["gaps"][key][0] > 0 for line in lines),
            "significantly_worse": sum(line["gaps"][key][1] < 0 for line in lines),
        }  # fmt: skip
    return out


def promises(lines):
    """Gains stated against gains on test samples, of the heads that were replaced."""
    replaced = [line for line in lines if line["promised"]["mean"]]
    gains = [line["test"]["steep"] - line["test"]["as trained"] for line in replaced]
    stated = [line["promised"] for line in replaced]
    return {
        "calls": len(lines), "replaced": len(replaced),
        "promised": round(float(np.mean([s["mean"] for s in stated])), 2), "delivered": round(float(np.mean(gains)), 2),
        "ratio": round(float(np.mean([s["mean"] for s in stated]) / np.mean(gains)), 3),
        "covered": sum(s["low"] <= gain <= s["high"] for s, gain in zip(stated, gains, strict=True)),
    }  # fmt: skip


def show(options):
    found, out = Records(options.results).by_key(), {}
    for part, seeds in (("unseen", UNSEEN), ("development", DEVELOPMENT)):
        every = []
        for problem, names in SCORES.items():
            for name in names:
                lines = [found[problem, name, s]["result"] for s in seeds if (problem, name, s) in found]
                if lines:
                    out[f"{problem}, {name}, {part}"] = told = summary(lines)
                    every += lines
                    print(f"{part:12} {problem:10} {name:20}", told)
        if every:
            out[f"promises, {part}"] = promises(every)
            print(part, promises(every))
    write_json(RESULTS / "group-scores.json", out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["run", "show"])
    parser.add_argument("--problem", nargs="*", default=list(SCORES), choices=list(SCORES))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(DEVELOPMENT))
    parser.add_argument("--cache", default=".cache/groups", help="folder of networks' features")
    parser.add_argument("--results", default=RESULTS / "group-scores.jsonl")
    options = parser.parse_args()
    {"run": run, "show": show}[options.step](options)


if __name__ == "__main__":
    main()
