"""The variation of one training set by every measure and k asked for, from one graph and one cross-fitting."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.multiclass import type_of_target

from steep._validation import FloatArray, check_count
from steep.labels import check_labels
from steep.measures import MEASURES
from steep.measures.neighborhood import Neighborhood
from steep.weighting.cross_fitting import cross_fitted
from steep.weighting.embedding import embed
from steep.weighting.wrapping import task_of


class Measured(NamedTuple):
    """Variation by measure and k, and the seconds that neighbours and cross-fitting took."""

    variation: dict[tuple[str, int], FloatArray]
    seconds_neighbors: float
    seconds_cross_fitting: float


def default_measures(estimator: Any, y: Any) -> tuple[str, ...]:
    """Return the measures to try: what gained most on development tables, if the estimator can answer."""
    if not is_classifier(estimator):
        return ("variance", "misfit")
    one_class_each = type_of_target(y) in ("binary", "multiclass")
    return ("misfit", "border") if one_class_each and hasattr(estimator, "predict_proba") else ("misfit",)


def default_sizes(estimator: Any) -> tuple[int, ...]:
    """Return the values of k to try: borders between classes blur over many neighbours, numbers less so."""
    return (1, 5) if is_classifier(estimator) else (1, 5, 20)


def sizes_for(measure: str, sizes: Sequence[int]) -> list[int]:
    """Return the k that make sense for a measure; one at least."""
    smallest = MEASURES[measure].smallest_k
    fitting = [k for k in sizes if k >= smallest]
    return fitting or [check_count(max(sizes), name="n_neighbors", minimum=smallest)]


def largest_size(measures: Sequence[str], sizes: Sequence[int]) -> int:
    """Return the largest k that any of the measures looks at."""
    return max(k for measure in measures for k in sizes_for(measure, sizes))


def measure_all(
    X: Any,
    y: Any,
    estimator: Any,
    *,
    measures: Sequence[str],
    sizes: Sequence[int],
    embedding: Any,
    sample_weight: FloatArray | None = None,
    params: Mapping[str, Any] | None = None,
    neighbors: Any = None,
    n_jobs: int | None = None,
) -> Measured:
    """Search the neighbours once, unless given, cross-fit once if a measure asks a model, and measure."""
    started = time.perf_counter()
    wanted = {measure: sizes_for(measure, sizes) for measure in measures}
    around = neighborhood(X, y, estimator, largest_size(measures, sizes), embedding, neighbors, n_jobs)
    asked = time.perf_counter()
    if any(MEASURES[measure].needs == "model" for measure in measures):
        predicted = cross_fitted(estimator, X, y, around.labels, sample_weight=sample_weight, params=params)
        around = replace(around, predicted=predicted)
    answered = time.perf_counter()
    variation = {
        (measure, k): values
        for measure, fitting in wanted.items()
        for k, values in zip(fitting, MEASURES[measure].variations(around, fitting), strict=True)
    }
    ended = time.perf_counter()
    return Measured(variation, asked - started + ended - answered, answered - asked)


def neighborhood(
    X: Any, y: Any, estimator: Any, n_neighbors: int, embedding: Any, neighbors: Any, n_jobs: int | None
) -> Neighborhood:
    """Embedded samples with their neighbours, labels read as the estimator reads them."""
    points, task = embed(X, embedding), task_of(estimator)
    if n_neighbors == 1:  # a sample is its own nearest neighbour: nothing to search
        labels = check_labels(y, n_samples=len(points), task=task)
        return Neighborhood(points, labels, np.arange(len(points))[:, None])
    return Neighborhood.of(points, y, n_neighbors=n_neighbors, neighbors=neighbors, task=task, n_jobs=n_jobs)
