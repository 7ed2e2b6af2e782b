"""Where to run next, given what is known, what is in flight and what failed.

The choices are those of :func:`steep.design`: surprise, a pool, a greedy fill. Planning is a function of
the journal and the number of the plan alone, so a campaign that was killed plans as if it had not been.
"""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray
from steep.domain import Box
from steep.measures.surprise import standardised, surprise_variation
from steep.neighbors.query import nearest
from steep.sampling.design import Recipe
from steep.sampling.draws import greedy_fill
from steep.sampling.pool import candidate_pool, interpolate, wanted_density
from steep.sampling.relevance import axis_relevance

# The map of variation is drawn from at most this many points: asking stays fast with a million told.
_MAPPED = 2048
# Neighbours a candidate's risk of failing is judged by.
_JUDGES = 3


def next_points(
    box: Box,
    X: FloatArray,
    labels: FloatArray,
    occupied: FloatArray,
    failed: FloatArray,
    n: int,
    seed: list[int],
) -> FloatArray:
    """Choose ``n`` points of S: where labels surprise, clear of what is there, in flight or failing.

    Parameters
    ----------
    box : Box
        S.
    X, labels : ndarray of shape (n_told, n_features) and (n_told, n_outputs)
        Results so far, inside S.
    occupied, failed : ndarray of shape (n_points, n_features)
        Points in flight, and points that failed for good.
    n : int
        How many.
    seed : list of int
        Seed of the campaign and number of the plan.
    """
    generator = np.random.default_rng(seed)
    pool = candidate_pool(box, n, generator)
    scale: FloatArray
    weights: FloatArray
    scale, weights = np.ones(box.embed(pool[:1]).shape[1]), np.ones(len(pool))
    if len(X) >= 2 * (box.n_features + 1):
        scale, weights = _map(box, pool, X, labels, generator)
    coordinates = box.embed(pool) * scale
    there = np.vstack([X, occupied, failed])
    if len(failed):
        weights = weights * _safety(box, pool, X, failed)
    distances = np.full(len(pool), np.inf)
    if len(there):
        distances = nearest(box.embed(box.unit(there)) * scale, coordinates)[0][:, 0]
    n = min(n, int(np.count_nonzero(distances > 0)))
    return box.from_unit(pool[greedy_fill(coordinates, weights, distances, n)])


def _map(
    box: Box, pool: FloatArray, X: FloatArray, labels: FloatArray, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Scale of the coordinates, and the wanted density at every candidate."""
    if len(X) > _MAPPED:
        kept = generator.choice(len(X), _MAPPED, replace=False)
        X, labels = X[kept], labels[kept]
    points = box.embed(box.unit(X))
    scale = axis_relevance(points, labels)
    variation = surprise_variation(points, standardised(labels))
    at_pool, _ = interpolate(points * scale, variation, box.embed(pool) * scale)
    return scale, wanted_density(at_pool, temper=Recipe.temper, floor=Recipe.floor)


def _safety(box: Box, pool: FloatArray, X: FloatArray, failed: FloatArray) -> FloatArray:
    """Squared share of the nearest runs that worked: where all failed, nothing is asked."""
    tried = box.embed(box.unit(np.vstack([X, failed])))
    worked = np.arange(len(tried)) < len(X)
    _, judges = nearest(tried, box.embed(pool), min(_JUDGES, len(tried)))
    # A little is left, so that a campaign whose first runs all fail can still find out where not.
    safety: FloatArray = np.maximum(worked[judges].mean(axis=1), 0.05) ** 2
    return safety
