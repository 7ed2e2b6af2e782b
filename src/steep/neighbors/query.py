"""Nearest points by NumPy and SciPy, with nothing to compile: of one set to another, and of small data to themselves.

Products rule out most points, by a bound that allows for their rounding (frame.py); distances of the data
as given decide among the rest. If features are few, a tree is quicker.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial import KDTree

from steep._blas import few_threads, one_blas_thread
from steep._validation import FloatArray, IntArray
from steep.neighbors.frame import (
    SLACK,
    Frame,
    as_float32,
    best_of,
    half_norms,
    into_range,
    lengths_between,
    ordinary,
    row_lengths,
    vanished,
)

# Above this many dimensions a tree visits nearly all its leaves and a matrix product wins.
_TREE_FEATURES = 6
# Above this many points products are taken in single precision.
_LARGE = 20_000
# Numbers held at once: 4 M doubles are 32 MiB.
_BLOCK = 4 * 2**20
# Queries a tree is asked at once: some hundredths of a second.
_ASKED = 4096
# Rows of a self-join at a time: what is computed stays in the cache and its memory is used again.
_ROWS = 128
# Share of points left in doubt that is still compared with all, one by one.
_FEW = 0.01
# Length from which on a tree has lost no digits.
_LEAST = 2.0**-490


def nearest(points: FloatArray, queries: FloatArray, n_neighbors: int = 1) -> tuple[FloatArray, IntArray]:
    """Distances and indices of the ``n_neighbors`` points nearest to each query, nearest first.

    Both answers have shape ``(n_queries, n_neighbors)``, or as many columns as there are points.

    Examples
    --------
    >>> nearest(np.array([[0.0], [1.0]]), np.array([[0.9]]))[1]
    array([[1]])
    """
    width = min(n_neighbors, len(points))
    if points.shape[1] <= _TREE_FEATURES or len(points) < 64:
        points, queries, exponent = into_range(points, queries)
        distances, indices = _by_tree(points, queries, width)
    else:
        points, queries, frame, exponent = ordinary(points, queries)
        distances, indices = _by_products(points, queries, _reaching(frame, queries), width)
    return np.ldexp(distances, exponent), indices


def _reaching(frame: Frame, queries: FloatArray) -> Frame:
    """The frame of the points, wide enough to tell which queries are far."""
    if not len(queries):
        return frame
    span = row_lengths(np.abs(queries - frame.center).max(axis=0)[None])
    return replace(frame, extent=max(frame.extent, float(span[0])))


def _by_tree(points: FloatArray, queries: FloatArray, width: int) -> tuple[FloatArray, IntArray]:
    """What SciPy's tree finds, a part of the queries at a time, so that Ctrl-C is noticed in between."""
    tree = KDTree(points)
    distances, indices = np.empty((len(queries), width)), np.empty((len(queries), width), np.int64)
    for first in range(0, len(queries), _ASKED):
        part = slice(first, first + _ASKED)
        distances[part], indices[part] = tree.query(queries[part], k=np.arange(1, width + 1))
    return distances, indices


