"""Heads as the convex problems of :mod:`steep.convex`.

    J(W, b) = 1/N Σ_i w_i ℓ(W z_i + b, y_i) + ½ λ s² ‖W‖²,      mean of w_i = 1

z_i = M*(x_i) are the features, ℓ the cross-entropy of a softmax ("softmax"), the summed binary cross-entropies of the
outputs ("sigmoid") or half the squared error ("squared"). λ is ``l2``; s² is the mean variance of the features, so
that the same λ means the same strength whatever the scale of the features. The bias is not penalised.

A head may be held near another one, W₀ and b₀, instead of near zero (the regulariser of AFR, Qiu et al. 2023):

    J₀(W, b) = 1/N Σ_i w_i ℓ(W z_i + b, y_i) + ½ λ (s² ‖W − W₀‖² + ‖c − c₀‖²),      c = b + W z̄

z̄ is the mean of the features, c the outputs there. With λ → ∞ it is W₀ and b₀, with λ → 0 the head that is held by
nothing. Features in a file are read block by block, once an evaluation, and never held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import numpy as np

from steep import convex
from steep._validation import FloatArray
from steep.convex import Inputs, LogisticProblem, feature_scale

Link = Literal["softmax", "sigmoid"]

# Gap to the minimum, in units of a mean loss: far below what held-out data can tell apart.
TOLERANCE = 1e-8


@dataclass(frozen=True)
class Head:
    """A linear layer: ``weight`` (n_outputs, n_features), ``bias`` (n_outputs,) or None; a fixed bias is not fitted."""

    weight: FloatArray
    bias: FloatArray | None
    is_bias_fixed: bool = False

    @property
    def is_finite(self) -> bool:
        """Whether no weight and no bias is NaN or infinite."""
        return bool(np.isfinite(self.weight).all() and (self.bias is None or np.isfinite(self.bias).all()))

    @property
    def fixed_bias(self) -> FloatArray | None:
        """The frozen bias; None where the bias is fitted, or there is none."""
        return self.bias if self.is_bias_fixed else None

    def outputs(self, features: FloatArray) -> FloatArray:
        """W z + b, in the precision of the features."""
        with np.errstate(over="ignore", invalid="ignore"):  # a head may hold NaN; its scores then say so
            outputs: FloatArray = features @ self.weight.T.astype(features.dtype)
            return outputs if self.bias is None else outputs + self.bias.astype(features.dtype)


class HeadProblem:
    """Features and targets of a logistic head: class numbers for the link "softmax", 0/1 columns for "sigmoid".

    Without a bias features are not centred. ``offset`` is a bias that is not fitted but given, with ``bias=False``;
    ``anchor`` is W₀ and b₀ of J₀, None for J.
    """

    def __init__(
        self, features: FloatArray, targets: FloatArray, *, n_outputs: int, link: Link, bias: bool = True,
        offset: FloatArray | None = None, anchor: Head | None = None, deadline: float = inf,
    ) -> None:  # fmt: skip
        self.bias, self.offset = bias, offset
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
        self.problem = LogisticProblem(rows, given, n_outputs, held, self.parameters(anchor), offset, deadline)

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
        bias = table[:, -1] - weight @ self.mean if self.bias else self.offset
        return Head(weight, bias, is_bias_fixed=self.offset is not None)

    def objective(self, head: Head, weight: FloatArray, l2: float) -> float:
        """J of a head."""
        return float(self.problem.losses(self.parameters(head)[None], self._shares([weight]), l2)[0])

    def path(
        self, weights: Sequence[FloatArray], l2s: Sequence[float], *, start: Head | None = None, gap: float = TOLERANCE
    ) -> Iterator[tuple[float, list[Head]]]:
        """Yield λ and a head for each of ``weights``, the first of which the others resemble, the largest λ first."""
        found = convex.logistic_path(self.problem, self._shares(weights), l2s, self.parameters(start), gap)
        return ((l2, [self.head(theta) for theta in minima.theta]) for l2, minima in found)

    def _shares(self, weights: Sequence[FloatArray]) -> FloatArray:
        rows = self.problem.inputs
        return np.stack([np.asarray(weight / rows.shape[0], dtype=rows.dtype) for weight in weights])


def fit_logistic(
    problem: HeadProblem, weight: FloatArray, l2: float, *, start: Head | None = None, gap: float = TOLERANCE
) -> Head:
    """Solve one head from zero or from ``start``."""
    return next(problem.path([weight], [l2], start=start, gap=gap))[1][0]


def ridge_heads(
    features: FloatArray, targets: FloatArray, weight: FloatArray, l2s: Sequence[float], *, bias: bool = True,
    offset: FloatArray | None = None, anchor: Head | None = None,
) -> list[Head]:  # fmt: skip
    """Solve one head of half the squared error for each λ; arguments as those of :class:`HeadProblem`.

    A head held near another one is that one plus the head of what it leaves, y − W₀ z − b₀, held near zero: there
    the bias is a weight like the others, that of a column of ones.
    """
    mean = features.mean(axis=0, dtype=np.float64) if bias else np.zeros(features.shape[1])
    scale, share = feature_scale(features, mean), weight / len(features)
    if anchor is None:
        given = targets if offset is None else targets - offset
        penalties = [l2 * scale**2 for l2 in l2s]
        found = convex.ridge_path(features, given, share, penalties, fit_intercept=bias)
        return [Head(beta, constant if bias else offset, offset is not None) for beta, constant in found]
    rows, left, heads = Inputs(features, mean, scale, bias=bias), targets - anchor.outputs(features), []
    for beta, _ in convex.ridge_path(rows, left, share, l2s, fit_intercept=False):
        moved, constant = beta[:, : len(mean)] / scale, anchor.bias
        if bias and constant is not None:
            constant = constant + beta[:, -1] - moved @ mean
        heads.append(Head(anchor.weight + moved, constant, anchor.is_bias_fixed))
    return heads
