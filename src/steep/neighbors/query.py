"""Nearest points of one set to another: a tree where trees are fast, matrix products where not.

Products rule out most points, by a bound that allows for their rounding (distances.py); distances of the data
as given decide among the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from steep._blas import few_threads
from steep._validation import FloatArray, IntArray, check_choice, check_count, check_points
from steep.exceptions import InputError
from steep.neighbors.distances import lengths_between, unit_rows, vanished
from steep.neighbors.frame import Frame, half_norms, into_range, row_lengths

# Above this many dimensions a tree visits nearly all its leaves and a matrix product wins.
_TREE_FEATURES = 6
# Above this many points products are taken in single precision.
_LARGE = 20_000
# Numbers held at once: 4 M doubles are 32 MiB.
_BLOCK = 4 * 2**20
# Queries a tree is asked at once: some hundredths of a second.
_ASKED = 4096


def query_graph(
    X: Any, queries: Any, *, n_neighbors: int = 20, metric: str = "euclidean"
) -> tuple[FloatArray, IntArray]:
    """Find the nearest of some points to each of other points, exactly.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points among which neighbours are looked for.
    queries : array-like of shape (n_queries, n_features)
        The points whose neighbours are wanted.
    n_neighbors : int, default=20
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" is 1 − cos of the angle and rejects rows of zeros.

    Returns
    -------
    distances : ndarray of float64, shape (n_queries, n_neighbors)
        Sorted along each row; equal distances are sorted by index.
    indices : ndarray of int, shape (n_queries, n_neighbors)
        Rows of ``X``.

    Examples
    --------
    >>> from steep.neighbors import query_graph
    >>> query_graph([[0.0], [1.0], [3.0]], [[0.9]], n_neighbors=2)[1]
    array([[1, 0]])
    """
    points = check_points(X)
    asked = check_points(queries, name="queries", n_features=points.shape[1])
    n_neighbors = check_count(n_neighbors, name="n_neighbors")
    check_choice(metric, name="metric", choices=("euclidean", "cosine"))
    if n_neighbors > len(points):
        raise InputError(
            f"n_neighbors={n_neighbors} needs at least as many samples, got {len(points)}; lower n_neighbors or pass "
            "more data"
        )
    if metric == "cosine":
        distances, indices = _first_nearest(unit_rows(points, "X"), unit_rows(asked, "queries"), n_neighbors)
        return 0.5 * np.square(distances), indices
    return _first_nearest(points, asked, n_neighbors)


def _first_nearest(points: FloatArray, queries: FloatArray, width: int, wide: int = 0) -> tuple[FloatArray, IntArray]:
    """:func:`nearest` where equal distances come by index, at the last place too, found among the ``wide`` nearest."""
    wide = min(max(wide, width + 1), len(points))
    distances, indices = _sorted(*nearest(points, queries, wide))
    is_tied = (distances[:, width - 1] == distances[:, -1]) & (wide < len(points))
    distances, indices = distances[:, :width], indices[:, :width]
    if is_tied.any():  # others at the same distance may have smaller indices: look at more of them
        different, place = np.unique(queries[is_tied], axis=0, return_inverse=True)
        step = max(1, _BLOCK // (4 * wide))
        starts = range(0, len(different), step)
        parts = [_first_nearest(points, different[at : at + step], width, 4 * wide) for at in starts]
        distances[is_tied] = np.vstack([part[0] for part in parts])[place.reshape(-1)]
        indices[is_tied] = np.vstack([part[1] for part in parts])[place.reshape(-1)]
    return distances, indices


def nearest(points: FloatArray, queries: FloatArray, n_neighbors: int = 1) -> tuple[FloatArray, IntArray]:
    """Distances and indices of the ``n_neighbors`` points nearest to each query, nearest first.

    Both answers have shape ``(n_queries, n_neighbors)``, or as many columns as there are points.

    Examples
    --------
    >>> nearest(np.array([[0.0], [1.0]]), np.array([[0.9]]))[1]
    array([[1]])
    """
    width = min(n_neighbors, len(points))
    points, queries, scale = into_range(points, queries)
    if points.shape[1] <= _TREE_FEATURES or len(points) < 64:
        distances, indices = _by_tree(points, queries, width)
    else:
        distances, indices = _by_products(points, queries, _frame_of(points, queries), width)
    return distances / scale, indices


def _frame_of(points: FloatArray, queries: FloatArray) -> Frame:
    """Return the frame of the points, wide enough to tell which queries are far."""
    frame = Frame.of(points)
    if not len(queries):
        return frame
    span = row_lengths(np.abs(queries - frame.center).max(axis=0)[None])
    with np.errstate(over="ignore", under="ignore"):
        extent = float(span[0] * frame.unit)
    return replace(frame, extent=max(frame.extent, extent))


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
        distances[q], indices[q] = _compare_all(points, queries[q], width)
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
    distances = _lengths(points, queries, indices)
    with np.errstate(over="ignore", under="ignore"):
        limit = 0.5 * np.square(distances.max(axis=1) * frame.unit) * (1 + 1e-6)
        limit += vanished(points.shape[1]) - rest * half_norms(placed)
        within = bounds <= limit.astype(wide.dtype)[:, None]
    for q in np.flatnonzero(within.sum(axis=1) > width):
        distances[q], indices[q] = _best(points, queries[q], np.flatnonzero(within[q]), width)
    return _sorted(distances, indices)


def _best(points: FloatArray, query: FloatArray, among: IntArray, width: int) -> tuple[FloatArray, IntArray]:
    """Return the nearest of some points to one query; of equally near ones the first."""
    step = max(1, _BLOCK // points.shape[1])
    parts = [among[first : first + step] for first in range(0, len(among), step)]
    lengths = np.concatenate([row_lengths(points[part] - query) for part in parts])
    best = np.argsort(lengths, kind="stable")[:width]
    return lengths[best], among[best]


def _compare_all(points: FloatArray, query: FloatArray, width: int) -> tuple[FloatArray, IntArray]:
    return _best(points, query, np.arange(len(points)), width)


def _lengths(points: FloatArray, queries: FloatArray, indices: IntArray) -> FloatArray:
    step = max(1, _BLOCK // (indices.shape[1] * points.shape[1]))
    out = np.empty(indices.shape)
    for first in range(0, len(indices), step):
        part = slice(first, first + step)
        out[part] = lengths_between(queries[part], points[indices[part]])
    return out


def _sorted(distances: FloatArray, indices: IntArray) -> tuple[FloatArray, IntArray]:
    order = np.lexsort([indices, distances], axis=1)
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(indices, order, axis=1)
