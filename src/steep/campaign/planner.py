"""Where the next runs come from: runs of dead processes, then the start, then the plan.

The plan is that of :func:`steep.design`: a :class:`VariationSampler` with the same choices, and as many points of the
Sobol sequence as the evidence asks for, fed from the journal. It is a function of the journal and the number of the
plan alone, so a campaign that was killed plans as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.campaign.journal import Journal
from steep.campaign.results import Results
from steep.campaign.schema import DEFAULT
from steep.domain import Box
from steep.measures import Measure
from steep.measures.surprise import standardised
from steep.sampling import VariationSampler
from steep.sampling.design import Recipe
from steep.sampling.evaluated import Evaluated, label_variation
from steep.sampling.even import EvenSequence
from steep.sampling.hedge import Hedge, choose_share, domain_points, split
from steep.sampling.lengths import stretch
from steep.sampling.quick import length_scale
from steep.sampling.relevance import axis_relevance
from steep.sampling.safety import safety
from steep.sampling.sampler import usual_draw

# A run to make: its number in the journal, and its point.
Job = tuple[int, FloatArray]

# Plans made for one call when other processes take its points away.
_TRIES = 3
# The map of variation is drawn from at most this many points: asking stays fast with a million told.
_MAPPED = 2048


class Planner:
    """Commits runs as pending in the name of ``owner``, at most until there are ``limit`` of them."""

    def __init__(
        self, journal: Journal, box: Box, results: Results, *, owner: str, seed: int, measure: Measure
    ) -> None:
        self.journal, self.box, self.results = journal, box, results
        self.owner, self.seed, self.measure = owner, seed, measure
        self.sequence = EvenSequence(box, seed)

    def ask(self, n: int, *, n_initial: int, limit: int | None = None, lease: float | None = None) -> list[Job]:
        """Up to ``n`` runs to make next; none when the budget is spent or S has no point left.

        Until the time ``lease``, if there is one, they are nobody else's, whatever becomes of this process.
        """
        jobs = self._reclaim(n, lease)
        jobs += self._start(self._room(n - len(jobs), limit), n_initial, limit, lease)
        for _ in range(_TRIES):
            # The budget first: what it does not pay for need not be planned.
            if (n_open := self._room(n - len(jobs), limit)) > 0:
                jobs += self._planned(n_open, limit, lease)
        return jobs

    def _room(self, n: int, limit: int | None) -> int:
        """How many of ``n`` runs the budget still allows."""
        if n <= 0 or limit is None:
            return max(0, n)
        return max(0, min(n, limit - self.journal.count_asked()))

    def _reclaim(self, n: int, lease: float | None) -> list[Job]:
        """Take over pending runs whose process is gone, or whose lease is over."""
        free = self.journal.take_over(n, self.owner, lease=lease)
        points = self.journal.numbers([x for _, x in free], self.box.n_features)
        return list(zip([number for number, _ in free], points, strict=True))

    def _start(self, n: int, n_initial: int, limit: int | None, lease: float | None) -> list[Job]:
        """The next points of the Sobol start, the same whoever asks; results told beforehand shorten it."""
        if n == 0:
            return []
        size = n_initial - self.results.n_foreign()
        if self.journal.count_asked("initial") >= size:
            return []
        start = self.box.sobol(n_initial, random_state=self.seed)[:size]
        with self.journal.transaction():
            # Every run of the start took at least one point of the sequence: those before are known.
            rest = start[self.journal.count_asked("initial") :]
            return self._add(rest, self._room(n, limit), "initial", lease)

    def _planned(self, n: int, limit: int | None, lease: float | None) -> list[Job]:
        plan = self.journal.next_plan()
        X, labels, left_out = self.results.without_gaps()
        width = self.box.n_features
        occupied, failed = (self.journal.points(state, width) for state in ("pending", "failed"))
        occupied = np.vstack([occupied, left_out])
        # No lock is held while planning; two processes plan from different pools.
        points = next_points(
            self.box, X, labels, measure=self.measure, occupied=occupied, failed=failed, n=n,
            seed=[self.seed, plan], sequence=self.sequence,
        )  # fmt: skip
        with self.journal.transaction():
            return self._add(points, self._room(n, limit), "design", lease)

    def _add(self, points: FloatArray, n: int, origin: str, lease: float | None) -> list[Job]:
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
        numbers = self.journal.add(chosen, origin=origin, owner=self.owner, lease=lease)
        return list(zip(numbers, chosen, strict=True))


def next_points(
    box: Box,
    X: FloatArray,
    labels: FloatArray,
    *,
    measure: Measure,
    occupied: FloatArray,
    failed: FloatArray,
    n: int,
    seed: list[int],
    sequence: EvenSequence,
) -> FloatArray:
    """Choose ``n`` points of S: where labels vary, clear of what is there, in flight or failing.

    With the default measure only as many as the results say that it pays; the others go on with the Sobol sequence.

    Parameters
    ----------
    box : Box
        S.
    X, labels : ndarray of shape (n_told, n_features) and (n_told, n_outputs)
        Results so far, inside S.
    measure : Measure
        What counts as variation.
    occupied, failed : ndarray of shape (n_points, n_features)
        Points in flight, and points that failed for good.
    n : int
        How many; fewer where S has not so many points left.
    seed : list of int
        Seed of the campaign and number of the plan.
    sequence : EvenSequence
        The Sobol sequence of the start.
    """
    generator = np.random.default_rng(seed)
    n_coordinates = box.embed(np.zeros((1, box.n_features))).shape[1]
    draw = usual_draw(n_coordinates, seed[-1]) if measure.name == DEFAULT else Recipe.draw
    sampler = VariationSampler(
        box, density=Recipe.density, draw=draw, temper=Recipe.temper, floor=Recipe.floor, random_state=generator,
    )  # fmt: skip
    is_mapped = _mapped(X, box, generator)
    seen = _evaluated(box, X[is_mapped], labels[is_mapped])
    variation: FloatArray = np.empty(0)
    scale: FloatArray | None = None
    length: float | None = None
    if len(seen.X):
        variation, scale = label_variation(measure, seen), axis_relevance(seen.coordinates, seen.labels)
    even, trust = X[:0], _trust(box, X, failed, generator) if len(failed) else None
    if len(seen.X) and measure.name == DEFAULT:
        scale, length = stretch(seen.coordinates, seen.labels)
        is_even, domain = sequence.holds(X)[is_mapped], domain_points(box, sequence) * scale
        hedge = choose_share(seen.coordinates * scale, seen.labels, is_even, domain, generator)
        parts = split(n, hedge.share, number=seed[-1], n_coordinates=len(scale), n_runs=len(X))
        sampler.floor = Recipe.floor if parts.floor is None else parts.floor
        even = sequence.after(parts.n_even, taken=np.vstack([X, occupied, failed]), trust=trust)
        if sampler.draw == "doubt":
            length = length or length_scale(seen.coordinates * scale, standardised(seen.labels))
    if len(even) == n:
        return even
    if not variation.any():  # nothing to follow yet: an even spread
        is_mapped, variation = np.zeros(len(X), dtype=bool), variation[:0]
        seen = _evaluated(box, X[:0], labels[:0])
    sampler.fit_unit(
        seen.unit, seen.coordinates, variation, scale=scale,
        occupied=_embedded(box, np.vstack([X[~is_mapped], occupied, failed, even])),
        trust=trust, length=length,
    )  # fmt: skip
    unit = sampler.sample_unit(n - len(even), fewer=True)
    return np.vstack([even, box.from_unit(unit)]) if len(unit) else even


def present_hedge(box: Box, X: FloatArray, labels: FloatArray, sequence: EvenSequence, seed: int) -> Hedge:
    """What the results so far say about placing more."""
    generator = np.random.default_rng(seed)
    is_mapped = _mapped(X, box, generator)
    seen = _evaluated(box, X[is_mapped], labels[is_mapped])
    if not len(seen.X):
        return Hedge(0.0, f"{len(X)} results are too few to compare: the next runs are even, as Sobol's.", {})
    scale, _ = stretch(seen.coordinates, seen.labels)
    is_even, domain = sequence.holds(X)[is_mapped], domain_points(box, sequence) * scale
    return choose_share(seen.coordinates * scale, seen.labels, is_even, domain, generator)


def _mapped(X: FloatArray, box: Box, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Which results the map of variation is drawn from: all, some of many, none of too few."""
    if len(X) < 2 * (box.n_features + 1):
        return np.zeros(len(X), dtype=bool)
    is_mapped = np.ones(len(X), dtype=bool)
    if len(X) > _MAPPED:
        is_mapped[:] = False
        is_mapped[generator.choice(len(X), _MAPPED, replace=False)] = True
    return is_mapped


def _evaluated(box: Box, X: FloatArray, labels: FloatArray) -> Evaluated:
    return Evaluated.at(box, X, labels) if len(X) else Evaluated(X, X, _embedded(box, X), labels)


def _embedded(box: Box, X: FloatArray) -> FloatArray:
    """Points in the coordinates distances are taken in; one far outside S only has to stay outside."""
    if not len(X):
        return box.embed(np.zeros((1, box.n_features)))[:0]
    return box.embed(np.clip(box.unit(X), -1e6, 1e6))


def _trust(
    box: Box, X: FloatArray, failed: FloatArray, generator: np.random.Generator
) -> Callable[[FloatArray], FloatArray]:
    """How far to trust a candidate by the runs around it; of very many runs an equal share of both kinds judges."""
    share = min(1.0, _MAPPED / (len(X) + len(failed)))
    if share < 1:
        X, failed = (part[generator.random(len(part)) < share] for part in (X, failed))
    return safety(box, _embedded(box, X), _embedded(box, failed))
