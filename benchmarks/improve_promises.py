"""What ``improve`` promises and what it delivers: gains stated in the verdict against gains on data that took no part.

    python benchmarks/improve_promises.py run --cache FOLDER                        # scikit-learn's digits
    python benchmarks/improve_promises.py run --cache FOLDER --data IMAGES          # CIFAR-10 too
    python benchmarks/improve_promises.py summary --cache FOLDER

Each repeat draws its own training, validation and test samples, trains a small perceptron, stopped early or trained to
the end, and calls ``improve`` once for every score, with the validation samples and without any. IMAGES holds CIFAR-10
as lossless WebP sheets (``cifar10/data_batch_1.webp`` … and ``labels.npz``); STEEP_DATA names it as well. A
convolutional network trained on the first 20,000 pictures gives the features of the other 40,000, which are the inputs
of the perceptrons.
The rule was settled on digits with seeds 0 to 9; digits with seeds 10 to 24 and all of CIFAR-10 were run once.

A run that was stopped goes on where it was: lines are appended to FOLDER.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from reproduction.records import Records, cpu_seconds, machine, write_json
from steep.nn import improve

RESULT = Path(__file__).parent / "results" / "improve-promises.json"
SCORES = ("accuracy", "neg_log_loss", "balanced_accuracy")
SIZES = {"digits": (500, 300, 997), "cifar10": (2000, 500, 5000)}  # training, validation, test
EPOCHS = {"early": 6, "end": 60}
N_REPEATS, N_DEVELOPMENT = 25, 10
HIDDEN, BATCH, LEARNING_RATE = 64, 32, 2e-3
N_CNN, CNN_EPOCHS = 20_000, 4


# ------------------------------------------------------------------------------- data and networks


def load_pool(problem, data, cache):
    """Inputs and labels that every repeat draws from."""
    if problem == "digits":
        X, y = load_digits(return_X_y=True)
        return torch.as_tensor(X / 16, dtype=torch.float32), torch.as_tensor(y)
    path = Path(cache) / "cifar10-features.npz"
    if not path.exists():
        features, labels = cnn_features(*load_cifar(Path(data) / "cifar10"))
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, features=features, labels=labels)
    with np.load(path) as stored:
        return torch.as_tensor(stored["features"]), torch.as_tensor(stored["labels"])


def load_cifar(folder):
    """All 60,000 pictures, (n, 3, 32, 32) as bytes, and their labels; the 10,000 of the test set last."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    sheets = []
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        sheet = np.asarray(Image.open(folder / f"{name}.webp").convert("RGB"))
        sheets.append(sheet.reshape(500, 32, 20, 32, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32))
    labels = np.load(folder / "labels.npz")
    return np.concatenate(sheets), np.concatenate([labels["y_train"], labels["y_test"]]).astype(np.int64)


def cnn_features(pictures, labels):
    """Features of the pictures behind the first 20,000, by a network trained on those."""
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
    )  # fmt: skip
    network = nn.Sequential(body, nn.Linear(256, 10))
    images = lambda rows: torch.as_tensor(pictures[rows], dtype=torch.float32) / 128 - 1  # noqa: E731
    train(network, images, torch.as_tensor(labels[:N_CNN]), CNN_EPOCHS, seed=0, batch=64)
    with torch.no_grad():
        parts = [body(images(slice(i, i + 500))).numpy() for i in range(N_CNN, len(pictures), 500)]
    features = np.concatenate(parts)
    return (features - features.mean(axis=0)) / features.std(), labels[N_CNN:]


def train(network, inputs, labels, epochs, *, seed, batch=BATCH):
    """Adam on the cross-entropy; ``inputs(rows)`` gives a batch."""
    order = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    for _ in range(epochs):
        for rows in torch.randperm(len(labels), generator=order).split(batch):
            optimizer.zero_grad()
            functional.cross_entropy(network(inputs(rows)), labels[rows]).backward()
            optimizer.step()


def repeat(problem, pool, kind, seed):
    """A trained perceptron, and the training, validation and test samples of this repeat."""
    X, y = pool
    order = np.random.default_rng([seed, 7]).permutation(len(X))
    ends = np.cumsum(SIZES[problem])
    parts = [(X[rows], y[rows]) for rows in np.split(order[: ends[-1]], ends[:-1])]
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(X.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    inputs, labels = parts[0]
    train(network, lambda rows: inputs[rows], labels, EPOCHS[kind], seed=seed)
    return network.eval(), parts


# ------------------------------------------------------------------------------- promised and delivered


def test_gain(before, after, test, score):
    """Score of the original network on the test samples, the gain of the new one there and its standard error."""
    X, y = test
    with torch.no_grad():
        old, new = (_each(network(X), y, score) for network in (before, after))
    weight = np.ones(len(y))
    if score == "balanced_accuracy":
        weight = (len(y) / (10 * np.bincount(y, minlength=10)))[y]
    gain = weight * (new - old)
    return float((weight * old).mean()), float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain)))


def _each(outputs, y, score):
    if score == "neg_log_loss":
        return -functional.cross_entropy(outputs, y, reduction="none").double().numpy()
    return (outputs.argmax(1) == y).double().numpy()


def measure(network, parts, score, data):
    """One call of ``improve``: what it promised, and what it delivered."""
    train_part, validation, test = parts
    with cpu_seconds() as spent:
        result = improve(network, train_part, validation if data == "validation" else None, scoring=score)
    promised = result.verdict.interval
    start, delivered, error = test_gain(network, result.network, test, score)
    return spent["seconds"], {
        "kind": result.chosen.kind, "promised": promised.mean, "low": promised.low, "high": promised.high,
        "original": start, "delivered": delivered, "error": error, "verdict": str(result.verdict),
    }  # fmt: skip


