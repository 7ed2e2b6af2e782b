"""Networks that fail a group: eight fixed constructions from MNIST and CIFAR-10, as features of small networks.

    dominoes-95, dominoes-99   an MNIST 0 or 1 above a CIFAR-10 car or truck, the vehicle is the label; the digit goes
                               with it in 95 % or 99 % of the training images. Groups: vehicle × digit.
    patch                      MNIST digits under noise; a bright patch stands at one of ten places of the border, the
                               label's own in 95 % of the training images. Groups: digit × own place or another.
    coloured                   MNIST digits, red or green, under noise; the label is whether the digit is at least 5,
                               the colour goes with it in 98 % of the training images. Groups: label × colour.
    imbalance                  MNIST digits; class c has 1,500 · 100^(−c/9) training images, from 1,500 down to 15.
                               Groups: the classes.
    patch-cifar                32,000 of CIFAR-10; a magenta patch stands at one of ten places of the border, as
                               above, in 90 %: of fewer, or at 95 %, such a network learns nothing but the patch.
    imbalance-cifar            CIFAR-10; class c has 4,000 · 100^(−c/9) training images, from 4,000 down to 40.
    rare                       CIFAR-10; one class, that of the seed, against all others. It is 3 % of every part.

Each seed draws its own images, noise and initial weights. ``train`` is what the network is trained on,
``reweighting`` a fifth of that size from the same distribution that it has not seen, ``validation`` chooses (groups
in equal shares, as is usual for such data), ``test`` are pictures of the published test sets, groups in equal shares.
A network is trained once; the features of all four parts and its own head are kept in the cache.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from reproduction.data import Data
from steep._files import write_whole

PROBLEMS = (
    "dominoes-95", "dominoes-99", "coloured", "patch", "patch-cifar", "imbalance", "imbalance-cifar", "rare"
)  # fmt: skip
PARTS = ("train", "reweighting", "validation", "test")
BATCH, LEARNING_RATE, WIDTH = 64, 2e-3, 64
EPOCHS = {
    "dominoes-95": 20, "dominoes-99": 20, "coloured": 10, "patch": 10, "patch-cifar": 10, "imbalance": 15,
    "imbalance-cifar": 10, "rare": 10,
}  # fmt: skip
NOISE = 0.3  # standard deviation, of pictures between 0 and 1
MAGENTA = np.array([1, 0, 1], np.float32)[:, None, None]
RARE_SHARE, RARE_SIZES = 0.03, {"train": 8_000, "reweighting": 1_600, "validation": 4_000, "test": 9_000}
PLACES = [(r, c) for r in (0, 12, 24) for c in (0, 12, 24) if (r, c) != (12, 12)] + [(0, 6), (24, 18)]


class Part(NamedTuple):
    """Inputs or features, labels and groups of one part of the data."""

    x: np.ndarray
    y: np.ndarray
    groups: np.ndarray


class Problem(NamedTuple):
    """Features of all parts, and the head the network came with."""

    parts: dict[str, Part]
    weight: np.ndarray
    bias: np.ndarray


def load_problem(name: str, seed: int, cache_folder: str | Path) -> Problem:
    """Features of one network; it is trained first where the cache does not hold it."""
    path = Path(cache_folder) / f"{name}-{seed}.npz"
    if not path.exists():
        arrays = _trained(name, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda temporary: _save(temporary, arrays))
    with np.load(path, allow_pickle=False) as found:
        parts = {part: Part(*(found[f"{part}/{kind}"] for kind in Part._fields)) for part in PARTS}
        return Problem(parts, found["weight"], found["bias"])


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


def _trained(name: str, seed: int) -> dict[str, np.ndarray]:
    parts = make_parts(name, seed)
    network = train_network(parts["train"], seed, EPOCHS[name])
    body, head = network[:-1], network[-1]
    arrays = {"weight": head.weight.detach().numpy(), "bias": head.bias.detach().numpy()}
    with torch.no_grad():
        for key, part in parts.items():
            features = [body(torch.from_numpy(block)).numpy() for block in np.array_split(part.x, 20)]
            arrays |= {
                f"{key}/x": np.concatenate(features), f"{key}/y": part.y, f"{key}/groups": part.groups
            }  # fmt: skip
    return arrays


def train_network(part: Part, seed: int, epochs: int) -> nn.Sequential:
    """Adam on mini-batches, the loss of every sample alike."""
    torch.manual_seed(seed)
    network = small_network(part.x.shape[1:], int(part.y.max()) + 1)
    x, y = torch.from_numpy(part.x), torch.from_numpy(part.y)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimizer.step()
    return network.eval()


def small_network(shape: tuple[int, ...], n_classes: int) -> nn.Sequential:
    """Three convolutions of stride two and one hidden layer, whose 64 outputs are the features."""
    channels, height, width = shape
    cells = -(-height // 8) * -(-width // 8)
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * cells, WIDTH), nn.ReLU(), nn.Linear(WIDTH, n_classes),
    )  # fmt: skip


def make_parts(name: str, seed: int) -> dict[str, Part]:
    """The four parts of a problem as pictures."""
    rng = np.random.default_rng(seed)
    if name.startswith("imbalance"):
        return _imbalance(rng, _objects(), 4000) if name.endswith("cifar") else _imbalance(rng, _digits(), 1500)
    if name == "coloured":
        return _coloured(rng, 0.98, 8_000)
    if name == "rare":
        return _rare(rng, seed % 10)
    if name == "patch-cifar":
        return _patches(rng, 0.90, 32_000, _objects(), _on_object)
    if name == "patch":
        return _patches(rng, 0.95, 8_000, _digits(), _on_digit)
    return _dominoes(rng, 0.99 if name.endswith("99") else 0.95)


# ------------------------------------------------------------------------------------------- dominoes


def _dominoes(rng: np.random.Generator, share: float) -> dict[str, Part]:
    (vehicles, kinds), (others, other_kinds) = _vehicles()
    order = rng.permutation(len(vehicles))
    train, reweighting, validation = np.split(order, [7000, 8400])
    digits = _zeros_and_ones()
    made = {
        "train": _domino_part(rng, vehicles[train], kinds[train], digits[0], share),
        "reweighting": _domino_part(rng, vehicles[reweighting], kinds[reweighting], digits[0], share),
        "validation": _domino_part(rng, vehicles[validation], kinds[validation], digits[0], 0.5),
    }
    # Every vehicle of the test set once with each digit.
    twice, twice_kinds = np.concatenate([others, others]), np.concatenate([other_kinds, other_kinds])
    signs = np.concatenate([np.zeros(len(others), np.int64), np.ones(len(others), np.int64)])
    return made | {"test": _stack(rng, twice, twice_kinds, digits[1], signs)}


def _domino_part(rng, vehicles, kinds, digits, share) -> Part:
    signs = np.where(rng.random(len(kinds)) < share, kinds, 1 - kinds)
    return _stack(rng, vehicles, kinds, digits, signs)


def _stack(rng, vehicles, kinds, digits, signs) -> Part:
    """Digits above vehicles, 64 × 32, every 2 × 2 pixels averaged: ``(n, 3, 32, 16)``."""
    x = np.zeros((len(vehicles), 3, 64, 32), np.float32)
    x[:, :, 32:] = vehicles.transpose(0, 3, 1, 2) / np.float32(255)
    for sign in (0, 1):
        rows = np.flatnonzero(signs == sign)
        drawn = digits[sign][rng.integers(len(digits[sign]), size=len(rows))]
        x[rows, :, 2:30, 2:30] = drawn[:, None] / np.float32(255)
    x = x.reshape(len(x), 3, 32, 2, 16, 2).mean(axis=(3, 5))
    return Part(x, kinds.astype(np.int64), 2 * kinds + signs)


@cache
def _vehicles():
    """Cars (0) and trucks (1) of CIFAR-10, to train on and to test on."""
    data = Data().cifar10()
    found = []
    for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        rows = np.flatnonzero(np.isin(y, (1, 9)))
        found.append((x[rows], (y[rows] == 9).astype(np.int64)))
    return found


@cache
def _zeros_and_ones():
    data = Data().mnist()
    return [[x[y == digit] for digit in (0, 1)] for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test))]


# -------------------------------------------------------------------------------- digits and objects


@cache
def _digits():
    return Data().mnist()


@cache
def _objects():
    return Data().cifar10()


def _patches(rng: np.random.Generator, share: float, n_train: int, data, paint) -> dict[str, Part]:
    order = rng.permutation(len(data.x_train))
    ends = np.cumsum([n_train, n_train // 5, 3000])
    rows = dict(zip(PARTS, np.split(order, ends)[:3], strict=False))
    made = {
        name: _patched(rng, data.x_train[r], data.y_train[r], 0.5 if name == "validation" else share, paint)
        for name, r in rows.items()
    }
    return made | {"test": _patched(rng, data.x_test, data.y_test, 0.5, paint)}


def _patched(rng, images, labels, share, paint) -> Part:
    """Pictures with a patch at the place of the label or of another one."""
    labels = labels.astype(np.int64)
    is_own = rng.random(len(labels)) < share
    places = np.where(is_own, labels, (labels + rng.integers(1, 10, size=len(labels))) % 10)
    return Part(paint(rng, images, places), labels, 2 * labels + ~is_own)


def _on_digit(rng, images, places):
    """Digits at half brightness under noise, and a bright patch of 4 × 4."""
    x = images[:, None].astype(np.float32) / 510
    for place, (row, column) in enumerate(PLACES):
        x[places == place, :, row : row + 4, column : column + 4] = 1.0
    x += NOISE * rng.standard_normal(x.shape, dtype=np.float32)
    return x


def _on_object(rng, images, places):
    """Pictures as they are, and a magenta patch of 4 × 4."""
    x = _channels_first(images)
    for place, (row, column) in enumerate(PLACES):
        x[places == place, :, row + 2 : row + 6, column + 2 : column + 6] = MAGENTA
    return x


def _imbalance(rng: np.random.Generator, data, largest: int) -> dict[str, Part]:
    order = rng.permutation(len(data.x_train))
    by_class = [order[data.y_train[order] == c] for c in range(10)]
    n_train = [round(largest * 100 ** (-c / 9)) for c in range(10)]
    rows = {
        "train": [rows[:n] for rows, n in zip(by_class, n_train, strict=True)],
        "reweighting": [rows[n : n + -(-n // 5)] for rows, n in zip(by_class, n_train, strict=True)],
        "validation": [rows[-200:] for rows in by_class],
    }
    made = {name: _plain(data.x_train, data.y_train, np.concatenate(r)) for name, r in rows.items()}
    return made | {"test": _plain(data.x_test, data.y_test, np.arange(len(data.y_test)))}


def _plain(images, labels, rows) -> Part:
    y = labels[rows].astype(np.int64)
    return Part(_channels_first(images[rows]), y, y)


def _rare(rng: np.random.Generator, label: int) -> dict[str, Part]:
    """One class against all others; the parts of the training images do not overlap."""
    data, made = _objects(), {}
    order = rng.permutation(len(data.x_train))
    own, others = (order[(data.y_train[order] == label) == is_own] for is_own in (True, False))
    for part, size in RARE_SIZES.items():
        n_own = round(RARE_SHARE * size)
        if part == "test":
            images, labels = data.x_test, data.y_test
            own, others = (rng.permutation(np.flatnonzero((labels == label) == is_own)) for is_own in (True, False))
        else:
            images = data.x_train
        rows = np.concatenate([own[:n_own], others[: size - n_own]])
        own, others = own[n_own:], others[size - n_own :]
        y = np.repeat([1, 0], [n_own, size - n_own])
        made[part] = Part(_channels_first(images[rows]), y, y)
    return made


def _coloured(rng: np.random.Generator, share: float, n_train: int) -> dict[str, Part]:
    data = _digits()
    order = rng.permutation(len(data.x_train))
    rows = dict(zip(PARTS, np.split(order, np.cumsum([n_train, n_train // 5, 3000]))[:3], strict=False))
    made = {
        name: _in_colour(rng, data.x_train[r], data.y_train[r], 0.5 if name == "validation" else share)
        for name, r in rows.items()
    }
    return made | {"test": _in_colour(rng, data.x_test, data.y_test, 0.5)}


def _in_colour(rng, images, digits, share) -> Part:
    """Digits in the first or the second of two channels, at half size, under noise."""
    labels = (digits >= 5).astype(np.int64)
    colours = np.where(rng.random(len(labels)) < share, labels, 1 - labels)
    small = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4), dtype=np.float32) / 255
    x = np.zeros((len(labels), 2, 14, 14), np.float32)
    x[np.arange(len(labels)), colours] = small
    x += NOISE * rng.standard_normal(x.shape, dtype=np.float32)
    return Part(x, labels, 2 * labels + colours)


def _channels_first(images):
    """(n, channels, height, width) between 0 and 1, of grey or coloured pictures."""
    x = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    return x.astype(np.float32) / 255
