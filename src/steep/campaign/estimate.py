"""How good a surrogate of the results would be, judged on results it was not made from."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import RBFInterpolator

from steep._validation import FloatArray

# Points an interpolant is built from around each point it is judged at.
_NEIGHBORS = 50


def estimated_error(points: FloatArray, labels: FloatArray, n_last: int) -> float:
    """Root mean square error on the last results, foreseen from those before, in deviations of y.

    Every result is new to the interpolant that foresees it. A design runs where the function is hard,
    so the error over S is usually smaller. NaN as long as there are too few results.

    Examples
    --------
    >>> x = np.random.default_rng(0).random((60, 1))
    >>> estimated_error(x, np.sin(3 * x), 10) < 0.01
    True
    """
    n_before = len(points) - n_last
    if n_last < 1 or n_before < 2 * (points.shape[1] + 1):
        return float("nan")
    unique = np.unique(points[:n_before], axis=0, return_index=True)[1]
    interpolant = RBFInterpolator(
        points[unique], labels[unique], neighbors=min(_NEIGHBORS, len(unique)), kernel="cubic", degree=1,
        smoothing=1e-10,
    )  # fmt: skip
    errors = interpolant(points[n_before:]) - labels[n_before:]
    deviation = labels.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    return float(np.max(np.sqrt(np.mean((errors / scale) ** 2, axis=0))))
