"""Variance Based Samples Weighting, lines 1 to 3 of Algorithm 2.

1   k, m                          n_neighbors, weight_ratio
2   Df̂²(x_i) by Eq. Dhat2         neighbor_variance
3   {(w_i, x_i)}                  rescale
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steep._validation import FloatArray
from steep.labels import Task
from steep.measures import measure_variation
from steep.rescaling import Method, Normalize, rescale
from steep.weighting.embedding import embed


def sample_weights(
    X: Any,
    y: Any,
    *,
    n_neighbors: int = 20,
    weight_ratio: float = 40.0,
    measure: str | Callable[..., Any] = "variance",
    normalize: Normalize = "mean",
    method: Method = "minmax",
    clip: float | None = None,
    embedding: Any = "standard",
    include_self: bool = True,
    neighbors: Any = None,
    task: Task = "auto",
    n_jobs: int | None = None,
) -> FloatArray:
    """Weigh labelled samples by the variance of their neighbours' labels (Algorithm 2).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any kind.
    n_neighbors : int, default 20
        k, neighbours whose labels are compared, the sample itself counted.
    weight_ratio : float, default 40
        m, the largest weight over the smallest; 1 is equal weights, below 1 favours flat regions.
        Which ratio helps differs by data set: try several on held-out data.
    measure : str or callable, default "variance"
        What counts as variation: "variance" is the paper's; see :mod:`steep.measures` for the
        others. A callable gets the embedded samples and ``y``.
    normalize, method, clip
        See :func:`rescale`.
    embedding : {"standard", None}, transformer or callable, default "standard"
        Space in which neighbours are looked for: standardised columns, ``X`` as it is (the paper),
        what a scikit-learn transformer's ``fit_transform`` returns, or ``embedding(X)``.
    include_self : bool, default True
        Whether a sample counts among its own neighbours.
    neighbors : ndarray or (distances, indices), optional
        A graph from :func:`neighbor_graph`; ``embedding`` is then not used.
    task : {"auto", "classification", "regression"}, default "auto"
        How to read ``y``; see :func:`neighbor_variance`.
    n_jobs : int, optional
        Parallel jobs of the search.

    Returns
    -------
    ndarray of shape (n_samples,)
        Weights for the ``sample_weight`` of any estimator.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> weight = sample_weights(X, y, n_neighbors=20, weight_ratio=40)
    >>> bool(abs(weight.mean() - 1) < 1e-12), bool(weight.max() / weight.min() < 40 + 1e-9)
    (True, True)
    """
    variation = measure_variation(
        X if neighbors is not None else embed(X, embedding),
        y,
        measure=measure,
        n_neighbors=n_neighbors,
        include_self=include_self,
        neighbors=neighbors,
        task=task,
        n_jobs=n_jobs,
        use="sample_weights",
    )
    return rescale(variation, weight_ratio=weight_ratio, method=method, normalize=normalize, clip=clip)
