"""Exact self-joins of small data by NumPy, and by SciPy's KD-tree in few dimensions: nothing to compile."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from steep._validation import FloatArray, IntArray
from steep.neighbors.distances import SLACK, as_float32, best_of, certain_scores, lengths_between
from steep.neighbors.frame import Frame, half_norms, row_lengths

BLOCK = 128  # rows at a time: what is computed stays in the cache and its memory is used again
NUMBERS = 2**20  # differences held at once
ASKED = 4_096  # points that a tree is asked for at a time
FEW = 0.01  # share of points left in doubt that is still compared with all, one by one
LEAST = 2.0**-490  # length from which on a tree has lost no digits


def join_brute(X: FloatArray, frame: Frame, n_others: int) -> tuple[FloatArray, IntArray]:
    """Return distances (float32) and indices (int32) of the ``n_others`` nearest others of each point."""
    n_points, n_features = X.shape
    points = frame.place(X)
    half, turned = half_norms(points), -points.T
    width = min(n_others + SLACK, n_points - 1)
    distances, indices = np.empty((n_points, n_others)), np.empty((n_points, n_others), np.int32)
    certain = np.full(n_points, np.inf)
    for first in range(0, n_points, BLOCK):
        rows = np.arange(first, min(first + BLOCK, n_points))
        scores = points[rows] @ turned
        scores += half
        scores[rows - first, rows] = np.inf
        short = _shortlist(scores, width)
        distances[rows], indices[rows] = best_of(lengths_of_pairs(X, rows, short), short, n_others)
        if width < n_points - 1:
            certain[rows] = np.take_along_axis(scores, short, axis=1).max(axis=1) + half[rows]
    if width < n_points - 1:
        certain = certain_scores(certain, row_lengths(points), n_features, 53)
        certain[frame.is_far(X)] = -np.inf
        with np.errstate(over="ignore", under="ignore"):
            reached = 0.5 * np.square(distances[:, -1] * frame.unit) * (1 + 1e-6)
        unsure, equal = ~(reached < certain), distances[:, -1] == 0
        indices[unsure & equal] = first_equals(X, np.flatnonzero(unsure & equal), n_others)
        for q in np.flatnonzero(unsure & ~equal):
            distances[q], indices[q] = compare_all(X, int(q), n_others)
    return as_float32(distances), indices


def join_small_tree(X: FloatArray, n_others: int) -> tuple[FloatArray, IntArray] | None:
    """Return distances (float32) and indices (int32) of each point's nearest others; None if ties abound."""
    n_points, width = len(X), min(n_others + 1 + SLACK, len(X))
    tree = KDTree(X)
    distances, indices = np.empty((n_points, n_others)), np.empty((n_points, n_others), np.int32)
    unsure = np.zeros(n_points, np.bool_)
    for first in range(0, n_points, ASKED):
        rows = np.arange(first, min(first + ASKED, n_points))
        reached, short = tree.query(X[rows], k=np.arange(1, width + 1))
        others = _others(short, rows)
        distances[rows], indices[rows] = best_of(lengths_of_pairs(X, rows, others), others, n_others)
        last = distances[rows, -1] * (1 + 1e-6)
        proven = (last < reached[:, -1]) & (last > LEAST)
        unsure[rows] = ~proven & (width < n_points)
    equal = unsure & (distances[:, -1] == 0)
    unsure &= ~equal
    if unsure.sum() > FEW * n_points:
        return None
    indices[equal] = first_equals(X, np.flatnonzero(equal), n_others)
    for q in np.flatnonzero(unsure):
        distances[q], indices[q] = compare_all(X, int(q), n_others)
    return as_float32(distances), indices


def _others(short: IntArray, rows: IntArray) -> IntArray:
    """Return each row's list without the row itself, ascending; without its last where it is not listed."""
    others = short != rows[:, None]
    others[others.all(axis=1), -1] = False
    return np.sort(short[others].reshape(len(rows), -1), axis=1)


def first_equals(X: FloatArray, rows: IntArray, n_others: int) -> IntArray:
    """Return the first ``n_others`` rows equal to each of ``rows``, which have at least this many."""
    found = np.empty((len(rows), n_others), np.int32)
    if not len(rows):
        return found
    group = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    by_group = np.argsort(group, kind="stable")
    start = np.searchsorted(group[by_group], group[rows])
    first = by_group[start[:, None] + np.arange(n_others + 1)]
    others = first != rows[:, None]
    others[others.all(axis=1), -1] = False  # the row itself comes later: one too many
    return np.asarray(first[others].reshape(found.shape), dtype=np.int32)


def compare_all(X: FloatArray, q: int, n_others: int) -> tuple[FloatArray, IntArray]:
    """Return the nearest others of one point, by its distances to all."""
    everyone = np.delete(np.arange(len(X), dtype=np.int32), q)
    distances, indices = best_of(lengths_of_pairs(X, np.array([q]), everyone[None]), everyone[None], n_others)
    return distances[0], indices[0]


def _shortlist(scores: FloatArray, width: int) -> IntArray:
    """Return the columns of the ``width`` least values of each row, ascending."""
    least = scores <= np.partition(scores, width - 1, axis=1)[:, width - 1 : width]
    columns = np.flatnonzero(least) % scores.shape[1]
    if len(columns) == width * len(scores):  # no ties: half the time of sorting out which is where
        return np.asarray(columns.reshape(-1, width))
    return np.sort(np.argpartition(scores, width - 1, axis=1)[:, :width], axis=1)


def lengths_of_pairs(X: FloatArray, rows: IntArray, others: IntArray) -> FloatArray:
    """Return the distances of some ``rows`` to ``others`` of each, of the data as given."""
    step = max(1, NUMBERS // (others.shape[1] * X.shape[1]))
    parts = [slice(first, first + step) for first in range(0, len(rows), step)]
    return np.vstack([lengths_between(X[rows[part]], X[others[part]]) for part in parts])
