"""The points evaluated so far, in every form a round needs, and how much f varies around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from steep._function import Function, check_function, evaluate, function_values
from steep._validation import FloatArray, check_epsilon
from steep.domain import Box
from steep.exceptions import InputError, warn_user
from steep.labels import check_labels
from steep.measures import FunctionAround, Measure, Neighborhood
from steep.measures.surprise import standardised
from steep.measures.taylor import Derivatives, multi_indices, power
from steep.neighbors.query import nearest
from steep.sampling.strategies import Strategy


@dataclass(frozen=True)
class Evaluated:
    """Points in the user's units, in the unit cube and in the ``coordinates`` of distances, and their ``labels``."""

    X: FloatArray
    unit: FloatArray
    coordinates: FloatArray
    labels: FloatArray

    @classmethod
    def at(cls, box: Box, X: FloatArray, labels: FloatArray) -> Self:
        """Evaluated points of a box."""
        unit = box.unit(X) if len(X) else X
        return cls(X, unit, box.embed(unit) if len(X) else embedded(box, X), labels)

    def part(self, rows: Any) -> Self:
        """Some of them."""
        return type(self)(self.X[rows], self.unit[rows], self.coordinates[rows], self.labels[rows])

    def joined(self, new: Evaluated) -> Evaluated:
        """These points, then the new ones."""
        forms = ("X", "unit", "coordinates", "labels")
        return Evaluated(*(np.vstack([getattr(self, form), getattr(new, form)]) for form in forms))


def embedded(box: Box, X: FloatArray) -> FloatArray:
    """Points in the coordinates distances are taken in; one far outside S only has to stay outside."""
    if not len(X):
        return box.embed(np.zeros((1, box.n_features)))[:0]
    return box.embed(np.clip(box.unit(X), -1e6, 1e6))


class Measuring:
    """The measure of a strategy, fed with evaluated points: of labels each time, of the function once per point.

    ``n_evaluations`` counts what it spends, and ``costs`` says whether it spends anything.
    """

    def __init__(self, strategy: Strategy, box: Box, function: Function, generator: np.random.Generator) -> None:
        self.measure, self.box, self.function, self.generator = strategy.resolved(), box, function, generator
        self.order = strategy.order
        self.epsilon = check_epsilon(strategy.epsilon, box.n_features)
        self.n_neighbors = strategy.n_neighbors
        derivatives = strategy.derivatives
        if derivatives is not None:
            check_function(derivatives, name="derivatives", of="(X, multi_indices)")
        is_taylor = self.measure is not None and self.measure.name == "taylor"
        if is_taylor:
            smooth = ("linear",) if derivatives is not None else ("linear", "log")
            bad = [name for name, axis in zip(box.names, box.axes, strict=True) if axis.kind not in smooth]
            if bad:
                raise InputError(
                    f"measure='taylor' cannot differentiate along {bad} of {box!r}; expected {' or '.join(smooth)} "
                    "axes; use strategy=Adaptive()"
                )
            multi_indices(box.n_features, self.order)  # too many of them are rejected before anything is run
        self.derivatives = None if derivatives is None else _in_unit_units(derivatives, box)
        needs_function = self.measure is not None and self.measure.needs == "function"
        self.costs = needs_function and (derivatives is None or not is_taylor)
        self.n_evaluations = 0
        self._known = np.empty(0)

    def __call__(self, seen: Evaluated) -> FloatArray:
        """Variation at every point; of no point for a strategy that measures nothing."""
        if self.measure is None:
            return self._known
        if self.measure.needs == "function":
            constraint = None if self.box.constraint is None else self.box.contains_unit
            around = FunctionAround(
                self._in_unit_cube, seen.unit[len(self._known) :], order=self.order, epsilon=self.epsilon,
                derivatives=self.derivatives, bounds=Box([(0.0, 1.0)] * self.box.n_features, constraint=constraint),
                random_state=self.generator,
            )  # fmt: skip
            variation = self._known = np.concatenate([self._known, self.measure.variation(around)])
        else:
            variation = label_variation(self.measure, seen, n_neighbors=self.n_neighbors)
        warn_flat(variation)
        return variation

    def _in_unit_cube(self, U: FloatArray) -> FloatArray:
        """u ↦ f(x(u)), vectorized and counted; errors name the points in the user's units."""
        self.n_evaluations += len(U)
        return evaluate(self.function, self.box.from_unit(U))


def warn_flat(variation: FloatArray) -> None:
    """Warn where there is nothing to follow."""
    if len(variation) and not variation.any():
        warn_user("variation is zero at every point: drawing uniformly; measure at more points or raise epsilon")


def label_variation(measure: Measure, seen: Evaluated, *, n_neighbors: int | None = None) -> FloatArray:
    """A measure of labels at every point: of standardised labels, at embedded unit points."""
    n_samples, n_coordinates = seen.coordinates.shape
    least = measure.smallest_k
    if n_samples < least:
        raise InputError(f"measure={measure.name!r} needs at least {least} points, got {n_samples}; raise n_initial")
    k = n_neighbors or measure.size(n_samples, n_coordinates)
    if k > n_samples:
        raise InputError(f"n_neighbors={k} needs at least {k} samples, got {n_samples}; raise n_initial or lower it")
    labels = check_labels(standardised(seen.labels), n_samples=n_samples, task="regression")
    # Itself first: with duplicates it need not be, or be there at all.
    everyone, indices = np.arange(n_samples), nearest(seen.coordinates, seen.coordinates, k)[1]
    is_self = indices == everyone[:, None]
    is_self[~is_self.any(axis=1), -1] = True
    graph = np.column_stack([everyone, indices[~is_self].reshape(n_samples, k - 1)])
    given = (seen.X, squeezed(seen.labels))
    return measure.variation(Neighborhood.search(seen.coordinates, labels, n_neighbors=k, neighbors=graph, given=given))


def squeezed(labels: FloatArray) -> FloatArray:
    """Labels as callers know them: one output has no second dimension."""
    return labels[:, 0] if labels.shape[1] == 1 else labels


def _in_unit_units(derivatives: Derivatives, box: Box) -> Derivatives:
    """∂_u^k = width^k ∂_x^k."""

    def scaled(U: FloatArray, k: npt.NDArray[np.int64], /) -> FloatArray:
        partials = function_values(derivatives(box.from_unit(U), k.copy()), "derivatives")
        if partials.ndim not in (2, 3) or len(partials) != len(k):
            return partials  # the wrong shape, which taylor_variation rejects
        return partials * power(box.width, k).reshape(-1, *[1] * (partials.ndim - 1))

    return scaled
