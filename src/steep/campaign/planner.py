"""The next runs of a campaign: runs of dead processes, then the start, then the plan.

The plan is a round of :func:`steep.sampling.round.plan_round`, as in :func:`steep.design`, fed from the journal. It is
a function of the journal and the number of the plan alone, so a campaign that was killed plans as if it had not been.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.campaign.journal import Journal
from steep.campaign.results import Results
from steep.domain import Box
from steep.sampling.evaluated import Evaluated, label_variation
from steep.sampling.hedge import Hedge
from steep.sampling.pool import EvenSequence
from steep.sampling.round import Runs, plan_round
from steep.sampling.strategies import Strategy

# A run to make: its number in the journal, and its point.
Job = tuple[int, FloatArray]

# Plans made for one call when other processes take its points away.
_TRIES = 3
# The stream of check runs, next to those of plans.
_CHECKS = 2**40
# The map of variation is drawn from at most this many points: asking stays fast with a million told.
_MAPPED = 2048


class Planner:
    """Commits runs as pending in the name of ``owner``, at most until there are ``limit`` of them."""

    def __init__(
        self, journal: Journal, box: Box, results: Results, *, owner: str, seed: int, strategy: Strategy
    ) -> None:
        self.journal, self.box, self.results = journal, box, results
        self.owner, self.seed, self.strategy = owner, seed, strategy
        self.measure = strategy.resolved(use="Campaign", feeds=("labels",))
        self.sequence = EvenSequence(box, seed)
        self.n_checks = 0
        self.hedge: Hedge | None = None

    def ask(self, n: int, *, n_initial: int, limit: int | None = None, lease: float | None = None) -> list[Job]:
        """Up to ``n`` runs to make next; none when the budget is spent or S has no point left."""
        # Pending runs first, whose process is gone or whose lease is over.
        free = self.journal.take_over(n, self.owner, lease=lease)
        points = self.journal.numbers([x for _, x in free], self.box.n_features)
        jobs = list(zip([number for number, _ in free], points, strict=True))
        jobs += self._start(self._room(n - len(jobs), limit), n_initial, limit, lease)
        if self.n_checks and (n_open := self._room(n - len(jobs), limit)) > 0:
            with self.journal.transaction():
                jobs += self._add(self.check_points(self.n_checks), n_open, "check", lease)
        for _ in range(_TRIES):
            # The budget first: what it does not pay for need not be planned.
            if (n_open := self._room(n - len(jobs), limit)) > 0:
                # No lock is held while planning; two processes plan from different pools.
                points = self.next_points(n_open, self.journal.next_plan())
                with self.journal.transaction():
                    jobs += self._add(points, self._room(n_open, limit), "design", lease)
        return jobs

    def _room(self, n: int, limit: int | None) -> int:
        """How many of ``n`` runs the budget still allows."""
        if n <= 0 or limit is None:
            return max(0, n)
        return max(0, min(n, limit - self.journal.count_asked()))

    def _start(self, n: int, n_initial: int, limit: int | None, lease: float | None) -> list[Job]:
        """The next points of the Sobol start, the same for every caller; results told beforehand shorten it."""
        if n == 0:
            return []
        size = n_initial - int((self.results.origins() == "foreign").sum())
        if self.journal.count_asked("initial") >= size:
            return []
        start = self.box.sobol(n_initial, random_state=self.seed)[:size]
        with self.journal.transaction():
            # Every run of the start took at least one point of the sequence: those before are known.
            rest = start[self.journal.count_asked("initial") :]
            return self._add(rest, self._room(n, limit), "initial", lease)

    def check_points(self, n: int) -> FloatArray:
        """The first ``n`` check runs: independent draws, the same for every caller."""
        streams = (np.random.default_rng([self.seed, _CHECKS, i]) for i in range(n))
        return np.array([self.box.uniform(1, random_state=stream)[0] for stream in streams]).reshape(n, -1)

    def next_points(self, n: int, plan: int) -> FloatArray:
        """``n`` points for plan number ``plan``, clear of all other runs; fewer where S has not this many left."""
        generator = np.random.default_rng([self.seed, plan])
        runs = self.runs(generator)
        planned = plan_round(
            self.box, self.strategy, runs, n=n, number=plan, sequence=self.sequence, generator=generator
        )
        self.hedge = planned.hedge
        return planned.points

    def runs(self, generator: np.random.Generator) -> Runs:
        """All that the next round is planned from."""
        X, labels, origins, left_out = self.results.without_gaps()
        # By check runs nothing is placed.
        is_mapped = origins != "check"
        is_mapped[is_mapped] = mapped(X[is_mapped], self.box, generator)
        seen = Evaluated.at(self.box, X[is_mapped], labels[is_mapped])
        variation: FloatArray = np.empty(0)
        is_even = np.zeros(len(seen.X), dtype=bool)
        if len(seen.X) and self.measure is not None:
            variation = label_variation(self.measure, seen, n_neighbors=self.strategy.n_neighbors)
        if len(seen.X) and self.strategy.hedges:
            is_even = self.sequence.holds(X)[is_mapped]
        width = self.box.n_features
        pending, failed = (self.journal.points(state, width) for state in ("pending", "failed"))
        pending = np.vstack([pending, left_out])
        return Runs(seen, variation, is_even, others=X[~is_mapped], pending=pending, failed=failed)

    def _add(self, points: FloatArray, n: int, origin: str, lease: float | None) -> list[Job]:
        """Commit the first ``n`` of the points not asked for yet."""
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
        numbers = self.journal.add(chosen, origin=origin, owner=self.owner, lease=lease)
        return list(zip(numbers, chosen, strict=True))


def mapped(X: FloatArray, box: Box, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Which results are followed: all, some of many, none of too few."""
    if len(X) < 2 * (box.n_features + 1):
        return np.zeros(len(X), dtype=bool)
    if len(X) <= _MAPPED:
        return np.ones(len(X), dtype=bool)
    return np.isin(np.arange(len(X)), generator.choice(len(X), _MAPPED, replace=False))
