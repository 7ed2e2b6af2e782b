"""Length scales of a Gaussian process, one a coordinate, of the greatest likelihood.

    log L = −½ Σ_o n log ŝ²_o / n_outputs − ½ log det K       ŝ²_o = yᵀK⁻¹y / n, one variance an output
    K_ab = (1 + √5 r + 5 r²/3) e^{−√5 r} + g δ_ab             r² = Σ_j (x_aj − x_bj)² / ℓ_j², Matérn 5/2

An axis along which the function is linear has a slope and needs few runs: ℓ_j is long there, where a slope alone would
call for many. A wide prior of log ℓ_j keeps axes that some dozens of runs say nothing about at a sensible length.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from steep._blas import one_blas_thread
from steep._validation import FloatArray
from steep.measures.surprise import standardised
from steep.sampling.relevance import axis_relevance
from steep.sampling.strategies import MANY_INPUTS

# Runs that the scales are found by, at most, and steps of the search: a fraction of a second with ten inputs.
_MOST, _STEPS = 200, 25
# Lengths allowed in the unit cube; the middle of the prior over √d, and its deviation, in logarithms.
_SHORTEST, _LONGEST, _USUAL, _WIDTH = 0.02, 20.0, 0.6, 1.5
# No axis counts for less than this share of the one that counts most: what looks idle may wake.
_LEAST = 0.1
_JITTER = 1e-6


def stretch(points: FloatArray, labels: FloatArray) -> tuple[FloatArray, float | None]:
    """Scale of each coordinate, of geometric mean one, and the length of a process in coordinates so scaled.

    Up to four coordinates slopes tell the scale (:func:`axis_relevance`), and no process is fitted: the length is None.

    Examples
    --------
    >>> U = np.random.default_rng(0).random((80, 5))
    >>> scale, length = stretch(U, np.sin(5 * U[:, :1]))
    >>> int(scale.argmax()), round(float(np.prod(scale)), 6), length > 0, stretch(U[:, :2], U[:, :1])[1]
    (0, 1.0, True, None)
    """
    if points.shape[1] < MANY_INPUTS:
        return axis_relevance(points, labels), None
    lengths = length_scales(points, standardised(labels))
    middle = float(np.exp(np.log(lengths).mean()))
    return middle / lengths, middle


@one_blas_thread()
def length_scales(points: FloatArray, labels: FloatArray) -> FloatArray:
    """The likeliest length scale of each coordinate.

    Parameters
    ----------
    points : ndarray of shape (n_samples, n_coordinates)
        Points of the unit cube.
    labels : ndarray of shape (n_samples, n_outputs)
        Their labels, standardised.

    Examples
    --------
    >>> U = np.random.default_rng(0).random((80, 2))
    >>> long, short = length_scales(U, U[:, :1] + np.sin(9 * U[:, 1:]))
    >>> bool(long > 5 * short)
    True
    """
    if len(points) > _MOST:
        rows = np.linspace(0, len(points) - 1, _MOST).astype(int)
        points, labels = points[rows], labels[rows]
    values = labels - labels.mean(axis=0)
    values = values[:, values.any(axis=0)]
    n_coordinates = points.shape[1]
    middle = np.full(n_coordinates, np.log(_USUAL * np.sqrt(n_coordinates)))
    if not values.shape[1]:
        return np.asarray(np.exp(middle))
    found = minimize(
        _cost, middle, args=(points, values, middle), jac=True, method="L-BFGS-B",
        bounds=[(np.log(_SHORTEST), np.log(_LONGEST))] * n_coordinates, options={"maxiter": _STEPS},
    )  # fmt: skip
    lengths = np.exp(found.x)
    return np.asarray(np.minimum(lengths, lengths.min() / _LEAST))


def _cost(logs: FloatArray, points: FloatArray, values: FloatArray, middle: FloatArray) -> tuple[float, FloatArray]:
    """−log L of the logarithms of the scales with their prior, and its derivative."""
    n = len(points)
    scaled = points / np.exp(logs)
    squares = (scaled**2).sum(axis=1)
    r = np.sqrt(5 * np.maximum(squares[:, None] + squares - 2 * scaled @ scaled.T, 0.0))
    decay = np.exp(-r)
    K = (1 + r + r**2 / 3) * decay
    K[np.diag_indices(n)] += _JITTER
    factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
    inverse = cho_solve(factor, np.eye(n), check_finite=False)
    weights = inverse @ values
    sizes = (values * weights).sum(axis=0) / n + 1e-30
    away = (logs - middle) / _WIDTH
    cost = 0.5 * n * np.log(sizes).mean() + np.log(np.diag(factor[0])).sum() + 0.5 * away @ away
    # dK/dlog ℓ_j = B ∘ (x_aj − x_bj)²/ℓ_j²; the sum over pairs is one of products.
    pull = (inverse - (weights / sizes) @ weights.T / values.shape[1]) * (5 / 3 * (1 + r) * decay)
    slope = pull.sum(axis=1) @ scaled**2 - np.einsum("aj,aj->j", scaled, pull @ scaled)
    return float(cost), slope + away / _WIDTH
