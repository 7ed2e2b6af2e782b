"""Heads of one network, re-trained in every way Tables 4, 6 and 7 compare, and scored on the test set.

    original            the network as trained
    equal-weight head   its head re-trained by the paper's Adam with equal weights: the control the paper lacks
    VBSW                the same with weights by local label variance (Algorithm 3)
    improve             :func:`steep.nn.improve`, chosen on held-out data

Every head starts from its own seed, as in the paper; all heads of an arm are one batched computation. "best" is
the best head *on the test set*, as the paper reports it; "best_epoch" the best head and epoch there, as in its code;
"accuracy" is the mean over heads after the last epoch, which chooses nothing; "differ" the share of test pictures that
only one of two heads with the same start gets right, VBSW or equal weights.

:func:`parts_of` splits pictures into training, held-out and test parts; :func:`pack` keeps small ones in lines.
"""

import base64
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

import steep
from reproduction.appendix import Row
from reproduction.data import Split
from reproduction.ensemble import train_ensemble
from steep._validation import FloatArray, check_count
from steep.exceptions import InputError
from steep.nn import HeadSearch, improve, project

# Mean and spread of CIFAR-10's three channels over the training set.
_MEAN, _SPREAD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Parts(NamedTuple):
    """Three labelled parts of a picture set; ``raw`` are the training pictures as bytes."""

    train: tuple[Tensor, Tensor]
    held_out: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    raw: npt.NDArray[np.uint8]


def parts_of(data: Split, *, n_train: int, n_held_out: int, seed: int = 0) -> Parts:
    """Draw training and held-out pictures without overlap; the test part is the published one."""
    n_train = check_count(n_train, name="n_train")
    n_held_out = check_count(n_held_out, name="n_held_out", minimum=0)
    if n_train + n_held_out > (n := len(data.x_train)):
        raise InputError(f"n_train and n_held_out are {n_train} and {n_held_out}; expected at most {n} in all")
    order = np.random.default_rng(seed).permutation(len(data.x_train))
    train, held_out = order[:n_train], order[n_train : n_train + n_held_out]
    labelled = [
        (to_tensor(x), torch.as_tensor(np.array(y), dtype=torch.long))
        for x, y in ((data.x_train[train], data.y_train[train]), (data.x_train[held_out], data.y_train[held_out]),
                     (data.x_test, data.y_test))
    ]  # fmt: skip
    return Parts(labelled[0], labelled[1], labelled[2], np.asarray(data.x_train[train]))


def to_tensor(pictures: npt.NDArray[np.uint8]) -> Tensor:
    """``(n, channels, height, width)`` floats: grey in [0, 1], colours standardised by channel."""
    scaled = torch.as_tensor(np.array(pictures), dtype=torch.float32) / 255
    if scaled.ndim == 3:
        return scaled[:, None]
    return ((scaled - torch.tensor(_MEAN)) / torch.tensor(_SPREAD)).permute(0, 3, 1, 2).contiguous()


def pack(pictures: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """A few pictures as text for a line."""
    packed = zlib.compress(np.ascontiguousarray(pictures).tobytes(), 9)
    return {"shape": list(pictures.shape), "bytes": base64.b64encode(packed).decode()}


def unpack(packed: dict[str, Any]) -> npt.NDArray[np.uint8]:
    """What :func:`pack` packed."""
    raw = zlib.decompress(base64.b64decode(packed["bytes"]))
    return np.frombuffer(raw, np.uint8).reshape(packed["shape"])


Labelled = tuple[Tensor, Tensor]
ARMS = ("original", "equal-weight head", "VBSW", "improve")


@dataclass(frozen=True)
class HeadPlan:
    """How heads are re-trained: rows of Table 8, counts, the grid of ``improve`` (empty leaves it out), and where."""

    hyper: Row
    n_heads: int
    epochs: int
    grid: dict[str, Any]
    device: str


def study_network(
    network: nn.Module, train: Labelled, held_out: Labelled, test: Labelled, plan: HeadPlan
) -> dict[str, Any]:
    """Accuracy in per cent of every arm on the test set, and the weights VBSW gave the training samples."""
    features = [project(network, part[0]).features for part in (train, test)]
    labels, truth = train[1].numpy(), test[1].numpy()
    weights = steep.sample_weights(
        features[0], labels, n_neighbors=plan.hyper.k, weight_ratio=plan.hyper.m, embedding=None,
        task="classification", rescaling=steep.Rescaling(method="max"),
    )  # fmt: skip
    found: dict[str, Any] = {"original": {"accuracy": accuracy(network, test)}}
    right = []
    for arm, weight in (("equal-weight head", np.ones(len(labels))), ("VBSW", weights)):
        own, by_epoch = _adam_heads(features[0], labels, weight, features[1], truth, plan)
        scores = 100 * own.mean(axis=1)
        found[arm] = {"accuracy": float(scores.mean()), "best": float(scores.max()), "best_epoch": by_epoch,
                      "all": scores.round(4).tolist()}  # fmt: skip
        right.append(own)
    found["VBSW"]["differ"] = float(100 * (right[0] != right[1]).mean())
    if plan.grid:
        result = improve(network, train, held_out, search=HeadSearch(**plan.grid))
        found["improve"] = {"accuracy": accuracy(result.network, test), "verdict": str(result.verdict)}
    return found | {"weights": weights}


def accuracy(network: nn.Module, test: tuple[Any, Any]) -> float:
    """Share of right answers in per cent, some hundreds of pictures at a time."""
    network.eval()
    with torch.no_grad():
        X, labels = (torch.as_tensor(part) for part in test)
        parts = zip(torch.split(X, 500), torch.split(labels, 500), strict=True)
        right = sum(float((network(x).argmax(1) == y).sum()) for x, y in parts)
    return 100 * right / len(test[1])


def _adam_heads(
    features: FloatArray, labels: FloatArray, weight: FloatArray, test: FloatArray, truth: FloatArray, plan: HeadPlan
) -> tuple[Any, float]:
    """Which pictures each re-trained head gets right, (n_heads, n_test), and the accuracy of the best head and epoch.

    A linear layer, Glorot start, Adam with the paper's batches.
    """
    best = 0.0

    def watch(_: int, heads: Any) -> None:
        nonlocal best
        best = max(best, float(100 * (heads.predict(test).argmax(axis=2) == truth).mean(axis=1).max()))

    heads = train_ensemble(
        features, labels, layers=(), loss="cross_entropy", sample_weight=weight, epochs=plan.epochs,
        batch_size=plan.hyper.batch_size, learning_rate=plan.hyper.learning_rate, seeds=list(range(plan.n_heads)),
        watch=watch, device=plan.device,
    )  # fmt: skip
    return heads.predict(test).argmax(axis=2) == truth, best
