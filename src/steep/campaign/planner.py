"""Where the next runs come from: runs of dead processes, then the start, then the plan.

The choices are those of :func:`steep.design`: a measure, a pool, a greedy fill. Planning is a function of
the journal and the number of the plan alone, so a campaign that was killed plans as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steep._validation import FloatArray
from steep.campaign.journal import Journal, Results
from steep.domain import Box
from steep.measures.surprise import standardised, surprise_variation
from steep.neighbors.query import nearest
from steep.sampling.design import Recipe
from steep.sampling.draws import greedy_fill
from steep.sampling.pool import candidate_pool, interpolate, wanted_density
from steep.sampling.relevance import axis_relevance

# A run to make: its number in the journal, and its point.
Job = tuple[int, FloatArray]
# Variation at points of the unit cube, from them and their labels.
Variation = Callable[[FloatArray, FloatArray], FloatArray]

# Plans made for one call when other processes take its points away.
_TRIES = 3
# The map of variation is drawn from at most this many points: asking stays fast with a million told.
_MAPPED = 2048
# Neighbours a candidate's risk of failing is judged by.
_JUDGES = 3


class Planner:
    """Commits runs as pending in the name of ``owner``, at most until there are ``limit`` of them."""

    def __init__(
        self, journal: Journal, box: Box, results: Results, *, owner: str, seed: int, variation: Variation
    ) -> None:
        self.journal, self.box, self.results = journal, box, results
        self.owner, self.seed, self.variation = owner, seed, variation

    def ask(self, n: int, *, n_initial: int, limit: int | None = None) -> list[Job]:
        """Up to ``n`` runs to make next; none when the budget is spent or S has no point left."""
        jobs = self._reclaim(n)
        jobs += self._start(self._room(n - len(jobs), limit), n_initial, limit)
        for _ in range(_TRIES):
            # The budget first: what it does not pay for need not be planned.
            if (n_open := self._room(n - len(jobs), limit)) > 0:
                jobs += self._planned(n_open, limit)
        return jobs

    def _room(self, n: int, limit: int | None) -> int:
        """How many of ``n`` runs the budget still allows."""
        if n <= 0 or limit is None:
            return max(0, n)
        return max(0, min(n, limit - self.journal.count_asked()))

    def _reclaim(self, n: int) -> list[Job]:
        """Take over pending runs whose process is gone."""
        free = self.journal.take_over(n, self.owner)
        points = self.journal.numbers([x for _, x in free], self.box.n_features)
        return list(zip([number for number, _ in free], points, strict=True))

    def _start(self, n: int, n_initial: int, limit: int | None) -> list[Job]:
        """The next points of the Sobol start, the same whoever asks."""
        if n == 0 or self.journal.count_asked("initial") >= n_initial:
            return []
        start = self.box.sobol(n_initial, random_state=self.seed)
        with self.journal.transaction():
            # Every run of the start took at least one point of the sequence: those before are known.
            rest = start[self.journal.count_asked("initial") :]
            return self._add(rest, self._room(n, limit), "initial")

    def _planned(self, n: int, limit: int | None) -> list[Job]:
        plan = self.journal.next_plan()
        X, labels = self.results.told()
        width = self.box.n_features
        occupied, failed = (self.journal.points(state, width) for state in ("pending", "failed"))
        # No lock is held while planning; two processes plan from different pools.
        points = next_points(
            self.box, X, labels, occupied, failed, n, [self.seed, plan], variation=self.variation
        )
        with self.journal.transaction():
            return self._add(points, self._room(n, limit), "design")

    def _add(self, points: FloatArray, n: int, origin: str) -> list[Job]:
        """Commit the first ``n`` of the points that nobody asked for yet."""
        fresh: list[FloatArray] = []
        seen: set[bytes] = set()
        for x in points:
            if len(fresh) == n:
                break
            # Corners are in every pool, and whole numbers come again: another may have asked for it.
            if x.tobytes() not in seen and self.journal.at(x) is None:
                fresh.append(x)
            seen.add(x.tobytes())
        chosen = np.array(fresh).reshape(-1, self.box.n_features)
        return list(zip(self.journal.add(chosen, origin=origin, owner=self.owner), chosen, strict=True))


def surprise(points: FloatArray, labels: FloatArray) -> FloatArray:
    """The measure a campaign follows unless told otherwise."""
    return surprise_variation(points, standardised(labels))


def next_points(
    box: Box,
    X: FloatArray,
    labels: FloatArray,
    occupied: FloatArray,
    failed: FloatArray,
    n: int,
    seed: list[int],
    *,
    variation: Variation = surprise,
) -> FloatArray:
    """Choose ``n`` points of S: where labels vary, clear of what is there, in flight or failing.

    Parameters
    ----------
    box : Box
        S.
    X, labels : ndarray of shape (n_told, n_features) and (n_told, n_outputs)
        Results so far, inside S.
    occupied, failed : ndarray of shape (n_points, n_features)
        Points in flight, and points that failed for good.
    n : int
        How many.
    seed : list of int
        Seed of the campaign and number of the plan.
    variation : callable
        The measure.
    """
    generator = np.random.default_rng(seed)
    pool = candidate_pool(box, n, generator)
    scale: FloatArray
    weights: FloatArray
    scale, weights = np.ones(box.embed(pool[:1]).shape[1]), np.ones(len(pool))
    if len(X) >= 2 * (box.n_features + 1):
        scale, weights = _map(box, pool, X, labels, generator, variation)
    coordinates = box.embed(pool) * scale
    there = np.vstack([X, occupied, failed])
    if len(failed):
        weights = weights * _safety(box, pool, X, failed)
    distances = np.full(len(pool), np.inf)
    if len(there):
        distances = nearest(box.embed(box.unit(there)) * scale, coordinates)[0][:, 0]
    n = min(n, int(np.count_nonzero(distances > 0)))
    if n == 0:
        return np.empty((0, box.n_features))
    return box.from_unit(pool[greedy_fill(coordinates, weights, distances, n)])


def _map(
    box: Box,
    pool: FloatArray,
    X: FloatArray,
    labels: FloatArray,
    generator: np.random.Generator,
    measure: Variation,
) -> tuple[FloatArray, FloatArray]:
    """Scale of the coordinates, and the wanted density at every candidate."""
    if len(X) > _MAPPED:
        kept = generator.choice(len(X), _MAPPED, replace=False)
        X, labels = X[kept], labels[kept]
    points = box.embed(box.unit(X))
    scale = axis_relevance(points, labels)
    variation = measure(points, labels)
    at_pool, _ = interpolate(points * scale, variation, box.embed(pool) * scale)
    return scale, wanted_density(at_pool, temper=Recipe.temper, floor=Recipe.floor)


def _safety(box: Box, pool: FloatArray, X: FloatArray, failed: FloatArray) -> FloatArray:
    """Squared share of the nearest runs that worked: where all failed, nothing is asked."""
    tried = box.embed(box.unit(np.vstack([X, failed])))
    worked = np.arange(len(tried)) < len(X)
    _, judges = nearest(tried, box.embed(pool), min(_JUDGES, len(tried)))
    # A little is left, so that a campaign whose first runs all fail can still find out where not.
    safety: FloatArray = np.maximum(worked[judges].mean(axis=1), 0.05) ** 2
    return safety
