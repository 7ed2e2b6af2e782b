"""Estimates of variance from values alone: of the labels around a sample (Eq. Dhat2), of noisy draws (Eq. Dhat).

    1/(k−1) Σ_{x_j ∈ S_k(x_i)} (f(x_j) − mean of f on S_k(x_i))²

k is ``n_neighbors``; S_k(x_i) holds the k nearest neighbours of x_i, itself among them. A class is its one-hot column.

Where f can be evaluated, it varies around x by

    1/(k−1) Σ_{i≤k} (f(x + e_i) − c)²,   e_i ~ N(0, ε I)

k is ``n_draws``. The paper takes c = f(x) (``center="point"``), which exceeds the variance by (½ ε tr H)²
at leading order; the default c is the mean of the draws. Outputs are summed.

If f may only be evaluated inside S, noise that leaves the box is reflected at its faces, and a draw that the
constraint rejects is brought halfway back to its point until it is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steep._function import Function, check_variation, evaluate
from steep._validation import FloatArray, Seed, check_choice, check_count, check_epsilon, check_generator, check_points
from steep.domain import Bounds, Box
from steep.exceptions import InputError
from steep.labels import Labels, Task
from steep.measures.neighborhood import FunctionAround, Neighborhood

# Rows worked on at once, small enough that a block of neighbour labels stays in cache, and labels of them at most.
_BLOCK, _NUMBERS = 8192, 2**22

# Numbers drawn at most: 2^30 doubles are 8 GiB.
_MOST_NUMBERS = 2**30
# Halvings of a draw that the constraint rejects; it is taken at its point after that.
_HALVINGS = 10


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


def perturbation_variance(
    function: Function,
    X: Any,
    *,
    epsilon: Any = 1e-3,
    n_draws: int = 20,
    center: Literal["mean", "point"] = "mean",
    bounds: Bounds | Box | None = None,
    vectorized: bool = True,
    random_state: Seed = None,
) -> FloatArray:
    """Measure how fast ``function`` varies around each point, from noisy draws (Eq. Dhat).

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array. Without ``bounds`` draws may fall outside the domain.
    X : array-like of shape (n_samples, n_features)
        Points at which to measure.
    epsilon : float or array of shape (n_features,), default 1e-3
        Variance of the noise, for all inputs or for each.
    n_draws : int, default 20
        k, evaluations spent on each point; the estimate's relative error falls as 1/√k.
    center : {"mean", "point"}, default "mean"
        Spread around the mean of the draws (an unbiased variance) or around f(x) as in Eq. Dhat,
        which costs one more evaluation a point.
    bounds : bounds or Box, optional
        S, the only place where ``function`` is evaluated: draws are reflected at its faces, and brought back
        towards their point where a constraint rejects them, which lowers the variation there.
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
    box = None if bounds is None else Box(bounds)
    points = check_points(X, n_features=None if box is None else box.n_features)
    n_samples, n_features = points.shape
    scale = np.sqrt(check_epsilon(epsilon, n_features))
    n_draws = check_count(n_draws, name="n_draws", minimum=2)
    if n_draws * points.size > _MOST_NUMBERS:
        raise InputError(
            f"n_draws={n_draws} takes {n_draws * points.size:.3g} random numbers; expected at most "
            f"{_MOST_NUMBERS}; lower it or measure fewer points at a time"
        )
    check_choice(center, name="center", choices=("mean", "point"))
    noise = check_generator(random_state).standard_normal((n_draws, n_samples, n_features)) * scale
    drawn: FloatArray = points + noise
    if box is not None:
        drawn = np.array([_inside(box, points, draw) for draw in drawn])
    noisy = evaluate(function, drawn.reshape(-1, n_features), vectorized=vectorized)
    draws = noisy.reshape(n_draws, n_samples, -1)
    middle = evaluate(function, points, vectorized=vectorized) if center == "point" else None
    with np.errstate(over="ignore", invalid="ignore"):
        middle = draws.mean(axis=0) if middle is None else middle
        return check_variation(((draws - middle) ** 2).sum(axis=(0, 2)) / (n_draws - 1))


def perturbation(around: FunctionAround) -> FloatArray:
    """Eq. Dhat about the mean of the draws, for the registry."""
    if around.function is None:
        raise InputError("measure='perturbation' evaluates the function, got none; pass function=")
    return perturbation_variance(
        around.function, around.points, epsilon=around.epsilon, n_draws=around.n_draws, bounds=around.bounds,
        random_state=around.random_state,
    )  # fmt: skip


def _inside(box: Box, points: FloatArray, draws: FloatArray) -> FloatArray:
    inside = _reflected(box, draws)
    if box.constraint is None:
        return inside
    for _ in range(_HALVINGS):
        rejected = ~box.contains(inside)
        if not rejected.any():
            return inside
        draws = np.where(rejected[:, None], (points + draws) / 2, draws)
        inside[rejected] = _reflected(box, draws[rejected])
    rejected = ~box.contains(inside)
    inside[rejected] = points[rejected]
    return inside


def _reflected(box: Box, points: FloatArray) -> FloatArray:
    """Points of the box: what lies outside is reflected at its faces, whole numbers stay whole."""
    folded = np.abs(np.mod(box.unit(points) + 1, 2) - 1)
    return box.from_unit(folded)
