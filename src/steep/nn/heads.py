"""Heads: weighted linear models on features, solved as convex problems of :mod:`steep.convex`.

    J(W, b) = 1/N Σ_i w_i ℓ(W z_i + b, y_i) + ½ λ s² ‖W‖²,      mean of w_i = 1

z_i = M*(x_i) are the features, ℓ the cross-entropy of a softmax ("softmax"), the summed binary cross-entropies of the
outputs ("sigmoid") or half the squared error ("squared"). λ is ``l2``; s² is the mean variance of the features, so
that the same λ means the same strength whatever the scale of the features. The bias is not penalised.

A head may be held near another one, W₀ and b₀, instead of near zero (the regulariser of AFR, Qiu et al. 2023):

    J₀(W, b) = 1/N Σ_i w_i ℓ(W z_i + b, y_i) + ½ λ (s² ‖W − W₀‖² + ‖c − c₀‖²),      c = b + W z̄

z̄ is the mean of the features, c the outputs there. With λ → ∞ it is W₀ and b₀, with λ → 0 the head that is held by
nothing. Features in a file are read block by block, once an evaluation, and never held.

task         labels                          head           score of a sample
multiclass   class numbers 0 … C−1           C logits       whether the class is right
binary       0/1                             one logit      whether the class is right
multilabel   0/1 columns                     C logits       share of labels that are right
regression   numbers                         values         − squared error (summed over outputs)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic, perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from steep import convex
from steep._validation import FloatArray, check_choice
from steep.convex import Inputs, LogisticProblem, feature_scale
from steep.exceptions import InputError, InputTypeError, warn_user
from steep.labels import Labels, check_labels

TaskName = Literal["auto", "multiclass", "binary", "multilabel", "regression"]
TASKS = ("auto", "multiclass", "binary", "multilabel", "regression")
# Whether each sample is right, as bool, or how well it is done, as float32.
Scores = npt.NDArray[Any]
# Squared errors are kept in single precision and squared once more as evidence; larger ones would overflow.
_LARGEST = 1e9
# How far the sum of the probabilities of a row may be from one; half precision keeps three digits.
_NEAR_ONE = 5e-3
Link = Literal["softmax", "sigmoid"]

# Gap to the minimum, in units of a mean loss: far below what held-out data can tell apart.
TOLERANCE = 1e-8
# Gap to the minimum while candidates are compared: a hundredth of what 10,000 held-out samples can tell.
CANDIDATE_TOLERANCE = 1e-6
# Samples that a gradient is timed on, and gradients that a head usually takes.
_TIMED, _N_GRADIENTS = 4096, 15


@dataclass(frozen=True)
class HeadTask:
    """The kind of a head and its number of outputs."""

    name: TaskName
    n_outputs: int

    @property
    def loss(self) -> str:
        """Which convex problem the head solves."""
        return {"multiclass": "softmax", "regression": "squared"}.get(self.name, "sigmoid")

    @property
    def has_classes(self) -> bool:
        """Whether each sample has one class."""
        return self.name in ("multiclass", "binary")

    def class_counts(self, targets: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Samples of each class, or of each label."""
        if self.name == "multilabel":
            return np.asarray(targets.sum(axis=0), dtype=np.int64)
        return np.bincount(targets.reshape(-1).astype(np.int64), minlength=max(self.n_outputs, 2))

    def targets(self, labels: Any) -> npt.NDArray[Any]:
        """Check labels and return class numbers, or float columns."""
        array = np.asarray(labels)
        if array.dtype.kind in "USmMV":
            raise InputTypeError(
                f"labels has dtype {array.dtype}; expected numbers, for classes those of the head's outputs; "
                "encode text by np.unique(labels, return_inverse=True)[1]"
            )
        columns = check_labels(labels, n_samples=len(array), task="regression", name="labels").array
        if self.name == "multiclass":
            return _class_numbers(columns, array.shape, self.n_outputs)
        if columns.shape[1] != self.n_outputs:
            raise InputError(
                f"labels has shape {array.shape} for a head of {self.n_outputs} outputs; expected "
                f"({len(array)}, {self.n_outputs})"
            )
        largest, allowed = float(np.abs(columns).max(initial=0.0)), _LARGEST / columns.shape[1] ** 0.5
        if self.name == "regression" and largest > allowed:
            raise InputError(
                f"labels reach {largest:.3g}; expected numbers up to {allowed:.3g}; divide them, and the outputs of "
                "the network, by a constant"
            )
        if self.name != "regression" and not np.isin(columns, (0, 1)).all():
            raise InputError(f"labels holds values other than 0 and 1; expected 0/1 for a {self.name} head")
        return columns

    def as_labels(self, targets: npt.NDArray[Any]) -> Labels:
        """Targets in the form the measures work with: one class per sample, or columns."""
        if self.has_classes:
            return Labels(codes=targets.reshape(-1).astype(np.int32))
        return Labels(values=targets)

    def probabilities(self, outputs: FloatArray) -> FloatArray:
        """Probability of each class, or of each label of several."""
        if self.name == "multiclass":
            return np.asarray(softmax(outputs.astype(np.float64), axis=1))
        positive = np.asarray(expit(outputs.astype(np.float64)))
        return positive if self.name == "multilabel" else np.hstack([1 - positive, positive])

    def predictions(self, outputs: FloatArray, labels: Labels) -> FloatArray:
        """What the head says, in the columns of the labels: probabilities of the classes, or values."""
        if self.name == "regression":
            return outputs.astype(np.float64)
        probabilities = self.probabilities(outputs)
        # The measures count the classes that occur, which may be fewer than the head has outputs.
        return probabilities if labels.codes is None else probabilities[:, : int(labels.codes.max()) + 1]

    def scores(self, outputs: FloatArray, targets: npt.NDArray[Any]) -> Scores:
        """Score of each sample; larger is better."""
        if self.name == "multiclass":
            return np.asarray(outputs.argmax(axis=1) == targets)
        if self.name == "regression":
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray((-((outputs - targets) ** 2).sum(axis=1)).astype(np.float32))
        right = (outputs > 0) == (targets > 0.5)
        return np.asarray(right[:, 0] if self.name == "binary" else right.mean(axis=1, dtype=np.float32))


