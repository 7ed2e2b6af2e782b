"""Weighted ridge regression in closed form: many weightings of the same rows, or many penalties of one weighting.

    β_b = argmin Σ_i w_bi ‖y_i − x_i β − β0‖² + α ‖β‖²

The sums Σ_i w_bi x_ij x_il of many b are one matrix product. What is left are systems of p equations, or, for a path
over penalties, one decomposition G = V diag(e) Vᵀ of Σ w x xᵀ: β = V diag(1/(e + α)) Vᵀ Σ w x yᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steep._validation import FloatArray
from steep.convex.inputs import Inputs, weighted_products

# Inputs of a file that are worked on at once.
_BLOCK = 16384


def solve_ridge(X: FloatArray, y: FloatArray, weights: FloatArray, *, alpha: float, fit_intercept: bool) -> FloatArray:
    """Solve ridge regression for every row of ``weights``, ``(n_problems, n_features + 1)``, the intercept last.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 9.0])
    >>> both = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    >>> solve_ridge(X, y, both, alpha=1e-9, fit_intercept=True).round(6)
    array([[4.        , 0.333333],
           [2.        , 1.        ]])
    """
    width = X.shape[1]
    # Centred first: sums of squares of numbers far from 0 would swallow their spread.
    middle, level = (X.mean(axis=0), y.mean()) if fit_intercept else (np.zeros(width), 0.0)
    ones = [np.ones(len(y))] if fit_intercept else []
    sums = weighted_products(np.column_stack([X - middle, *ones, y - level]), weights)
    penalised = np.arange(width)
    sums[:, penalised, penalised] += alpha
    found: FloatArray = np.linalg.solve(sums[:, :-1, :-1], sums[:, :-1, -1:])[:, :, 0]
    constant = level + found[:, width] - found[:, :width] @ middle if fit_intercept else np.zeros(len(weights))
    return np.column_stack([found[:, :width], constant])


def ridge_path(
    X: FloatArray | Inputs, y: FloatArray, share: FloatArray, penalties: Sequence[float], *, fit_intercept: bool
) -> list[tuple[FloatArray, FloatArray]]:
    """Coefficients ``(n_outputs, n_features)`` and intercepts for every penalty α ≥ 0 of one weighting, ``share``.

    ``X`` is read block by block; the intercept is not penalised.

    Examples
    --------
    >>> z = np.array([[0.0], [1.0], [2.0]])
    >>> ridge_path(z, 3 * z + 1, np.ones(3) / 3, [0.0], fit_intercept=True)[0][0].round(6)
    array([[3.]])
    """
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(y), _BLOCK)]
    middle, level = np.zeros(X.shape[1]), np.zeros(y.shape[1])
    if fit_intercept:
        middle = sum(share[block] @ X[block] for block in blocks) / share.sum()
        level = share @ y / share.sum()
    gram, moment = np.zeros((len(middle), len(middle))), np.zeros((len(middle), len(level)))
    for block in blocks:
        centred = X[block] - middle
        weighted = centred.T * share[block]
        gram += weighted @ centred
        moment += weighted @ (y[block] - level)
    values, vectors = np.linalg.eigh(gram)
    rotated = vectors.T @ moment
    found: list[tuple[FloatArray, FloatArray]] = []
    for penalty in penalties:
        # Directions in which the inputs do not vary carry no information: leave them out.
        shrunk = np.where(values + penalty > 1e-12 * values[-1], values + penalty, np.inf)
        beta = (vectors @ (rotated / shrunk[:, None])).T
        found.append((beta, level - beta @ middle))
    return found
