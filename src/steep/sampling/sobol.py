"""The even part of a design: one scrambled Sobol sequence, continued where it was left.

A design that takes every run from here *is* Sobol's, and the runs it takes from here show the error over the domain,
however unevenly the others lie. If runs fail, fewer are wanted:

    trust(c) = min(share of the runs nearest to c that worked, min_j 1 / (1 + m_j(c)))²

m_j is the number of failed runs that are nearer to c along axis j than any run that worked. The share finds regions of
any shape; m_j finds a face, a range of one input or a category where nothing works, whose runs lie far from each other
along the other inputs. A little is left everywhere, so that boundaries are explored further.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from steep._validation import FloatArray, Seed, check_generator
from steep.domain import Box
from steep.neighbors.query import nearest

# A design takes no more points than these from the sequence: after this many it needs no even ones any more.
_MOST = 2**13
# Points drawn to find those that a constraint allows, at most.
_MOST_DRAWN = 2**16

Trust = Callable[[FloatArray], FloatArray]

# Neighbours a candidate's risk of failing is judged by.
_JUDGES = 3
# Trust in places where all judges failed; a campaign whose first runs all fail can still find out where not.
_LEAST = 0.05
# Even points are left out below this trust.
HOPELESS = 0.01


class EvenSequence:
    """The points of S on one Sobol sequence, in order."""

    def __init__(self, box: Box, random_state: Seed) -> None:
        self.box = box
        # SciPy has directions for this many inputs; with more, nothing is even.
        known = box.n_features <= qmc.Sobol.MAXDIM
        self._engine = qmc.Sobol(box.n_features, rng=check_generator(random_state)) if known else None
        self._points: FloatArray = np.empty((0, box.n_features))

    def first(self, n: int) -> FloatArray:
        """The first ``n`` points, in the user's units; fewer where the sequence or the domain ends before."""
        engine = self._engine
        while engine is not None and len(self._points) < n and engine.num_generated < _MOST_DRAWN:
            unit = engine.random_base2(int(np.log2(max(engine.num_generated, 64))))
            allowed = unit[self.box.contains_unit(unit)]
            if len(allowed):
                self._points = np.vstack([self._points, self.box.from_unit(allowed)])
        return self._points[:n]

    def after(self, n: int, *, taken: FloatArray, trust: Trust | None = None) -> FloatArray:
        """The next ``n`` points that are not ``taken``, each once; those that hardly ever work are left out."""
        if n <= 0:
            return self._points[:0]
        size = min(len(taken) + n, _MOST)
        while True:
            given = self.first(size)
            _, once = np.unique(given, axis=0, return_index=True)
            points = given[np.sort(once)]
            points = points[~among(points, taken)]
            if trust is None or not len(points):
                return points[:n]
            points = points[trust(self.box.unit(points)) >= HOPELESS]
            if len(points) >= n or len(given) < size or size == _MOST:
                return points[:n]
            size = min(2 * size, _MOST)

    def holds(self, X: FloatArray) -> npt.NDArray[np.bool_]:
        """Which points are of the sequence; up to seven in eight may have failed or been left out."""
        return among(X, self.first(min(8 * len(X) + 64, _MOST)))


def among(points: FloatArray, others: FloatArray) -> npt.NDArray[np.bool_]:
    """Which points are, to the last digit, among the others."""
    # Adding zero makes one of the two zeros.
    known = {row.tobytes() for row in np.ascontiguousarray(others, dtype=np.float64) + 0.0}
    return np.array(
        [row.tobytes() in known for row in np.ascontiguousarray(points, dtype=np.float64) + 0.0], dtype=bool
    )


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
