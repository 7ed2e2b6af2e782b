"""Local label variance, Eq. Dhat2: how much the labels around x_i vary, without derivatives or evaluations.

    1/(k−1) Σ_{x_j ∈ S_k(x_i)} (f(x_j) − mean of f on S_k(x_i))²

k is ``n_neighbors``; S_k(x_i) holds the k nearest neighbours of x_i, itself among them. Outputs are summed,
a class stands for its one-hot column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.labels import Labels, Task
from steep.measures.neighborhood import Neighborhood

# Rows worked on at once, small enough that a block of neighbour labels stays in cache, and labels of them at most.
_BLOCK, _NUMBERS = 8192, 2**22


def neighbor_variance(
    X: Any,
    y: Any,
    *,
    n_neighbors: int = 20,
    include_self: bool = True,
    neighbors: Any = None,
    task: Task = "auto",
    n_jobs: int | None = None,
) -> FloatArray:
    """Measure how much the labels vary around each sample (Eq. Dhat2).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples. Distances are taken as they are: scale the columns first. Data that do not fit in memory go to
        ``steep.dask.neighbor_variance``.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any kind: numbers, classes, several outputs, 0/1 columns of multi-label data.
    n_neighbors : int, default 20
        k. Small values follow fine structure and noise; large ones smooth both.
    include_self : bool, default True
        Whether a sample counts among its own k neighbours, as in the paper.
    neighbors : ndarray of shape (n_samples, ≥ n_neighbors), or (distances, indices), optional
        A graph from :func:`neighbor_graph`, to save the search; its first ``n_neighbors`` columns
        are used and ``include_self`` is then the graph's own.
    task : {"auto", "classification", "regression"}, default "auto"
        How to read ``y``; see :func:`steep.sample_weights`.
    n_jobs : int, optional
        Parallel jobs of the search.

    Returns
    -------
    ndarray of shape (n_samples,)
        Unbiased variance of the neighbours' labels, summed over outputs (one-hot for classes).

    Examples
    --------
    >>> neighbor_variance([[0.0], [1.0], [2.0], [9.0]], [0.0, 0.0, 4.0, 4.0], n_neighbors=2)
    array([0., 0., 8., 0.])
    """
    around = Neighborhood.of(
        X, y, n_neighbors=n_neighbors, include_self=include_self, neighbors=neighbors, task=task, n_jobs=n_jobs
    )
    return variance(around)


def variance(around: Neighborhood) -> FloatArray:
    """Eq. Dhat2, the paper's measure."""
    return np.asarray(variances(around, [around.n_neighbors])[0])


def variances(around: Neighborhood, sizes: Sequence[int]) -> FloatArray:
    """Eq. Dhat2 for every k in ``sizes``, ``(len(sizes), n_samples)``."""
    return prefix_variances(around.labels, around.indices, sizes)


def prefix_variances(labels: Labels, indices: npt.NDArray[np.integer[Any]], sizes: Sequence[int]) -> FloatArray:
    """Variance over the first k neighbours for every k, ``(len(sizes), n_samples)``, in one pass over the largest."""
    largest = max(sizes)
    rows = {k: row for row, k in enumerate(sizes)}
    variances = np.empty((len(sizes), len(indices)))
    width = largest * (1 if labels.codes is not None else labels.n_columns)
    step = max(1, min(_BLOCK, _NUMBERS // width))
    for start in range(0, len(indices), step):
        block = slice(start, start + step)
        around = labels.array[indices[block, :largest]]
        if labels.codes is None:
            for k, row in rows.items():
                variances[row, block] = _value_variance(around[:, :k])
            continue
        for k, variance in enumerate(_class_prefixes(around), start=1):
            if k in rows:
                variances[rows[k], block] = variance
    return variances if len(rows) == len(sizes) else variances[[rows[k] for k in sizes]]


def _class_prefixes(codes: npt.NDArray[np.int32]) -> Any:
    """Yield the summed variance of one-hot columns over the first 1, 2, … neighbours.

    With n_c neighbours of class c among k it is (k − Σ n_c²/k)/(k−1), and Σ n_c² counts the ordered
    pairs of neighbours that agree: whole numbers, so nothing is lost to rounding.
    """
    pairs = np.zeros(len(codes), dtype=np.int64)
    for k in range(1, codes.shape[1] + 1):
        newest = codes[:, k - 1 : k]
        pairs += 1 + 2 * (codes[:, : k - 1] == newest).sum(axis=1)
        yield (k - pairs / k) / max(k - 1, 1)


def _value_variance(values: FloatArray) -> FloatArray:
    """Summed variance over all neighbours given, ``(n_samples, k, n_outputs)``; the labels' own mean taken off."""
    apart = values - values[:, :1]  # a large common offset costs no digits
    apart -= apart.mean(axis=1, keepdims=True)
    return np.asarray(np.einsum("iko,iko->i", apart, apart) / max(values.shape[1] - 1, 1))