def find_task(task: TaskName, labels: Any, n_outputs: int) -> HeadTask:
    """Tell the task from the labels and the head."""
    check_choice(task, name="task", choices=TASKS)
    array = np.asarray(labels)
    if task == "binary" and n_outputs != 1:
        raise InputError(
            f"task='binary' needs a head of one output, got {n_outputs}; pass task='multiclass' or 'multilabel'"
        )
    if task != "auto":
        return HeadTask(task, n_outputs)
    is_indicator = array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all())
    columns = 1 if array.ndim <= 1 else array.shape[1]
    if n_outputs == 1:
        return HeadTask("binary" if is_indicator else "regression", 1)
    if columns == 1:
        return HeadTask("multiclass", n_outputs)
    if not _are_shares(array, n_outputs):
        return HeadTask("multilabel" if is_indicator else "regression", n_outputs)
    if not is_indicator:
        raise InputError(
            "labels have rows that sum to one, as class probabilities; pass labels.argmax(1) to fit classes, or "
            "task='regression' if the outputs of the network are numbers"
        )
    warn_user(
        "labels are one-hot and are taken as classes; pass labels.argmax(1) or task='multiclass' to silence this "
        "warning, or task='multilabel' if each column is a label of its own"
    )
    return HeadTask("multiclass", n_outputs)


def _are_shares(array: npt.NDArray[Any], n_outputs: int) -> bool:
    """Whether every row holds one number ≥ 0 per output, and they sum to one."""
    if array.ndim != 2 or array.shape[1] != n_outputs or array.dtype.kind not in "biuf" or not len(array):
        return False
    sums = array.sum(axis=1, dtype=np.float64)
    return bool((array >= 0).all() and (np.abs(sums - 1) <= _NEAR_ONE).all())


def _class_numbers(columns: FloatArray, shape: tuple[int, ...], n_classes: int) -> npt.NDArray[np.int64]:
    if columns.shape[1] == n_classes > 1 and np.isin(columns, (0, 1)).all() and (columns.sum(axis=1) == 1).all():
        return np.asarray(columns.argmax(axis=1), dtype=np.int64)  # one-hot
    if columns.shape[1] != 1:
        raise InputError(f"labels has shape {shape}; expected one class number per sample")
    classes = columns[:, 0].astype(np.int64)
    if (classes != columns[:, 0]).any():
        raise InputError(f"labels holds values that are not class numbers; expected 0 … {n_classes - 1}")
    if classes.min() < 0 or classes.max() >= n_classes:
        bad = classes[(classes < 0) | (classes >= n_classes)][0]
        raise InputError(
            f"labels holds class {bad}, but the head has {n_classes} outputs; expected classes 0 … {n_classes - 1}"
        )
    return classes


