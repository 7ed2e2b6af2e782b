"""Data of the neighbour benchmark that no choice of the engine has seen: put away before it was changed.

They are run once, when the engine is done, and their figures are published first.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np

from neighbor_data import cifar, features, train


def two_layers(n, *, n_features=64, latent=20, seed=11):
    """A heavy-tailed latent space without clusters, seen through two tanh layers."""
    rng = np.random.default_rng(seed)
    w1 = rng.normal(size=(latent, 96)) / np.sqrt(latent)
    w2 = rng.normal(size=(96, n_features)) / np.sqrt(96)
    X = np.empty((n, n_features), np.float32)
    y = np.empty(n, int)
    for s in range(0, n, 100_000):
        z = rng.standard_t(4, size=(min(100_000, n - s), latent))
        X[s : s + 100_000] = np.tanh(np.tanh(z @ w1) @ w2)
        y[s : s + 100_000] = (z[:, 0] > 0) + 2 * (z[:, 1] > 0)
    return X, y


def embedding_like(n, *, n_features=384, topics=300, seed=12):
    """Unit vectors as a sentence encoder gives them: topics of very different size around one common direction."""
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(topics, n_features)) * (1 / np.sqrt(1 + np.arange(n_features)))
    share = 1 / (1 + np.arange(topics))
    topic = rng.choice(topics, size=n, p=share / share.sum())
    spread = rng.uniform(0.3, 1.2, topics).astype(np.float32)
    decay = (1 / (1 + np.arange(n_features)) ** 0.35).astype(np.float32)
    X = rng.standard_normal((n, n_features), dtype=np.float32) * decay * spread[topic][:, None]
    X += 1.0 + 2 * middle[topic].astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, topic % 10


def cifar_features(seed=0):
    """Features of a small convolutional network trained for three epochs."""
    import torch
    from torch import nn

    images, labels = cifar()
    x = torch.as_tensor(images, dtype=torch.float32).permute(0, 3, 1, 2).contiguous() / 255 - 0.5
    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.Conv2d(3, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, 1), nn.ReLU(), nn.Conv2d(48, 64, 3, 2, 1),
        nn.ReLU(), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    train(network, x, torch.as_tensor(labels), epochs=3, seed=seed)
    return features(network, x), labels


def altered_digits(n, seed=0):
    """Features of digits that were moved and blurred at random, as altered copies of training pictures are."""
    import torch

    from reproduction.data import Data
    from reproduction.networks import lenet5

    data = Data().mnist()
    images = torch.as_tensor(data.x_train[:, None], dtype=torch.float32) / 255
    network = lenet5(seed)
    train(network, images, torch.as_tensor(data.y_train.astype(np.int64)), epochs=2, seed=seed)
    rng = np.random.default_rng(seed)
    parts, labels = [], []
    for first in range(0, n, 50_000):
        rows = rng.integers(len(images), size=min(50_000, n - first))
        moved = images[rows]
        dx, dy = rng.integers(-2, 3, size=2)
        moved = torch.roll(moved, (int(dx), int(dy)), dims=(2, 3))
        moved = moved + 0.1 * torch.as_tensor(rng.standard_normal(moved.shape, dtype=np.float32))
        parts.append(features(network, moved))
        labels.append(data.y_train[rows].astype(int))
    return np.concatenate(parts), np.concatenate(labels)


def table(name):
    """A table of numbers from STEEP_DATA/tabular, standardised; the last column is the label."""
    import pandas as pd

    frame = pd.read_csv(next((Path(os.environ["STEEP_DATA"]) / "tabular").glob(f"{name}.csv*")))
    X = frame.iloc[:, :-1].to_numpy(np.float64)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    y = frame.iloc[:, -1]
    codes = np.unique(y, return_inverse=True)[1] if y.nunique() < 50 else (y > y.median()).to_numpy(int)
    return X.astype(np.float32), codes


def sentence_vectors():
    """[CLS] vectors of a small BERT for the sentences of RTE, MRPC and STS-B."""
    from reproduction.data import Data

    parts = [Data().glue(task).x_train for task in ("RTE", "MRPC", "STS-B")]
    X = np.concatenate(parts).astype(np.float32)
    return X, np.repeat(np.arange(len(parts)), [len(part) for part in parts])


UNSEEN = {
    "two-layers-50k": partial(two_layers, 50_000),
    "two-layers-1m": partial(two_layers, 1_000_000),
    "embedding-200k": partial(embedding_like, 200_000),
    "embedding-50k": partial(embedding_like, 50_000, seed=13),
    "sentence-vectors": sentence_vectors,
    "letter": partial(table, "letter"),
    "protein": partial(table, "protein"),
    "cifar-features": cifar_features,
    "altered-digits-300k": partial(altered_digits, 300_000),
    "altered-digits-3m": partial(altered_digits, 3_000_000),
}
