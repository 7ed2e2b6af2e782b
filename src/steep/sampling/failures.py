"""Where runs fail, fewer are wanted.

    trust(c) = min(share of the runs nearest to c that worked, min_j 1 / (1 + m_j(c)))²

m_j is the number of failed runs that are nearer to c along axis j than any run that worked. The share finds regions of
any shape; m_j finds a face, a range of one input or a category where nothing works, whose runs lie far from each other
along the other inputs. A little is left everywhere, so that boundaries are explored further.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steep._validation import FloatArray
from steep.domain import Box
from steep.neighbors.query import nearest

Trust = Callable[[FloatArray], FloatArray]

# Neighbours a candidate's risk of failing is judged by.
_JUDGES = 3
# Trust in places where all judges failed; a campaign whose first runs all fail can still find out where not.
_LEAST = 0.05
# Even points are left out below this trust.
HOPELESS = 0.01


def trust_in(box: Box, worked: FloatArray, failed: FloatArray) -> Trust:
    """How far runs are trusted to work, as a function of unit points, from embedded runs that did and did not."""
    tried = np.vstack([worked, failed])

    def trust(unit: FloatArray) -> FloatArray:
        points = box.embed(unit)
        _, judges = nearest(tried, points, min(_JUDGES, len(tried)))
        share = (judges < len(worked)).mean(axis=1)
        for column, good, bad in zip(points.T, worked.T, failed.T, strict=True):
            share = np.minimum(share, 1 / (1 + _n_nearer(column, np.sort(good), np.sort(bad))))
        return np.asarray(np.maximum(share, _LEAST) ** 2)

    return trust


def _n_nearer(at: FloatArray, worked: FloatArray, failed: FloatArray) -> FloatArray:
    """How many failed runs are nearer along one axis than any that worked; both sorted."""
    bounded = np.concatenate([[-np.inf], worked, [np.inf]])
    place = np.searchsorted(worked, at)
    gap = np.minimum(at - bounded[place], bounded[place + 1] - at)
    n_failed = np.searchsorted(failed, at + gap, side="left") - np.searchsorted(failed, at - gap, side="right")
    return np.asarray(np.maximum(n_failed, 0))
