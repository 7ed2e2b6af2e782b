"""The interpolant by which a design is judged: a cubic through the nearest results, and what it errs by.

    ŷ(x) = Σ_i w_i ‖x − x_i‖³ + a + bᵀx     over the 50 results nearest to x

A category has a column for each of its values, which add up to one: b is then open along one direction, and wherever
all neighbours share a value. There all results are used at once, in coordinates without that direction; many results,
by a kernel that needs no b.

No error here is of a point the interpolant has seen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import RBFInterpolator

from steep._blas import one_blas_thread
from steep._validation import FloatArray, IntArray
from steep.labels import deviations

# Points an interpolant is built from around each point it is judged at.
_NEIGHBORS = 50
# Results that are used at once where there are categories, at most.
_AT_ONCE = 500
# Above this many results not every one is judged.
_MOST_JUDGED = 3000

Predict = Callable[[FloatArray], FloatArray]


def interpolant(points: FloatArray, labels: FloatArray) -> Predict:
    """The interpolant through some results.

    Parameters
    ----------
    points : ndarray of shape (n_samples, n_coordinates)
        Points in coordinates in which distances are meant; at least 2(n_coordinates + 1).
    labels : ndarray of shape (n_samples, n_outputs)
        Results there.

    Returns
    -------
    callable
        ``predict(points)`` of shape ``(n, n_outputs)``.

    Examples
    --------
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> predict = interpolant(x, np.sin(3 * x))
    >>> bool(abs(predict(np.array([[0.512]]))[0, 0] - np.sin(1.536)) < 1e-4)
    True
    """
    unique = np.unique(points, axis=0, return_index=True)[1]
    known, values, k = points[unique], labels[unique], min(_NEIGHBORS, len(unique))
    low, high = values.min(axis=0), values.max(axis=0)
    varies = np.isfinite(deviations(values))
    basis = _independent(known)
    at_once = basis.shape[1] < known.shape[1]

    def linear(at: FloatArray) -> FloatArray:
        return np.asarray(RBFInterpolator(known, values, neighbors=k, kernel="linear", degree=0)(at))

    @one_blas_thread()
    def predict(at: FloatArray) -> FloatArray:
        if at_once and len(known) > _AT_ONCE:
            return linear(at)
        near = None if at_once else k
        try:
            cubic = RBFInterpolator(known @ basis, values, neighbors=near, kernel="cubic", degree=1, smoothing=1e-10)
            found = np.asarray(cubic(at @ basis))
        except np.linalg.LinAlgError:  # neighbours all in one plane, as within one category
            return linear(at)
        # Neighbours nearly in one plane raise nothing and predict anything: far outside what was seen.
        wild = ~((found >= 2 * low - high) & (found <= 2 * high - low))[:, varies].all(axis=1)
        if wild.any():
            found[wild] = linear(at[wild])
        return found

    return predict


@one_blas_thread()
def _independent(points: FloatArray) -> FloatArray:
    """Directions along which points spread, as columns: all axes, or fewer that keep every distance."""
    _, sizes, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    kept = sizes > 1e-9 * max(float(sizes[0]), 1e-300)
    return np.eye(points.shape[1]) if kept.all() else np.asarray(directions[kept].T)


def cross_errors(points: FloatArray, labels: FloatArray, *, n_folds: int = 10) -> tuple[FloatArray, FloatArray]:
    """Every result predicted from others: dealt into folds, one fold from the rest; of very many, some.

    Returns
    -------
    predicted : ndarray of shape (n_samples, n_outputs)
        Predictions; NaN where there is none.
    errors : ndarray of shape (n_samples,)
        Largest deviation over the outputs, in deviations of y.

    Examples
    --------
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> _, errors = cross_errors(x, np.tanh(40 * (x - 0.5)))
    >>> bool(abs(x[errors.argmax(), 0] - 0.5) < 0.1)
    True
    """
    fold = np.arange(len(points)) % n_folds
    if len(points) > _MOST_JUDGED:  # some of them, evenly spread over the runs, from all others
        fold, n_folds = np.full(len(points), -1), 1
        fold[_evenly(0, len(points), _MOST_JUDGED // 3)] = 0
    predicted = np.full(labels.shape, np.nan)
    for i in range(n_folds):
        if (fold == i).any() and (fold != i).sum() >= fewest_points(points.shape[1]):
            predicted[fold == i] = interpolant(points[fold != i], labels[fold != i])(points[fold == i])
    return predicted, np.abs((predicted - labels) / deviations(labels)).max(axis=1)


def fewest_points(n_coordinates: int) -> int:
    """Results that an interpolant needs."""
    return 2 * (n_coordinates + 1)


def _evenly(start: int, end: int, most: int) -> IntArray:
    """Up to ``most`` of the numbers from ``start`` to ``end``, which is left out."""
    return np.unique(np.linspace(start, end - 1, min(end - start, most)).astype(int))
