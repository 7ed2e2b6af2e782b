"""The neighbour graph as the sparse matrix that other libraries take."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from steep._validation import FloatArray, IntArray
from steep.exceptions import InputError


def sparse_graph(distances: Any, indices: Any) -> csr_matrix:
    """Return a graph of :func:`neighbor_graph` as a sparse matrix of distances, ``(n_samples, n_samples)``.

    Row i holds the distances to the neighbours of sample i, nearest first and without the sample itself;
    equal samples have an explicit zero. This is the form of scikit-learn's ``metric="precomputed"`` and of
    ``Datalab.find_issues(knn_graph=...)`` of cleanlab, which needs at least 10 neighbours.

    Parameters
    ----------
    distances, indices : array-like of shape (n_samples, n_neighbors)
        What :func:`neighbor_graph` returns; samples that are their own first neighbour are left out.

    Returns
    -------
    scipy.sparse.csr_matrix

    Examples
    --------
    >>> from steep.neighbors import neighbor_graph
    >>> sparse_graph(*neighbor_graph([[0.0], [1.0], [3.0]], n_neighbors=2)).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 2., 0.]])
    """
    lengths, others = _checked(np.asarray(distances), np.asarray(indices))
    own = others == np.arange(len(others))[:, None]
    if own.any():
        if not own[:, 0].all() or own[:, 1:].any():
            raise InputError(
                "indices holds some samples as neighbours of themselves; need all of them, as the first, or none; "
                "build it with neighbor_graph"
            )
        lengths, others = lengths[:, 1:], others[:, 1:]
    n_samples, n_others = others.shape
    starts = np.arange(0, n_samples * n_others + 1, n_others) if n_others else np.zeros(n_samples + 1, int)
    flat = lengths.astype(np.float64).ravel(), np.ascontiguousarray(others).ravel(), starts
    return csr_matrix(flat, shape=(n_samples, n_samples))


def _checked(distances: FloatArray, indices: IntArray) -> tuple[FloatArray, IntArray]:
    if indices.ndim != 2 or indices.dtype.kind not in "iu" or distances.shape != indices.shape:
        raise InputError(
            f"distances of shape {distances.shape} and indices of shape {indices.shape} ({indices.dtype}) are no "
            "graph; need two arrays of shape (n_samples, n_neighbors), as neighbor_graph returns them"
        )
    if indices.size and not (indices.min() >= 0 and indices.max() < len(indices)):
        raise InputError(
            f"indices goes from {indices.min()} to {indices.max()}; need rows from 0 to {len(indices) - 1}; build "
            "it with neighbor_graph"
        )
    return distances, indices