def run(options):
    records = Records(Path(options.cache) / "improve-promises.jsonl")
    problems = ("digits", "cifar10") if options.problem is None else (options.problem,)
    for problem in problems:
        if problem == "cifar10" and not options.data:
            print("cifar10: no --data, left out")
            continue
        pool = load_pool(problem, options.data, options.cache)
        arms = [f"{kind}/{score}/{data}" for kind in EPOCHS for score in SCORES for data in ("validation", "none")]
        known, made = None, None
        for key in records.missing((problem, arm, seed) for seed in range(*options.seeds) for arm in arms):
            kind, score, data = key[1].split("/")
            if known != (kind, key[2]):
                known, made = (kind, key[2]), repeat(problem, pool, kind, key[2])
            seconds, figures = measure(*made, score, data)
            records.add(*key, result=figures, seconds=seconds)
            print(*key, f"{seconds:.1f} s", figures["verdict"], flush=True)


# ------------------------------------------------------------------------------- summary


def frame_of(records):
    """One row for each call; gains also as a share of the original error, which all scores have in common."""
    rows = []
    for line in records:
        kind, score, data = line["arm"].split("/")
        rows.append({"problem": line["experiment"], "network": kind, "score": score, "data": data,
                     "seed": line["seed"], "seconds": line["cpu_seconds"], **line["result"]})  # fmt: skip
    frame = pd.DataFrame(rows)
    is_seen = (frame["problem"] == "digits") & (frame["seed"] < N_DEVELOPMENT)
    frame["part"] = np.where(is_seen, "digits, development", frame["problem"] + ", unseen")
    error = np.where(frame["score"] == "neg_log_loss", -frame["original"], 1 - frame["original"])
    frame["promised_share"], frame["delivered_share"] = frame["promised"] / error, frame["delivered"] / error
    frame["replaced"] = frame["kind"] != "original"
    frame["covered"] = frame["delivered"].between(frame["low"], frame["high"])
    half = (frame["high"] - frame["low"]) / 2
    gap = (frame["promised"] - frame["delivered"]).abs()
    frame["covered_up_to_test_noise"] = gap <= np.hypot(half, 1.96 * frame["error"])
    frame["worse"] = frame["delivered"] + 1.96 * frame["error"] < 0
    return frame


def figures_of(rows, columns=("promised", "delivered")):
    """Of the calls that replaced the head: mean promise and delivery, their ratio, coverage; and losses."""
    replaced = rows[rows["replaced"]]
    found = {"calls": len(rows), "replaced": len(replaced), "significantly_worse": int(rows["worse"].sum())}
    if len(replaced):
        promised, delivered = (float(replaced[column].mean()) for column in columns)
        found |= {
            "promised": promised, "delivered": delivered, "ratio": promised / delivered,
            "coverage": float(replaced["covered"].mean()),
            "coverage_up_to_test_noise": float(replaced["covered_up_to_test_noise"].mean()),
        }  # fmt: skip
    if len(rows) > 1:
        gains = rows[columns[1]]
        gain, spread = float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))
        found |= {"gain_over_all_calls": gain, "gain_interval": [gain - 1.96 * spread, gain + 1.96 * spread]}
    return found


def summary(options):
    frame = frame_of(Records(Path(options.cache) / "improve-promises.jsonl"))
    shares = ("promised_share", "delivered_share")
    found = {}
    for part in sorted(frame["part"].unique(), reverse=True):
        rows = frame[frame["part"] == part]
        cells = {" / ".join(key): figures_of(cell) for key, cell in rows.groupby(["network", "score", "data"])}
        by_data = {data: figures_of(cell, shares) for data, cell in rows.groupby("data")}
        by_score = {score: figures_of(cell) for score, cell in rows.groupby("score")}
        seeds = [int(rows["seed"].min()), int(rows["seed"].max())]
        found[part] = {"seeds": seeds, "seconds_of_a_call": float(rows["seconds"].mean()),
                       "pooled": figures_of(rows, shares), "pooled_by_data": by_data,
                       "pooled_by_score": by_score, "cells": cells}  # fmt: skip
        print(f"\n{part}: seeds {seeds[0]} to {seeds[1]}, {rows['seconds'].mean():.1f} CPU s a call")
        shown = pd.DataFrame({"pooled": found[part]["pooled"], **by_data, **by_score, **cells}).T
        print(shown.drop(columns="gain_interval").astype(float).round(4).to_string())
    if options.output:
        about = {"command": "python benchmarks/improve_promises.py summary", **machine(),
                 "settings": {"sizes": SIZES, "epochs": EPOCHS, "hidden": HIDDEN, "batch": BATCH},
                 "pooled": "gains as shares of the original error, calls that replaced the head"}  # fmt: skip
        write_json(options.output, about | {"parts": found})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["run", "summary"])
    parser.add_argument("--cache", required=True, help="folder of the lines and of CIFAR-10's features")
    parser.add_argument("--data", default=os.environ.get("STEEP_DATA"), help="folder that holds cifar10/")
    parser.add_argument("--problem", choices=list(SIZES))
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, N_REPEATS), help="first, and one past the last")
    parser.add_argument("--output", default=None, help="JSON for the summary; of the repository: " + RESULT.name)
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"run": run, "summary": summary}[options.step](options)


if __name__ == "__main__":
    main()