# ------------------------------------------------------------------------------- one head


@dataclass(frozen=True)
class Head:
    """A linear layer: ``weight`` (n_outputs, n_features), ``bias`` (n_outputs,) or None."""

    weight: FloatArray
    bias: FloatArray | None

    def outputs(self, features: FloatArray) -> FloatArray:
        """W z + b, in the precision of the features."""
        with np.errstate(over="ignore", invalid="ignore"):
            outputs: FloatArray = features @ self.weight.T.astype(features.dtype)
            return outputs if self.bias is None else outputs + self.bias.astype(features.dtype)


class HeadProblem:
    """Features and targets of a logistic head: class numbers for the link "softmax", 0/1 columns for "sigmoid".

    Without a bias features are not centred. ``anchor`` is W₀ and b₀ of J₀, None for J.
    """

    def __init__(
        self, features: FloatArray, targets: FloatArray, *, n_outputs: int, link: Link, bias: bool = True,
        anchor: Head | None = None, deadline: float = inf,
    ) -> None:  # fmt: skip
        self.bias = bias
        self.mean = features.mean(axis=0, dtype=np.float64) if bias else np.zeros(features.shape[1])
        self.scale = feature_scale(features, self.mean)
        rows = Inputs(features, self.mean, self.scale, bias=bias)
        held = np.ones(rows.shape[1])
        if bias and anchor is None:
            held[-1] = 0.0
        self.shape = n_outputs, rows.shape[1]
        if link == "softmax":
            given: Any = np.asarray(targets, dtype=np.intp).reshape(-1)
        else:
            given = np.asarray(targets, dtype=rows.dtype).reshape(len(features), -1).T
        self.problem = LogisticProblem(rows, given, n_outputs, held, self.parameters(anchor), deadline)

    def parameters(self, head: Head | None) -> FloatArray:
        """A head in the coordinates of the scaled features; zero when there is none."""
        if head is None:
            return np.zeros(self.shape)
        weight = np.asarray(head.weight, dtype=np.float64)
        if not self.bias:
            return weight * self.scale
        offset = (head.bias if head.bias is not None else 0.0) + weight @ self.mean
        return np.hstack([weight * self.scale, offset[:, None]])

    def head(self, theta: FloatArray) -> Head:
        """The head in the coordinates of the features as they were given."""
        table = theta.reshape(self.shape)
        weight = table[:, : len(self.mean)] / self.scale
        return Head(weight, table[:, -1] - weight @ self.mean if self.bias else None)

    def path(
        self, weights: Sequence[FloatArray], l2s: Sequence[float], *, start: Head | None = None, gap: float = TOLERANCE
    ) -> Iterator[tuple[float, list[Head]]]:
        """Yield λ and a head for each of ``weights``, the first of which the others resemble, the largest λ first."""
        found = convex.logistic_path(self.problem, self._shares(weights), l2s, self.parameters(start), gap)
        return ((l2, [self.head(theta) for theta in minima.theta]) for l2, minima in found)

    def _shares(self, weights: Sequence[FloatArray]) -> FloatArray:
        rows = self.problem.inputs
        return np.stack([np.asarray(weight / rows.shape[0], dtype=rows.dtype) for weight in weights])


def ridge_heads(
    features: FloatArray, targets: FloatArray, weight: FloatArray, l2s: Sequence[float], *, bias: bool = True,
    anchor: Head | None = None,
) -> list[Head]:  # fmt: skip
    """Solve one head of half the squared error for each λ; arguments as those of :class:`HeadProblem`.

    A head held near another one is that one plus the head of what it leaves, y − W₀ z − b₀, held near zero: there
    the bias is a weight like the others, that of a column of ones.
    """
    mean = features.mean(axis=0, dtype=np.float64) if bias else np.zeros(features.shape[1])
    scale, share = feature_scale(features, mean), weight / len(features)
    if anchor is None:
        penalties = [l2 * scale**2 for l2 in l2s]
        found = convex.ridge_path(features, targets, share, penalties, fit_intercept=bias)
        return [Head(beta, constant if bias else None) for beta, constant in found]
    rows, left, heads = Inputs(features, mean, scale, bias=bias), targets - anchor.outputs(features), []
    for beta, _ in convex.ridge_path(rows, left, share, l2s, fit_intercept=False):
        moved, constant = beta[:, : len(mean)] / scale, anchor.bias
        if bias and constant is not None:
            constant = constant + beta[:, -1] - moved @ mean
        heads.append(Head(anchor.weight + moved, constant))
    return heads


