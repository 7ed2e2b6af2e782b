"""Ridge regression for many sample weights at once: one matrix product instead of one fit each.

    β_b = argmin Σ_i w_bi (y_i − x_i β − β0)² + α ‖β‖²,      b = 1…B weightings of the same rows

The sums Σ_i w_bi x_ij x_il of all b are the product of the weights ``(B, n)`` with the table of products
x_ij x_il ``(n, p(p+1)/2)``. What is left are B systems of p equations.
"""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray

# Products worked on at once: they stay in the processor's cache.
_BLOCK = 2**17


def solve_ridge(
    X: FloatArray, y: FloatArray, weights: FloatArray, *, alpha: float, fit_intercept: bool
) -> tuple[FloatArray, FloatArray]:
    """Solve ridge regression for every row of ``weights``.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Inputs.
    y : ndarray of shape (n_samples,)
        Targets.
    weights : ndarray of shape (n_problems, n_samples)
        Sample weights of every problem; a weight of 0 leaves the sample out.
    alpha : float
        Penalty, above 0.
    fit_intercept : bool
        Whether there is a constant, which is not penalised.

    Returns
    -------
    coefficients, intercepts : ndarray of shape (n_problems, n_features), (n_problems,)

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 9.0])
    >>> both = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    >>> solve_ridge(X, y, both, alpha=1e-9, fit_intercept=True)[0].round(6)
    array([[4.],
           [2.]])
    """
    width = X.shape[1]
    # Centred first: sums of squares of numbers far from 0 would swallow their spread.
    middle, level = (X.mean(axis=0), y.mean()) if fit_intercept else (np.zeros(width), 0.0)
    columns = np.column_stack([X - middle, y - level, np.ones(len(y))])
    sums = weighted_products(columns, weights)
    gram, right = sums[:, :width, :width], sums[:, :width, width]
    if fit_intercept:
        total = sums[:, -1, -1]
        means, mean = sums[:, :width, -1] / total[:, None], sums[:, width, -1] / total
        gram = gram - total[:, None, None] * means[:, :, None] * means[:, None, :]
        right = right - (total * mean)[:, None] * means
    coefficients: FloatArray = np.linalg.solve(gram + alpha * np.eye(width), right[:, :, None])[:, :, 0]
    if not fit_intercept:
        return coefficients, np.zeros(len(weights))
    return coefficients, level + mean - (coefficients * (middle + means)).sum(axis=1)


def weighted_products(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_i w_bi c_ij c_il for every row b of ``weights``, ``(n_problems, n_columns, n_columns)``."""
    width = columns.shape[1]
    first, second = np.triu_indices(width)
    packed = np.zeros((len(weights), len(first)))
    step = max(64, _BLOCK // len(first))
    transposed = np.ascontiguousarray(columns.T)
    for start in range(0, len(columns), step):
        rows = slice(start, start + step)
        part = transposed[:, rows]
        packed += weights[:, rows] @ (part[first] * part[second]).T
    whole = np.empty((len(weights), width, width))
    whole[:, first, second] = packed
    whole[:, second, first] = packed
    return whole