def _by_products(points: FloatArray, queries: FloatArray, frame: Frame, width: int) -> tuple[FloatArray, IntArray]:
    kind: type = np.float32 if len(points) > _LARGE else np.float64
    # A score |x − y|²/2 from products is off by no more than δ(|x| + |y|)² ≤ 4δ(|x|²/2 + |y|²/2).
    rest = 1 - 4 * (points.shape[1] + 8) * float(np.finfo(kind).epsneg)
    placed = frame.place(points)
    wide: FloatArray = np.vstack([-placed.T, rest * half_norms(placed)]).astype(kind)
    del placed
    step = max(1, _BLOCK // max(len(points), width * points.shape[1]))
    distances = np.empty((len(queries), width))
    indices = np.empty((len(queries), width), np.int64)
    for first in range(0, len(queries), step):
        part = slice(first, first + step)
        with few_threads(len(points) * len(queries)):
            distances[part], indices[part] = _block(points, wide, queries[part], frame, rest, width)
    for q in np.flatnonzero(frame.is_far(queries)):
        distances[q], indices[q] = _compare(points, queries[q], np.arange(len(points)), width)
    return distances, indices


def _block(
    points: FloatArray, wide: FloatArray, queries: FloatArray, frame: Frame, rest: float, width: int
) -> tuple[FloatArray, IntArray]:
    placed = frame.place(queries)
    bounds = np.column_stack([placed, np.ones(len(placed))]).astype(wide.dtype) @ wide
    if width == 1:
        indices: IntArray = bounds.argmin(axis=1)[:, None]
    else:
        indices = np.argpartition(bounds, width - 1, axis=1)[:, :width]
    distances = lengths_to(points, queries, indices)
    with np.errstate(over="ignore"):
        limit = 0.5 * np.square(distances.max(axis=1)) * (1 + 1e-6)
        limit += vanished(points.shape[1]) - rest * half_norms(placed)
        within = bounds <= limit.astype(wide.dtype)[:, None]
    for q in np.flatnonzero(within.sum(axis=1) > width):
        distances[q], indices[q] = _compare(points, queries[q], np.flatnonzero(within[q]), width)
    order = np.lexsort([indices, distances], axis=1)
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(indices, order, axis=1)


def _compare(points: FloatArray, query: FloatArray, among: IntArray, width: int) -> tuple[FloatArray, IntArray]:
    """Return the nearest of some points to one query; of equally near ones the first."""
    step = max(1, _BLOCK // points.shape[1])
    parts = [among[first : first + step] for first in range(0, len(among), step)]
    lengths = np.concatenate([row_lengths(points[part] - query) for part in parts])
    best = np.argsort(lengths, kind="stable")[:width]
    return lengths[best], among[best]


def lengths_to(points: FloatArray, queries: FloatArray, indices: IntArray) -> FloatArray:
    """Return the distances of queries to the points that each has listed."""
    step = max(1, _BLOCK // (indices.shape[1] * points.shape[1]))
    out = np.empty(indices.shape)
    for first in range(0, len(indices), step):
        part = slice(first, first + step)
        out[part] = lengths_between(queries[part], points[indices[part]])
    return out


# -------------------------------------------------------------------------------------- self-joins


@one_blas_thread()
def join_brute(X: FloatArray, frame: Frame, n_others: int) -> tuple[FloatArray, IntArray]:
    """Return distances (float32) and indices (int32) of the ``n_others`` nearest others of each point."""
    n_points = len(X)
    points = frame.place(X)
    rest = 1 - 4 * (X.shape[1] + 8) * 2.0**-53
    bounds_of, turned = rest * half_norms(points), -points.T
    width = min(n_others + SLACK, n_points - 1)
    distances, indices = np.empty((n_points, n_others)), np.empty((n_points, n_others), np.int32)
    far = frame.is_far(X)
    for first in range(0, n_points, _ROWS):
        rows = np.arange(first, min(first + _ROWS, n_points))
        scores = points[rows] @ turned
        scores += bounds_of
        scores[rows - first, rows] = np.inf
        short = np.sort(np.argpartition(scores, width - 1, axis=1)[:, :width], axis=1)
        distances[rows], indices[rows] = best_of(lengths_to(X, X[rows], short), short, n_others)
        with np.errstate(over="ignore"):
            limit = 0.5 * np.square(distances[rows, -1]) * (1 + 1e-6) + vanished(X.shape[1]) - bounds_of[rows]
        for i in np.flatnonzero(((scores <= limit[:, None]).sum(axis=1) > width) | far[rows]):
            q = rows[i]
            among = np.delete(np.arange(n_points), q) if far[q] else np.flatnonzero(scores[i] <= limit[i])
            distances[q], indices[q] = nearest_of(X, q, among, n_others)
    return as_float32(distances), indices


def nearest_of(X: FloatArray, q: int, among: IntArray, n_others: int) -> tuple[FloatArray, IntArray]:
    """Return ranked distances of row ``q`` to the nearest ``among`` other rows, ascending, and which these are."""
    distances, indices = best_of(lengths_to(X, X[q : q + 1], among[None]), among[None], n_others)
    return distances[0], indices[0]


def join_tree(X: FloatArray, n_others: int, n_threads: int = 1) -> tuple[FloatArray, IntArray] | None:
    """:func:`join_brute` for few features, by SciPy's KD-tree; None if ties abound."""
    n_points, width = len(X), min(n_others + 1 + SLACK, len(X))
    tree = KDTree(X)
    distances, indices = np.empty((n_points, n_others)), np.empty((n_points, n_others), np.int32)
    unsure = np.zeros(n_points, np.bool_)
    for first in range(0, n_points, _ASKED):
        rows = np.arange(first, min(first + _ASKED, n_points))
        reached, short = tree.query(X[rows], k=np.arange(1, width + 1), workers=n_threads)
        others = _others(short, rows)
        distances[rows], indices[rows] = best_of(lengths_to(X, X[rows], others), others, n_others)
        last = distances[rows, -1] * (1 + 1e-6)
        unsure[rows] = ~((last < reached[:, -1]) & (last > _LEAST)) & (width < n_points)
    equal = unsure & (distances[:, -1] == 0)
    unsure &= ~equal
    if unsure.sum() > _FEW * n_points:
        return None
    indices[equal] = _first_equals(X, np.flatnonzero(equal), n_others)
    for q in np.flatnonzero(unsure):
        distances[q], indices[q] = nearest_of(X, int(q), np.delete(np.arange(n_points), q), n_others)
    return as_float32(distances), indices


def _others(short: IntArray, rows: IntArray) -> IntArray:
    """Return each row's list without the row itself, ascending; without its last where it is not listed."""
    others = short != rows[:, None]
    others[others.all(axis=1), -1] = False
    return np.sort(short[others].reshape(len(rows), -1), axis=1)


def _first_equals(X: FloatArray, rows: IntArray, n_others: int) -> IntArray:
    """Return the first ``n_others`` rows equal to each of ``rows``, which have at least this many."""
    if not len(rows):
        return np.empty((0, n_others), np.int64)
    group = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    by_group = np.argsort(group, kind="stable")
    start = np.searchsorted(group[by_group], group[rows])
    first = by_group[start[:, None] + np.arange(n_others + 1)]
    others = first != rows[:, None]
    others[others.all(axis=1), -1] = False  # the row itself comes later: one too many
    return np.asarray(first[others].reshape(len(rows), n_others))
