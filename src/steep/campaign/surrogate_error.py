"""How well the last results were predicted by those before them."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import RBFInterpolator

from steep._validation import FloatArray

# Points an interpolant is built from around each point it is judged at.
_NEIGHBORS = 50


def error_on_last(points: FloatArray, labels: FloatArray, n_last: int) -> float:
    """Root mean square error on the last results, predicted from those before, in deviations of y.

    Every result is new to the interpolant that predicts it. A design runs where the function is hard,
    so the error over S is usually smaller.

    Examples
    --------
    >>> x = np.random.default_rng(0).random((60, 1))
    >>> error_on_last(x, np.sin(3 * x), 10) < 0.01
    True
    """
    n_before = len(points) - n_last
    if n_last < 1 or n_before < 2 * (points.shape[1] + 1):
        return float("nan")
    unique = np.unique(points[:n_before], axis=0, return_index=True)[1]
    known, values, k = points[unique], labels[unique], min(_NEIGHBORS, len(unique))
    try:
        cubic = RBFInterpolator(known, values, neighbors=k, kernel="cubic", degree=1, smoothing=1e-10)
        predicted = cubic(points[n_before:])
    except np.linalg.LinAlgError:  # neighbours all in one plane, as within one category
        predicted = RBFInterpolator(known, values, neighbors=k, kernel="linear", degree=0)(points[n_before:])
    deviation = labels.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    errors = (predicted - labels[n_before:]) / scale
    return float(np.max(np.sqrt(np.mean(errors**2, axis=0))))
