"""Heads of one network, re-trained in every way Tables 4, 6 and 7 compare, and scored on the test set.

    original            the network as trained
    equal-weight head   its head re-trained by the paper's Adam with equal weights: the control the paper lacks
    VBSW                the same with weights by local label variance (Algorithm 3)
    improve             :func:`steep.nn.improve`, chosen on held-out data

Every head starts from its own seed, as in the paper; all heads of an arm are one batched computation. "best" is
the best head *on the test set*, as the paper reports it; "best_epoch" the best head and epoch there, as in its code;
"accuracy" is the mean over heads after the last epoch, which chooses nothing; "differ" the share of test pictures that
only one of two heads with the same start gets right, VBSW or equal weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import steep
from reproduction.appendix import Row
from steep._validation import FloatArray

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
    from steep.nn import project

    features = [project(network, part[0], progress=False).features for part in (train, test)]
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
        found["improve"] = _improve(network, train, held_out, test, plan)
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
    from reproduction.ensemble import train_ensemble

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


def _improve(network: nn.Module, train: Labelled, held_out: Labelled, test: Labelled, plan: HeadPlan) -> dict[str, Any]:
    from steep.nn import HeadSearch, improve

    result = improve(network, train, held_out, search=HeadSearch(**plan.grid))
    return {"accuracy": accuracy(result.network, test), "verdict": str(result.verdict)}
