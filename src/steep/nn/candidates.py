"""The heads an improvement chooses from: λ × weight ratio × number of neighbours, and the plain ones.

Every group of candidates has the equal-weight heads of all λ. Weighted heads are those of Algorithm 3, lines
4 to 6: w_i from the variance of the labels of k neighbours among the features, rescaled to the ratio m.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, check_count, check_real
from steep.exceptions import InputError
from steep.measures.variance import prefix_variances
from steep.neighbors import neighbor_graph
from steep.nn.heads import Head, HeadProblem, fit_adam, fit_logistic, logistic_path, ridge_path
from steep.nn.tasks import HeadTask
from steep.rescaling import rescale

Settings = dict[str, Any] | None

# Gap to the minimum while candidates are compared: a hundredth of what 10,000 held-out samples can tell.
_CANDIDATE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Candidate:
    """How a head was fitted; the original head has no ``l2``."""

    kind: str
    l2: float | None = None
    weight_ratio: float = 1.0
    n_neighbors: int | None = None
    augmented: bool = False


@dataclass(frozen=True)
class Grid:
    """The values to try, checked."""

    l2: Sequence[float]
    weight_ratio: Sequence[float]
    n_neighbors: Sequence[int]

    def __post_init__(self) -> None:
        for l2 in self.l2:
            check_real(l2, name="l2", minimum=0.0)
        for ratio in self.weight_ratio:
            check_real(ratio, name="weight_ratio", above=0.0)
        for k in self.n_neighbors:
            check_count(k, name="n_neighbors", minimum=2)
        if not len(self.l2):
            raise InputError("l2 is empty; need at least one strength; pass l2=(1e-3,)")


@dataclass(frozen=True)
class Samples:
    """Features and targets a head is fitted to; ``variation`` has one row for each k, None when not wanted."""

    features: FloatArray
    targets: npt.NDArray[Any]
    augmented: bool = False
    variation: dict[int, FloatArray] = field(default_factory=dict)


def label_variations(
    features: FloatArray,
    targets: npt.NDArray[Any],
    task: HeadTask,
    sizes: Sequence[int],
    n_jobs: int | None = None,
) -> dict[int, FloatArray]:
    """Line 4 of Algorithm 3, Df̂²(M*(x_i)) by Eq. Dhat2, for every k from one graph."""
    if not sizes:
        return {}
    labels = task.as_labels(targets)
    # Held-out data choose among the heads: the last per mille of the neighbours decides nothing, and costs most.
    graph = neighbor_graph(features, n_neighbors=max(sizes), recall=0.99, n_jobs=n_jobs, random_state=0)
    rows = prefix_variances(labels, graph[1], list(sizes))
    return dict(zip(sizes, rows, strict=True))


def fit_candidates(
    samples: Samples, task: HeadTask, grid: Grid, *, original: Head, weighted: bool = True
) -> Iterator[tuple[Candidate, Head]]:
    """Fit the equal-weight head of every λ and, when ``weighted``, every (λ, m, k)."""
    settings = [(m, k) for k in grid.n_neighbors for m in grid.weight_ratio if m != 1.0] if weighted else []
    weights = [rescale(samples.variation[k], weight_ratio=m) for m, k in settings]
    kinds = [("equal", 1.0, None), *(("weighted", m, k) for m, k in settings)]
    for l2, heads in _paths(samples, task, weights, grid.l2, original):
        for (kind, m, k), head in zip(kinds, heads, strict=True):
            yield Candidate(kind, l2, m, k, samples.augmented), head


def _paths(
    samples: Samples, task: HeadTask, weights: list[FloatArray], l2s: Sequence[float], original: Head
) -> Iterator[tuple[float, list[Head]]]:
    bias = original.bias is not None
    if task.loss == "squared":
        equal = np.ones(len(samples.features))
        paths = [ridge_path(samples.features, samples.targets, w, l2s, bias=bias) for w in (equal, *weights)]
        yield from zip(l2s, map(list, zip(*paths, strict=True)), strict=True)
        return
    problem = head_problem(samples, task, bias=bias)
    yield from logistic_path(problem, weights, l2s, start=original, tolerance=_CANDIDATE_TOLERANCE)


def head_problem(samples: Samples, task: HeadTask, *, bias: bool) -> HeadProblem:
    """The convex problem of a softmax or sigmoid head."""
    link: Any = task.loss
    return HeadProblem(samples.features, samples.targets, n_outputs=task.n_outputs, link=link, bias=bias)


def fit_one(
    samples: Samples, task: HeadTask, weight: FloatArray, l2: float, *, original: Head, adam: Settings = None
) -> Head:  # fmt: skip
    """Line 6 of Algorithm 3: one head to convergence, or by Adam with the settings given."""
    bias = original.bias is not None
    if adam is not None:
        settings: dict[str, Any] = {
            "n_outputs": task.n_outputs,
            "loss": task.loss,
            "l2": l2,
            "bias": bias,
            **adam,
        }
        return fit_adam(samples.features, samples.targets, weight, **settings)
    if task.loss == "squared":
        return ridge_path(samples.features, samples.targets, weight, [l2], bias=bias)[0]
    return fit_logistic(head_problem(samples, task, bias=bias), weight, l2, start=original)


def head_outputs(head: Head, features: FloatArray) -> FloatArray:
    """W z + b."""
    weight = head.weight.T.astype(features.dtype)
    outputs: FloatArray = features @ weight
    return outputs if head.bias is None else outputs + head.bias.astype(features.dtype)
