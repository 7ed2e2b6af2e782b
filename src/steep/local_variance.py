"""Local variance of the labels: how much f varies around x, without its derivatives.

    perturbation_variance   Eq. Dhat    1/(k−1) Σ_{i≤k} (f(x + e_i) − c)²,   e_i ~ N(0, ε I)
    neighbor_variance       Eq. Dhat2   1/(k−1) Σ_{x_j ∈ S_k(x_i)} (f(x_j) − mean of f on S_k(x_i))²

k is ``n_draws`` in the first and ``n_neighbors`` in the second; S_k(x_i) holds the k nearest
neighbours of x_i, itself among them. In Eq. Dhat the paper takes c = f(x) (``center="point"``), which
exceeds the variance by (½ ε tr H)² at leading order; the default c is the mean of the draws. Outputs
are summed. Both are unbiased in the 1/(k−1) sense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steep._labels import Labels, Task
from steep._neighborhood import Neighborhood
from steep._validation import (
    FloatArray,
    Function,
    Seed,
    check_choice,
    check_count,
    check_epsilon,
    check_generator,
    check_points,
    evaluate,
)

# Rows worked on at once: small enough that a block of neighbour labels stays in cache.
_BLOCK = 8192


def perturbation_variance(
    function: Function,
    X: Any,
    *,
    epsilon: Any = 1e-3,
    n_draws: int = 20,
    center: Literal["mean", "point"] = "mean",
    vectorized: bool = True,
    random_state: Seed = None,
) -> FloatArray:
    """Measure how fast ``function`` varies around each point, from noisy draws (Eq. Dhat).

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array. Draws may fall outside the domain of ``X``.
    X : array-like of shape (n_samples, n_features)
        Where to measure.
    epsilon : float or array of shape (n_features,), default 1e-3
        Variance of the noise, for all inputs or for each.
    n_draws : int, default 20
        k, evaluations spent on each point; the estimate's relative error falls as 1/√k.
    center : {"mean", "point"}, default "mean"
        Spread around the mean of the draws (an unbiased variance) or around f(x) as in Eq. Dhat,
        which costs one more evaluation a point.
    vectorized : bool, default True
        False when ``function`` takes one point at a time.
    random_state : int, Generator or None
        Seed of the noise.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> perturbation_variance(lambda X: 3 * X[:, 0], [[0.0]], n_draws=4000, random_state=0).round(3)
    array([0.009])
    """
    points = check_points(X)
    n_samples, n_features = points.shape
    scale = np.sqrt(check_epsilon(epsilon, n_features))
    n_draws = check_count(n_draws, name="n_draws", minimum=2)
    check_choice(center, name="center", choices=("mean", "point"))
    noise = check_generator(random_state).standard_normal((n_draws, n_samples, n_features)) * scale
    noisy = evaluate(function, (points + noise).reshape(-1, n_features), vectorized=vectorized)
    draws = noisy.reshape(n_draws, n_samples, -1)
    middle = draws.mean(axis=0) if center == "mean" else evaluate(function, points, vectorized=vectorized)
    variation: FloatArray = ((draws - middle) ** 2).sum(axis=(0, 2)) / (n_draws - 1)
    return variation


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
        Samples. Distances are taken as they are: scale the columns first.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any kind: numbers, classes, several outputs, 0/1 columns of multi-label data.
    n_neighbors : int, default 20
        k. Small values follow fine structure and noise alike; large ones smooth both.
    include_self : bool, default True
        Whether a sample counts among its own k neighbours, as in the paper.
    neighbors : ndarray of shape (n_samples, ≥ n_neighbors), or (distances, indices), optional
        A graph from :func:`neighbor_graph`, to save the search; its first ``n_neighbors`` columns
        are used and ``include_self`` is then the graph's own.
    task : {"auto", "classification", "regression"}, default "auto"
        How to read ``y``; "auto" takes floats as quantities and everything else as classes.
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
        X,
        y,
        n_neighbors=n_neighbors,
        include_self=include_self,
        neighbors=neighbors,
        task=task,
        n_jobs=n_jobs,
    )
    variation: FloatArray = prefix_variances(around.labels, around.indices, [n_neighbors])[0]
    return variation


def prefix_variances(
    labels: Labels, indices: npt.NDArray[np.integer[Any]], sizes: Sequence[int]
) -> FloatArray:
    """Variance over the first k neighbours for every k in ``sizes``, in one pass over the largest.

    Returns
    -------
    ndarray of shape (len(sizes), n_samples)
    """
    largest = max(sizes)
    rows = {k: row for row, k in enumerate(sizes)}
    variances = np.empty((len(sizes), len(indices)))
    for start in range(0, len(indices), _BLOCK):
        block = slice(start, start + _BLOCK)
        around = labels.array[indices[block, :largest]]
        running = _class_prefixes(around) if labels.codes is not None else _value_prefixes(around)
        for k, variance in enumerate(running, start=1):
            if k in rows:
                variances[rows[k], block] = variance
    return variances[[rows[k] for k in sizes]]


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


def _value_prefixes(values: FloatArray) -> Any:
    """Yield the summed variance over the first 1, 2, … neighbours by Welford's updates.

    Taken relative to the nearest neighbour's label, so that a large common offset costs no digits.
    """
    shifted = values - values[:, :1]
    mean = np.zeros_like(shifted[:, 0])
    squares = np.zeros_like(mean)
    for k in range(1, shifted.shape[1] + 1):
        newest = shifted[:, k - 1]
        delta = newest - mean
        mean = mean + delta / k
        squares = squares + delta * (newest - mean)
        yield squares.sum(axis=1) / max(k - 1, 1)
