"""Racing: few candidates are tried on a few folds, and only those that are ahead go on.

A model that is fitted once per candidate is expensive, and most searches end with equal weights. So the search first
tries a coarse grid (about ten weightings: every measure and k, few ratios) and drops, after 2, 3 and 5 of 10 folds,
each weighting with

    t_c = mean_j d_cj / (sd_j d_cj / √J) ≤ 0, 1 and 1.5,      d_cj its score minus that of equal weights on fold j

A weighting needs t of about 3 on all folds to be chosen, so one that is still below these bounds has little chance.
When no weighting is left and there is nothing else to decide, equal weights are kept and the search ends. Ratios of
the same measure, k and direction as a survivor are then added, on all folds. Equal weights are never dropped, other
controls only if they are behind.

Linear models are solved for all weightings of a fold at once. There a candidate costs next to nothing: all are tried,
and after three tenths of the folds those with t ≤ −½ are dropped.

**The correction for many candidates stays.** The bound that a candidate must exceed is that of the largest t of *all*
candidates tried, those dropped included, with the differences they had taken again for the folds they missed
(:func:`steep.evidence.weigh_evidence`). ``python benchmarks/evidence.py null`` counts how often equal weights are given
up where nothing differs, with and without racing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from steep._validation import FloatArray
from steep.evidence import student_t
from steep.exceptions import InputError
from steep.weighting.candidates import EQUAL, WeightingCandidate

# Shares of the folds, and the t up to which a weighting is dropped after them.
_FITTED = ((0.2, 0.0), (0.3, 1.0), (0.5, 1.5))
_SOLVED = ((0.3, -0.5),)
# With fewer folds there is little to save.
_WORTHWHILE = 8
# Weightings that the coarse grid aims at.
_COARSE = 10

# Scores of some candidates on folds from … to, ``(n_candidates, n_folds, n_scorers)``; fits of some candidates on
# one fold, which is prepared first if it is new.
Scored = Callable[[int, int, Sequence[int]], FloatArray]
Cost = Callable[[Sequence[int], bool], int]


@dataclass(frozen=True)
class Raced:
    """Candidates that were scored and their scores, ``(n_tried, n_folds, n_scorers)``, NaN once they were dropped.

    ``n_fits`` is what this took, ``is_cut`` whether the budget ended before the race.
    """

    tried: list[int]
    scores: FloatArray
    n_fits: int
    is_cut: bool


class Race:
    """Scores candidates fold by fold.

    ``solved`` says that weightings cost next to nothing, ``early`` that candidates may be dropped before the last
    fold; ``cost`` counts the fits of some candidates on one fold, ``max_fits`` is what they may take.
    """

    def __init__(
        self,
        candidates: Sequence[WeightingCandidate],
        n_folds: int,
        *,
        solved: bool,
        cost: Cost,
        early: bool = True,
        max_fits: int | None = None,
    ) -> None:
        self.candidates, self.n_folds, self.cost, self.max_fits = candidates, n_folds, cost, max_fits
        steps = (_SOLVED if solved else _FITTED) if early and n_folds >= _WORTHWHILE else ()
        self.steps = [(max(2, ceil(share * n_folds)), least) for share, least in steps]
        everyone = list(range(len(candidates)))
        self.opening = everyone if solved or not self.steps else coarse(candidates)
        if max_fits is not None and max_fits < (needed := 2 * cost(self.opening, True)):
            raise InputError(
                f"max_fits={max_fits} is too few: two folds take {needed} fits; raise max_fits, or try fewer "
                "values of weight_ratio, n_neighbors or measure"
            )

    def most_fits(self) -> int:
        """Fits there can be at most."""
        most = self.n_folds * self.cost(range(len(self.candidates)), True)
        return most if self.max_fits is None else min(most, self.max_fits)

    def announcement(self) -> str:
        """What the search may cost, in words."""
        budget = "" if self.max_fits is None else f" (max_fits={self.max_fits})"
        least = f", and {self.steps[0][0] * self.cost(self.opening, True)} at least" if self.steps else ""
        return (
            f"VarianceWeightedCV: {len(self.candidates)} candidates on {self.n_folds} folds take "
            f"{self.most_fits()} fits at most{budget}{least}."
        )

    def run(self, score: Scored) -> Raced:
        """Score the candidates until the race is decided, or the budget ends."""
        running, tried, n_fits, done = self.opening, set(self.opening), 0, 0
        seen = np.full((len(self.candidates), self.n_folds, 0), np.nan)

        def add(first: int, last: int, rows: Sequence[int], is_new: bool) -> int:
            """Score as many folds as the budget allows; the fold it came to."""
            nonlocal seen, n_fits
            price = self.cost(rows, is_new)
            if self.max_fits is not None:
                last = min(last, first + (self.max_fits - n_fits) // max(price, 1))
            if last > first:
                found = score(first, last, rows)
                if not seen.shape[2]:
                    seen = np.full((*seen.shape[:2], found.shape[2]), np.nan)
                seen[rows, first:last] = found
                n_fits += (last - first) * price
            return last

        for number, (last, least) in enumerate(self.steps, start=1):
            reached = done if last <= done else add(done, last, running, True)
            is_cut, done = reached < last, reached
            if is_cut:
                return self._raced(tried, seen, done, n_fits, is_cut=True)
            running = still_running(self.candidates, seen[:, :done, 0], running, least)
            if is_settled(self.candidates, running):
                return self._raced(tried, seen, done, n_fits)
            if number == len(self.steps):
                more = [i for i in relatives(self.candidates, running) if i not in tried]
                if more and self._affords(more, done, n_fits) and add(0, done, more, False) == done:
                    tried |= set(more)
                    running = still_running(self.candidates, seen[:, :done, 0], [*running, *more], least)
        reached = add(done, self.n_folds, running, True)
        return self._raced(tried, seen, reached, n_fits, is_cut=reached < self.n_folds)

    def _affords(self, more: Sequence[int], done: int, n_fits: int) -> bool:
        return self.max_fits is None or n_fits + done * self.cost(more, False) <= self.max_fits

    def _raced(self, tried: set[int], seen: FloatArray, done: int, n_fits: int, *, is_cut: bool = False) -> Raced:
        rows = sorted(tried)
        return Raced(rows, seen[rows, :done], n_fits, is_cut)


def coarse(candidates: Sequence[WeightingCandidate]) -> list[int]:
    """The controls, and of every measure and k so few ratios that there are about ten weightings.

    Examples
    --------
    >>> from steep.measures import MEASURES
    >>> ratios = (0.01, 0.03, 0.1, 0.3, 3, 10, 40, 100)
    >>> grid = [WeightingCandidate(MEASURES["misfit"], k, r) for k in (1, 5) for r in ratios]
    >>> [grid[i].weight_ratio for i in coarse(grid)[:6]]
    [0.03, 0.1, 0.3, 3, 10, 40]
    """
    sides: dict[object, list[int]] = {}
    for number, candidate in enumerate(candidates):
        if candidate.control is None:
            sides.setdefault(candidate.side, []).append(number)
    n_each = max(1, int(_COARSE / max(len(sides), 1) + 0.5))
    kept = {number for places in sides.values() for number in _spread(candidates, places, n_each)}
    return [i for i, candidate in enumerate(candidates) if candidate.control is not None or i in kept]


def _spread(candidates: Sequence[WeightingCandidate], places: Sequence[int], n: int) -> list[int]:
    """``n`` ratios of one direction, spread from those next to 1 outwards; the farthest only where all are taken."""
    ordered = sorted(places, key=lambda i: abs(np.log(candidates[i].weight_ratio)))
    if n >= len(ordered):
        return ordered
    return [ordered[int((i + 0.5) * (len(ordered) - 1) / n)] for i in range(n)]


def relatives(candidates: Sequence[WeightingCandidate], running: Sequence[int]) -> list[int]:
    """Weightings of the same measure, k and direction as one that is still running."""
    sides = {candidates[i].side for i in running if candidates[i].control is None}
    return [i for i, c in enumerate(candidates) if c.control is None and c.side in sides]


def still_running(
    candidates: Sequence[WeightingCandidate], scores: FloatArray, running: Sequence[int], least: float
) -> list[int]:
    """Candidates worth scoring on more folds: equal weights, and others whose t exceeds ``least``.

    Controls are few and cheap: they go on while they are ahead. ``scores`` are ``(n_candidates, n_folds)`` so far; only
    ``running`` rows are looked at.
    """
    kinds = [candidate.control for candidate in candidates]
    equal = kinds.index(EQUAL)
    t = student_t(scores[running] - scores[equal])
    bounds = [least if kinds[i] is None else min(least, 0.0) for i in running]
    is_ahead = dict(zip(running, t > bounds, strict=True))
    return [i for i in running if kinds[i] == EQUAL or is_ahead[i]]


def is_settled(candidates: Sequence[WeightingCandidate], running: Sequence[int]) -> bool:
    """Whether nothing is left to decide: only equal weights are left."""
    return len(running) == 1 and candidates[running[0]].control == EQUAL
