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
    if not fit_intercept:
        sums = weighted_products(np.column_stack([X, y]), weights)
        return _solved(sums, alpha, width), np.zeros(len(weights))
    # Centred first: sums of squares of numbers far from 0 would swallow their spread.
    middle, level = X.mean(axis=0), y.mean()
    columns = np.column_stack([X - middle, np.ones(len(y)), y - level])
    found = _solved(weighted_products(columns, weights), alpha, width)
    return found[:, :width], level + found[:, width] - found[:, :width] @ middle


def _solved(sums: FloatArray, alpha: float, n_penalised: int) -> FloatArray:
    """Coefficients of all columns but the last, which is the target."""
    penalised = np.arange(n_penalised)
    sums[:, penalised, penalised] += alpha
    solution: FloatArray = np.linalg.solve(sums[:, :-1, :-1], sums[:, :-1, -1:])[:, :, 0]
    return solution


def weighted_products(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_i w_bi c_ij c_il for every row b of ``weights``, ``(n_problems, n_columns, n_columns)``."""
    n_rows, width = columns.shape
    n_products = width * (width + 1) // 2
    packed = np.zeros((len(weights), n_products))
    step = min(n_rows, max(64, _BLOCK // n_products))
    transposed, products = np.ascontiguousarray(columns.T), np.empty((n_products, step))
    for start in range(0, n_rows, step):
        part = transposed[:, start : start + step]
        table = products[:, : part.shape[1]]
        end = 0
        for number, column in enumerate(part):
            np.multiply(column, part[number:], out=table[end : end + width - number])
            end += width - number
        packed += weights[:, start : start + step] @ table.T
    whole = np.empty((len(weights), width, width))
    first, second = np.triu_indices(width)
    whole[:, first, second] = packed
    whole[:, second, first] = packed
    return whole
