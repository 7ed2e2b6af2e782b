"""Heads for samples of any task: one to convergence or by the paper's Adam, or all of a grid over λ and weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from steep._validation import FloatArray
from steep.nn.heads.problem import TOLERANCE, Head, HeadProblem, fit_logistic, ridge_heads
from steep.nn.heads.task import HeadTask

# Gap to the minimum while candidates are compared: a hundredth of what 10,000 held-out samples can tell.
CANDIDATE_TOLERANCE = 1e-6
# Samples that a gradient is timed on, and gradients that a head usually takes.
_TIMED, _N_GRADIENTS = 4096, 15


@dataclass(frozen=True)
class HeadSamples:
    """Features z_i and targets y_i that a head is fitted to, or scored on."""

    features: FloatArray
    targets: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.features)

    def rows(self, rows: npt.NDArray[np.intp]) -> HeadSamples:
        """Some of them."""
        return HeadSamples(self.features[rows], self.targets[rows])


def fit_head(
    samples: HeadSamples,
    task: HeadTask,
    weight: FloatArray,
    l2: float,
    *,
    original: Head,
    anchored: bool = False,
    tolerance: float = TOLERANCE,
    adam: Adam | None = None,
) -> Head:
    """Line 6 of Algorithm 3: one head to convergence, near the original one if ``anchored``, or by Adam."""
    form = _form(original, anchored=anchored and adam is None)
    if adam is not None:
        given = samples.features, samples.targets, weight
        return fit_adam(*given, adam, n_outputs=task.n_outputs, loss=task.loss, l2=l2, **form)
    if task.loss == "squared":
        return ridge_heads(samples.features, samples.targets, weight, [l2], **form)[0]
    return fit_logistic(_problem(samples, task, form), weight, l2, start=_start(original), gap=tolerance)


class HeadGrid:
    """The heads of the same samples: for every λ one with equal weights, and one for each of ``weights``.

    The ``original`` head says whether there is a bias and whether it is fixed; ``anchored`` heads are held near it. λ
    may be asked for in several rounds: each starts from the nearest λ solved, the first from the original head. Ridge
    heads are solved for all ``reachable`` λ together, which is cheap once the features are decomposed.
    """

    def __init__(
        self,
        samples: HeadSamples, task: HeadTask, weights: Sequence[FloatArray], *, original: Head, anchored: bool = False,
        reachable: Sequence[float] = (), deadline: float = inf,
    ) -> None:  # fmt: skip
        self.samples, self.task, self.weights = samples, task, [np.ones(len(samples)), *weights]
        self.form, self.reachable, self.start = _form(original, anchored=anchored), reachable, _start(original)
        self.solved: dict[float, list[Head]] = {}
        self.deadline = deadline

    def heads(self, l2s: Sequence[float]) -> Iterator[tuple[float, list[Head]]]:
        """Yield λ and its heads, the one of equal weights first."""
        if self.task.loss == "squared":
            yield from self._ridge_heads(l2s)
            return
        problem = _problem(self.samples, self.task, self.form | {"deadline": self.deadline})
        start = self._nearest(max(l2s))
        for l2, heads in problem.path(self.weights, l2s, start=start, gap=CANDIDATE_TOLERANCE):
            self.solved[l2] = heads[:1]
            yield l2, heads
            if monotonic() > self.deadline:
                return

    def _nearest(self, l2: float) -> Head | None:
        if not self.solved:
            return self.start
        return self.solved[min(self.solved, key=lambda known: abs(np.log((known + 1e-300) / (l2 + 1e-300))))][0]

    def _ridge_heads(self, l2s: Sequence[float]) -> Iterator[tuple[float, list[Head]]]:
        if not self.solved.keys() >= {*l2s}:
            together, samples = sorted({*l2s, *self.reachable}), self.samples
            paths = [
                ridge_heads(samples.features, samples.targets, weight, together, **self.form) for weight in self.weights
            ]
            self.solved = dict(zip(together, map(list, zip(*paths, strict=True)), strict=True))
        yield from ((l2, self.solved[l2]) for l2 in sorted(l2s, reverse=True))


def seconds_of_a_head(samples: HeadSamples, task: HeadTask) -> float:
    """An estimate of the time one head takes, from one gradient on some of the samples."""
    n_rows = min(len(samples), _TIMED)
    some = HeadSamples(np.asarray(samples.features[:n_rows]), samples.targets[:n_rows])
    if task.loss == "squared":
        return 1e-9 * float(len(samples) * samples.features.shape[1] ** 2)
    problem = _problem(some, task, {"bias": True}).problem
    theta, weight = np.zeros((1, *problem.shape)), np.ones((1, n_rows), dtype=problem.inputs.dtype)
    start = perf_counter()
    problem.gradient(theta, weight, 1.0)
    return _N_GRADIENTS * (perf_counter() - start) * len(samples) / n_rows


def _form(original: Head, *, anchored: bool) -> dict[str, Any]:
    """Whether a bias is fitted, the one that is given instead, and the head that is held near."""
    form = {"bias": original.bias is not None and not original.is_bias_fixed, "offset": original.fixed_bias}
    return form | ({"anchor": original} if anchored else {})


def _start(original: Head) -> Head | None:
    """The original head is near the minimum, unless it is broken."""
    return original if original.is_finite else None


def _problem(samples: HeadSamples, task: HeadTask, form: dict[str, Any]) -> HeadProblem:
    link: Any = task.loss
    return HeadProblem(samples.features, samples.targets, n_outputs=task.n_outputs, link=link, **form)


# ------------------------------------------------------------------------------- as in the paper


class Adam(NamedTuple):
    """Settings of Adam: those of the paper."""

    learning_rate: float = 1e-3
    epochs: int = 25
    batch_size: int = 25
    seed: int = 0


def fit_adam(
    features: FloatArray, targets: FloatArray, weight: FloatArray, adam: Adam, *, n_outputs: int, loss: str,
    l2: float = 0.0, bias: bool = True, offset: FloatArray | None = None,
) -> Head:  # fmt: skip
    """Train one head by Adam on shuffled mini-batches; ``l2`` is a plain penalty ½ λ ‖W‖² here.

    Targets are class numbers for the loss "softmax", columns for "sigmoid" and "squared"; ``offset`` is a bias that is
    not fitted but given, with ``bias=False``.
    """
    generator, n_features = torch.Generator().manual_seed(adam.seed), features.shape[1]
    dtype = torch.from_numpy(features[[0]]).dtype
    head = nn.Linear(n_features, n_outputs, bias=bias, dtype=dtype, device="meta").to_empty(device="cpu")
    for parameter in head.parameters():
        nn.init.uniform_(parameter, -(n_features**-0.5), n_features**-0.5, generator=generator)
    w = torch.as_tensor(weight, dtype=dtype)
    y = torch.as_tensor(targets, dtype=torch.int64 if loss == "softmax" else dtype)
    given = 0.0 if offset is None else torch.as_tensor(offset, dtype=dtype)
    optimizer = torch.optim.Adam(head.parameters(), lr=adam.learning_rate)
    with torch.enable_grad():
        for _ in range(adam.epochs):
            for rows in torch.split(torch.randperm(len(features), generator=generator), adam.batch_size):
                optimizer.zero_grad()
                z = torch.from_numpy(features[rows.numpy()])  # a copy of these rows: features may lie in a file
                losses = w[rows] * _sample_losses(head(z) + given, y[rows], loss)
                torch.autograd.backward(losses.mean() + l2 / 2 * (head.weight**2).sum())
                optimizer.step()
    trained_bias = head.bias.detach().double().numpy() if bias else offset
    return Head(head.weight.detach().double().numpy(), trained_bias, is_bias_fixed=offset is not None)


def _sample_losses(outputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    if loss == "softmax":
        return functional.cross_entropy(outputs, targets, reduction="none")
    columns = targets.reshape(outputs.shape)
    if loss == "sigmoid":
        return functional.binary_cross_entropy_with_logits(outputs, columns, reduction="none").sum(dim=1)
    return ((outputs - columns) ** 2).sum(dim=1) / 2