# ------------------------------------------------------------------------------- heads of any task


@dataclass(frozen=True)
class HeadSamples:
    """Features z_i and targets y_i that a head is fitted to, or scored on."""

    features: FloatArray
    targets: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.features)


def fit_head(
    samples: HeadSamples, task: HeadTask, weight: FloatArray, l2: float, *, original: Head, anchored: bool = False,
    tolerance: float = TOLERANCE,
) -> Head:  # fmt: skip
    """Line 6 of Algorithm 3: one head to convergence, near the original one if ``anchored``."""
    grid = HeadGrid(samples, task, [weight], original=original, anchored=anchored, tolerance=tolerance)
    return next(grid.heads([l2]))[1][0]


class HeadGrid:
    """The heads of the same samples: for every λ one for each of ``weights``, the first of which the others resemble.

    The ``original`` head says whether there is a bias; ``anchored`` heads are held near it. Each round starts from the
    nearest λ solved. Ridge heads are solved for all ``reachable`` λ together, once the features are decomposed.
    """

    def __init__(
        self,
        samples: HeadSamples, task: HeadTask, weights: Sequence[FloatArray], *, original: Head, anchored: bool = False,
        reachable: Sequence[float] = (), deadline: float = inf, tolerance: float = CANDIDATE_TOLERANCE,
    ) -> None:  # fmt: skip
        self.samples, self.task, self.weights, self.original = samples, task, weights, original
        self.reachable, self.deadline, self.tolerance = reachable, deadline, tolerance
        self.form: dict[str, Any] = {"bias": original.bias is not None, "anchor": original if anchored else None}
        self.solved: dict[float, list[Head]] = {}

    def heads(self, l2s: Sequence[float]) -> Iterator[tuple[float, list[Head]]]:
        """Yield λ and its heads, the largest λ first."""
        z, y, task = self.samples.features, self.samples.targets, self.task
        if task.loss == "squared":
            if not self.solved.keys() >= {*l2s}:
                together = sorted({*l2s, *self.reachable})
                paths = [ridge_heads(z, y, weight, together, **self.form) for weight in self.weights]
                self.solved = dict(zip(together, map(list, zip(*paths, strict=True)), strict=True))
            yield from ((l2, self.solved[l2]) for l2 in sorted(l2s, reverse=True))
            return
        link: Any = task.loss
        problem = HeadProblem(z, y, n_outputs=task.n_outputs, link=link, deadline=self.deadline, **self.form)
        for l2, heads in problem.path(self.weights, l2s, start=self._nearest(max(l2s)), gap=self.tolerance):
            self.solved[l2] = heads[:1]
            yield l2, heads
            if monotonic() > self.deadline:
                return

    def _nearest(self, l2: float) -> Head:
        if not self.solved:
            return self.original
        return self.solved[min(self.solved, key=lambda known: abs(np.log((known + 1e-300) / (l2 + 1e-300))))][0]


def seconds_of_a_head(samples: HeadSamples, task: HeadTask) -> float:
    """An estimate of the time one head takes, from one gradient on some of the samples."""
    n_rows = min(len(samples), _TIMED)
    some = HeadSamples(np.asarray(samples.features[:n_rows]), samples.targets[:n_rows])
    if task.loss == "squared":
        return 1e-9 * float(len(samples) * samples.features.shape[1] ** 2)
    link: Any = task.loss
    problem = HeadProblem(some.features, some.targets, n_outputs=task.n_outputs, link=link).problem
    theta, weight = np.zeros((1, *problem.shape)), np.ones((1, n_rows), dtype=problem.inputs.dtype)
    start = perf_counter()
    problem.gradient(theta, weight, 1.0)
    return _N_GRADIENTS * (perf_counter() - start) * len(samples) / n_rows
