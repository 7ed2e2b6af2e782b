"""Exact self-join by tiles of products, with a certificate.

Tiles of float32 products shortlist a few more neighbours than wanted. A score is off by at most
δ = (n_features + 8)·2⁻²⁴·(|x| + max |y|)², so that every point not on the list is at least
√(2(top − δ)) away. The distances of the shortlist are then taken anew from the caller's data in float64;
when the k-th of them is below that bound the list is proven, else (many equal points, tight clusters far
apart) the point is compared with all others in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.neighbors.info import Stopwatch
from steep.neighbors.join import Lists, Rounds, batches, empty_lists
from steep.neighbors.points import Float32Array, center_of, centered, half_norms
from steep.neighbors.threads import Workers

TILE = 1024  # points per tile
SLACK = 4  # neighbours shortlisted beyond those wanted; more make proofs more likely


def nearest(points: Float32Array, width: int, team: Workers) -> Lists:
    """Return the lists of the ``width`` nearest others of each point, in no order, scores in float32."""
    from steep.neighbors.kernels import join_across, join_within

    n_points = len(points)
    half, lists = half_norms(points), empty_lists(n_points, width)
    start = np.append(np.arange(0, n_points, TILE), n_points)
    n_tiles = len(start) - 1
    args = (lists.score, lists.index, lists.top, team.stop)
    team.each(lambda tile: join_within(points, half, start, np.array([tile]), *args), range(n_tiles))
    rounds = Rounds(np.column_stack(np.triu_indices(n_tiles, 1)), n_tiles)
    rounds.run(lambda some: join_across(points, half, start, rounds.pairs[some], *args), team, at_once=16)
    return lists


def join_tiles(
    X: FloatArray, n_others: int, *, include_self: bool, team: Workers
) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Return distances and indices of the ``n_others`` nearest others of each point, exactly."""
    watch = Stopwatch()
    points = centered(X, center_of(X))
    lists = nearest(points, min(n_others + SLACK, len(X) - 1), team)
    watch.lap("tiles")
    certain = _certain_scores(points, lists)
    del points
    distances, indices = proven(X, lists, certain, n_others, include_self=include_self, team=team)
    watch.lap("proof")
    return distances, indices, {"seconds": watch.seconds}


def proven(
    X: FloatArray, lists: Lists, certain: FloatArray, n_others: int, *, include_self: bool, team: Workers
) -> tuple[FloatArray, IntArray]:
    """Return the best of shortlists, by float64 distances of the data as given.

    No point missing from list q has a score below ``certain[q]``; where that does not prove the list,
    the point is compared with all others.
    """
    from steep.neighbors.kernels import compare_all, prove

    n_points, X = len(X), np.ascontiguousarray(X)
    out = empty_lists(n_points, n_others)
    unsure = np.zeros(n_points, dtype=np.bool_)
    team.each(
        lambda rows: prove(X, lists.score, lists.index, certain, out.score, out.index, unsure, rows),
        batches(n_points, 5_000),
    )
    doubtful = np.flatnonzero(unsure)
    team.each(
        lambda some: compare_all(X, doubtful[some], out.score, out.index, team.stop),
        batches(len(doubtful), 500),
    )
    return out.in_rows_of(np.arange(n_points, dtype=np.int32), include_self)


def _certain_scores(points: Float32Array, lists: Lists) -> FloatArray:
    """Return the score below which a point cannot be missing from each list."""
    n_points, n_features = points.shape
    if lists.score.shape[1] == n_points - 1:
        return np.full(n_points, np.inf)
    length = np.sqrt(np.einsum("ij,ij->i", points, points, dtype=np.float64))
    return np.asarray(lists.top - score_error(length + length.max(), n_features))


def score_error(lengths: FloatArray, n_features: int) -> FloatArray:
    """Return δ, how far a score taken from float32 products may be off, for |x| + |y| = ``lengths``."""
    return np.asarray((n_features + 8) * 2.0**-24 * lengths**2)
