"""The set S_k(x_i) of Eq. Dhat2: the k nearest neighbours of every point among the data themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import NearestNeighbors

from steep._validation import FloatArray, check_count, check_points
from steep.exceptions import InputError


def neighbor_graph(
    X: Any, *, n_neighbors: int = 20, include_self: bool = True, n_jobs: int | None = None
) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Find the ``n_neighbors`` nearest neighbours of every point of ``X`` within ``X``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    n_neighbors : int, default 20
        k, the point itself counted when ``include_self``.
    include_self : bool, default True
        Whether a point is its own first neighbour, as in the paper. Duplicates never take its place.
    n_jobs : int, optional
        Processes or threads for the search; None means 1.

    Returns
    -------
    distances, indices : ndarray of shape (n_samples, n_neighbors)
        Sorted by distance in each row.

    Examples
    --------
    >>> distances, indices = neighbor_graph([[0.0], [1.0], [3.0]], n_neighbors=2)
    >>> indices.tolist()
    [[0, 1], [1, 0], [2, 1]]
    """
    points = check_points(X)
    n_neighbors = check_count(n_neighbors, name="n_neighbors")
    n_samples, n_others = len(points), n_neighbors - include_self
    if n_others > n_samples - 1:
        raise InputError(
            f"n_neighbors={n_neighbors} needs at least {n_others + 1} samples, got {n_samples}; lower "
            "n_neighbors or pass more data"
        )
    search = NearestNeighbors(n_neighbors=n_others + 1, n_jobs=n_jobs).fit(points)
    distances, indices = _drop_self(*search.kneighbors(points))
    if include_self:
        distances = np.hstack([np.zeros((n_samples, 1), distances.dtype), distances])
        indices = np.hstack([np.arange(n_samples)[:, None], indices])
    return distances, indices


def _drop_self(
    distances: FloatArray, indices: npt.NDArray[np.intp]
) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Remove each point from its own row; where duplicates crowded it out, remove the farthest."""
    n_samples, width = indices.shape
    drop = indices == np.arange(n_samples)[:, None]
    drop[~drop.any(axis=1), -1] = True
    keep = ~drop
    shape = (n_samples, width - 1)
    return distances[keep].reshape(shape), indices[keep].reshape(shape)
