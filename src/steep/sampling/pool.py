"""Where the points of a round come from: one scrambled Sobol sequence, or a pool of candidates with a wanted density.

A design that takes every run from here *is* Sobol's, and the runs it takes from here show the error over the domain,
however unevenly the others lie. If runs fail, fewer are wanted:

    trust(c) = min(share of the runs nearest to c that worked, min_j 1 / (1 + m_j(c)))²

m_j is the number of failed runs that are nearer to c along axis j than any run that worked: it finds a face, a range of
one input or a category where nothing works. A little is left everywhere, so that boundaries are explored further.

Greedy fill takes, one by one, the candidate where the density is least covered:

    score(c) = w(c) · δ(c)^q        w the wanted density, δ the distance to the nearest point there

With q = d, w δ^d is the mass of the ball around c that holds no point yet: taking the largest first fills the density
evenly. :func:`steep.sampling.process.fill_doubt` has the deviation of a Gaussian process in place of the distance.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from steep._validation import FloatArray, IntArray, Seed, check_generator
from steep.domain import Box
from steep.exceptions import InputError
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

# Candidates to choose from: enough to be fine-grained in a few dimensions, few enough to stay fast.
_CANDIDATES = 4096
_CANDIDATES_PER_SAMPLE = 8
# Share of the candidates moved to a face, where surrogates extrapolate and err most. With three in ten, and several
# faces at once, a third of the points of five inputs lay on two faces or more, and networks erred more.
_EDGE = 0.1
# Corners are candidates up to this many inputs: beyond there are too many, and too little around each.
_CORNERS = 3
# Measured points a candidate's variation is averaged over.
_AROUND = 8
# In many dimensions distances are nearly equal and δ^d would drown the density: q stops here.
_MOST_POWER = 3


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


def candidate_pool(box: Box, n_samples: int, generator: np.random.Generator) -> FloatArray:
    """Unit points of S to choose from: all of a small domain, else a Sobol set, part of it moved to one face each."""
    size = max(_CANDIDATES, _CANDIDATES_PER_SAMPLE * n_samples)
    if box.n_points <= size:
        return whole_pool(box)
    pool = box.unit(box.sobol(1 << (size - 1).bit_length(), random_state=generator))
    n_moved = int(_EDGE * len(pool))
    moved, rows = pool[:n_moved].copy(), np.arange(n_moved)
    axis = generator.integers(box.n_features, size=n_moved)
    moved[rows, axis] = np.round(moved[rows, axis])
    if box.n_features <= _CORNERS:
        corners = np.array(list(product((0.0, 1.0), repeat=box.n_features)))
        moved[-len(corners) :] = corners
    allowed = box.contains(box.from_unit(moved))
    pool[:n_moved][allowed] = moved[allowed]
    if all(axis.kind in ("linear", "log") for axis in box.axes):
        return pool
    # Whole numbers and categories: candidates that mean the same point are one candidate.
    return np.unique(box.unit(box.from_unit(pool)), axis=0)


def whole_pool(box: Box) -> FloatArray:
    """Every point of a domain of whole numbers and categories, as unit points."""
    points = box.every_point()
    if not len(points):
        raise InputError(f"the constraint allows none of the {box.n_points:g} points of {box!r}; expected at least one")
    return box.unit(points)


def distinct(pool: FloatArray) -> npt.NDArray[np.bool_]:
    """Mark each candidate once: only corners, to which many candidates were moved, come twice."""
    corners = np.flatnonzero(((pool == 0) | (pool == 1)).all(axis=1))
    _, first = np.unique(pool[corners], axis=0, return_index=True)
    once = np.ones(len(pool), dtype=bool)
    once[corners] = False
    once[corners[first]] = True
    return once


def interpolate(points: FloatArray, variation: FloatArray, pool: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variation of each candidate, a mean of those nearby weighted by 1/distance², and the distance to the nearest."""
    distances, indices = nearest(points, pool, min(_AROUND, len(points)))
    closeness = 1 / (distances + 1e-9) ** 2
    values: FloatArray = (closeness * variation[indices]).sum(axis=1) / closeness.sum(axis=1)
    return values, distances[:, 0]


def wanted_density(variation: FloatArray, *, temper: float, floor: float) -> FloatArray:
    """Weights of mean one over the candidates: a share ``floor`` spread evenly, the rest following variation^temper."""
    if variation.max() <= 0:
        return np.ones_like(variation)
    followed = (variation / variation.max()) ** temper
    return np.asarray((1 - floor) * followed / followed.mean() + floor)


def greedy_fill(pool: FloatArray, weights: FloatArray, distances: FloatArray, n_samples: int) -> IntArray:
    """Candidates in the order taken, by the wanted density ``weights`` and ``distances`` to the nearest taken point."""
    # Squares spare a root per step: w δ^q and w^(2/q) δ² have the same order.
    roots = np.maximum(weights, 0.0) ** (2 / min(pool.shape[1], _MOST_POWER))
    squares = np.minimum(distances, 1e6) ** 2
    taken = np.empty(n_samples, dtype=np.int64)
    for i in range(n_samples):
        scores = roots * squares
        scores[taken[:i]] = -1.0  # never twice, even where every weight is zero
        taken[i] = np.argmax(scores)
        if scores[taken[i]] <= 0:  # no wanted candidate is left: the one furthest from the others
            taken[i] = np.argmax(np.where(scores < 0, -1.0, squares))
        gaps = pool - pool[taken[i]]
        np.minimum(squares, np.einsum("ij,ij->i", gaps, gaps), out=squares)
    return taken


def random_draw(weights: FloatArray, n_samples: int, generator: np.random.Generator) -> IntArray:
    """Indices of ``n_samples`` candidates in proportion to ``weights``; those without weight come last."""
    shares = weights / weights.sum()
    n_wanted = min(n_samples, int(np.count_nonzero(shares)))
    drawn = generator.choice(len(weights), n_wanted, p=shares, replace=False)
    others = np.flatnonzero(shares == 0)
    rest = generator.choice(others, n_samples - n_wanted, replace=False) if n_wanted < n_samples else others[:0]
    return np.concatenate([drawn, rest])
