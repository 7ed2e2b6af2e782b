"""Nearest points of one set to another: a tree where trees are fast, matrix products where not."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from steep._validation import FloatArray, IntArray

# Above this many dimensions a tree visits nearly all its leaves and a matrix product wins.
_TREE_FEATURES = 6
# Above this many points they are ranked in single precision: distances stay exact to about 1e-6.
_LARGE = 20_000
# Distances held at once: 4 M doubles are 32 MiB.
_BLOCK = 4 * 2**20


def nearest(points: FloatArray, queries: FloatArray, n_neighbors: int = 1) -> tuple[FloatArray, IntArray]:
    """Distances and indices of the ``n_neighbors`` points nearest to each query, nearest first.

    Both answers have shape ``(n_queries, n_neighbors)``.

    Examples
    --------
    >>> nearest(np.array([[0.0], [1.0]]), np.array([[0.9]]))[1]
    array([[1]])
    """
    if points.shape[1] <= _TREE_FEATURES or len(points) < 64:
        distances, indices = KDTree(points).query(queries, k=np.arange(1, n_neighbors + 1))
        return distances, indices
    step = max(1, _BLOCK // len(points))
    # ‖p‖² − 2 q·p in one product: as good as the distance for ranking.
    kind: type = np.float32 if len(points) > _LARGE else np.float64
    wide: FloatArray = np.vstack([-2 * points.T, (points**2).sum(axis=1)]).astype(kind)
    parts = [_block(points, wide, queries[i : i + step], n_neighbors) for i in range(0, len(queries), step)]
    return np.vstack([d for d, _ in parts]), np.vstack([i for _, i in parts])


def _block(
    points: FloatArray, wide: FloatArray, queries: FloatArray, n_neighbors: int
) -> tuple[FloatArray, IntArray]:
    squares = np.column_stack([queries, np.ones(len(queries))]).astype(wide.dtype) @ wide
    if n_neighbors == 1:
        indices: IntArray = squares.argmin(axis=1)[:, None]
    else:
        n_kept = min(n_neighbors, len(points))
        indices = np.argpartition(squares, n_kept - 1, axis=1)[:, :n_kept]
    # Exact distances of the few kept: the expansion above loses digits for points that coincide.
    distances = np.sqrt(((points[indices] - queries[:, None]) ** 2).sum(axis=2))
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(indices, order, axis=1)
