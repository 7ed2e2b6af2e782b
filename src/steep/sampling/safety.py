"""Where runs fail, fewer are wanted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steep._validation import FloatArray
from steep.domain import Box
from steep.neighbors.query import nearest

# Neighbours a candidate's risk of failing is judged by.
_JUDGES = 3


def safety(box: Box, worked: FloatArray, failed: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Squared share of the nearest runs that worked, as a function of unit points.

    Parameters
    ----------
    box : Box
        S.
    worked, failed : ndarray of shape (n_points, n_coordinates)
        Embedded coordinates of runs that gave a result, and of those that did not.

    Examples
    --------
    >>> trust = safety(Box([(0, 1)]), np.array([[0.1], [0.2], [0.3]]), np.array([[0.9]]))
    >>> trust(np.array([[0.0], [1.0]])).round(2).tolist()
    [1.0, 0.44]
    """
    tried = np.vstack([worked, failed])

    def share_that_worked(pool: FloatArray) -> FloatArray:
        _, judges = nearest(tried, box.embed(pool), min(_JUDGES, len(tried)))
        # A little is left, so that a campaign whose first runs all fail can still find out where not.
        share: FloatArray = np.maximum((judges < len(worked)).mean(axis=1), 0.05)
        return share**2

    return share_that_worked
