"""Nearest points by NumPy and SciPy, with nothing to compile: of one set to another, and of small data to themselves.

Products rule out most points, by a bound that allows for their rounding (frame.py); distances of the data
as given decide among the rest. If features are few, a tree is quicker.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from steep._blas import few_threads
from steep._validation import FloatArray, IntArray
from steep.neighbors.frame import SLACK, Frame, best_of, half_norms, into_range, ordinary, row_lengths, vanished

# Above this many dimensions a tree visits nearly all its leaves and a matrix product wins.
_TREE_FEATURES = 6
# Above this many points products are taken in single precision.
_LARGE = 20_000
# Numbers held at once: 4 M doubles are 32 MiB.
_BLOCK = 4 * 2**20
# Queries a tree is asked at once: some hundredths of a second.
_ASKED = 4096
# Distances of a self-join at a time: what is computed stays in the cache and its memory is used again.
_GAPS = 2**17
# Up to this many numbers a row is sorted as a whole.
_FEW_KEYS = 256
# Bits of a double beyond the digits of float32: the place of a row in its list goes there.
_SPARE = 29
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
    lengths = cdist(query[None], points[among])[0]
    best = np.argsort(lengths, kind="stable")[:width]
    return lengths[best], among[best]


def lengths_to(points: FloatArray, queries: FloatArray, indices: IntArray) -> FloatArray:
    """Return the distances of queries to the points that each has listed."""
    step = max(1, _BLOCK // (indices.shape[1] * points.shape[1]))
    out = np.empty(indices.shape)
    for first in range(0, len(indices), step):
        part = slice(first, first + step)
        with np.errstate(under="ignore"):
            steps = np.subtract(points[indices[part]], queries[part, None], dtype=np.float64)
            out[part] = np.sqrt(np.einsum("ijk,ijk->ij", steps, steps))
    return out


# -------------------------------------------------------------------------------------- self-joins


def nearest_others(X: FloatArray, rows: IntArray, n_others: int) -> tuple[FloatArray, IntArray]:
    """Distances and indices (int32) of the nearest other points of some ``rows``, by distances to all."""
    points = X.astype(np.float64, copy=False)
    distances, indices = np.empty((len(rows), n_others)), np.empty((len(rows), n_others), np.int32)
    step = max(1, _GAPS // len(X))
    for first in range(0, len(rows), step):
        asked = rows[first : first + step]
        gaps = cdist(points[asked], points, "sqeuclidean")
        gaps[np.arange(len(asked)), asked] = np.inf
        indices[first : first + step], squares = least(gaps, n_others)
        distances[first : first + step] = np.sqrt(squares)
    return distances, indices


def least(gaps: FloatArray, n_wanted: int) -> tuple[IntArray, FloatArray]:
    """Places of the least of each row, in order, and their values, to the digits of float32; ``gaps`` are overwritten.

    A value and its place make one whole number, so that a plain sort of numbers, which processors do many at a time,
    finds the order, and of equal values the first.
    """
    keys = gaps.view(np.int64)
    keys += 1 << (_SPARE - 1)
    keys &= -(1 << _SPARE)
    keys |= np.arange(keys.shape[1])
    if keys.shape[1] > _FEW_KEYS:
        keys = np.partition(keys, n_wanted - 1, axis=1)[:, :n_wanted]
    keys.sort(axis=1)
    keys = keys[:, :n_wanted]
    return keys & ((1 << _SPARE) - 1), (keys & -(1 << _SPARE)).view(np.float64)


def join_tree(X: FloatArray, n_others: int, n_threads: int = 1) -> tuple[FloatArray, IntArray] | None:
    """:func:`nearest_others` of all points of few features, by SciPy's KD-tree; None if ties abound."""
    n_points, width = len(X), min(n_others + 1 + SLACK, len(X))
    tree = KDTree(X)
    distances, indices = np.empty((n_points, n_others)), np.empty((n_points, n_others), np.int32)
    unsure = np.zeros(n_points, np.bool_)
    for first in range(0, n_points, _ASKED):
        rows = np.arange(first, min(first + _ASKED, n_points))
        reached, short = tree.query(X[rows], k=np.arange(1, width + 1), workers=n_threads)
        others = short != rows[:, None]
        others[others.all(axis=1), -1] = False  # a row with many equals may not be on its own list
        listed = np.sort(short[others].reshape(len(rows), -1), axis=1)
        distances[rows], indices[rows] = best_of(lengths_to(X, X[rows], listed), listed, n_others)
        last = distances[rows, -1] * (1 + 1e-6)
        unsure[rows] = ~((last < reached[:, -1]) & (last > _LEAST)) & (width < n_points)
    doubtful = np.flatnonzero(unsure)
    if len(doubtful) > _FEW * n_points:
        return None
    distances[doubtful], indices[doubtful] = nearest_others(X, doubtful, n_others)
    return distances, indices
