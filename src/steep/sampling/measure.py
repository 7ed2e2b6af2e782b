"""Which measure a design follows, and its values at the points evaluated so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steep._function import Function, evaluate
from steep._validation import FloatArray, check_vector
from steep.domain import Box
from steep.exceptions import InputError
from steep.measures.derivatives import Derivatives, FiniteDifferences
from steep.measures.multi_index import power
from steep.measures.surprise import standardised, surprise_variation
from steep.measures.taylor import taylor_variation
from steep.measures.variance import neighbor_variance

Measure = Literal["auto", "taylor", "neighbors", "surprise"] | Callable[[FloatArray, FloatArray], Any]
NAMED = ("auto", "taylor", "neighbors", "surprise")


class Measured:
    """Variation at evaluated points; a Taylor variation is taken once a point, the others anew.

    Derivatives by finite differences are evaluations of the function: ``n_evaluations`` counts them.
    """

    def __init__(
        self,
        measure: Any,
        box: Box,
        *,
        function: Function,
        vectorized: bool,
        order: int,
        epsilon: Any,
        derivatives: Derivatives | None,
        n_neighbors: int | None,
    ) -> None:
        self.measure, self.box = measure, box
        self.order, self.epsilon, self.n_neighbors = order, epsilon, n_neighbors
        if measure == "taylor":
            _check_axes(box, derivatives)
        self.differences = FiniteDifferences(
            _in_unit_cube(function, box, vectorized), bounds=[(0, 1)] * box.n_features
        )
        self.derivatives = self.differences if derivatives is None else _in_unit_units(derivatives, box)
        self._known = np.empty(0)

    @property
    def n_evaluations(self) -> int:
        """Evaluations spent on finite differences."""
        return self.differences.n_evaluations

    def __call__(self, X: FloatArray, labels: FloatArray) -> FloatArray:
        """Variation at every row of ``X``."""
        if self.measure == "taylor":
            return self._taylor(X)
        if self.measure == "surprise":
            return surprise_variation(self._points(X), labels, n_neighbors=self.n_neighbors)
        if self.measure == "neighbors":
            k = self.n_neighbors
            k = min(20, max(3, len(X) // 4), len(X)) if k is None else k
            return neighbor_variance(self._points(X), standardised(labels), n_neighbors=k, task="regression")
        values = self.measure(X, squeeze(labels))
        return check_vector(values, name="measure(X, y)", n_samples=len(X), minimum=0.0)

    def _points(self, X: FloatArray) -> FloatArray:
        return self.box.embed(self.box.unit(X))

    def _taylor(self, X: FloatArray) -> FloatArray:
        fresh = taylor_variation(
            None,
            self.box.unit(X[len(self._known) :]),
            order=self.order,
            epsilon=self.epsilon,
            derivatives=self.derivatives,
        )
        self._known = np.concatenate([self._known, fresh])
        return self._known


def squeeze(labels: FloatArray) -> FloatArray:
    """Labels as callers know them: one output has no second dimension."""
    return labels[:, 0] if labels.shape[1] == 1 else labels


def _check_axes(box: Box, derivatives: Derivatives | None) -> None:
    smooth = ("linear",) if derivatives is not None else ("linear", "log")
    bad = [name for name, axis in zip(box.names, box.axes, strict=True) if axis.kind not in smooth]
    if bad:
        raise InputError(
            f"measure='taylor' cannot differentiate along {bad} of {box!r}; need {' or '.join(smooth)} axes; "
            "use measure='surprise'"
        )


def _in_unit_cube(function: Function, box: Box, vectorized: bool) -> Function:
    """u ↦ f(x(u)), always vectorized; errors name the points in the user's units."""
    return lambda U: evaluate(function, box.from_unit(U), vectorized=vectorized)


def _in_unit_units(derivatives: Derivatives, box: Box) -> Derivatives:
    """∂_u^k = width^k ∂_x^k."""

    def scaled(U: FloatArray, multi_indices: npt.NDArray[np.int64], /) -> FloatArray:
        partials = np.asarray(derivatives(box.from_unit(U), multi_indices), dtype=np.float64)
        width = power(box.width, multi_indices)
        return partials * width.reshape(-1, *[1] * (partials.ndim - 1))

    return scaled
