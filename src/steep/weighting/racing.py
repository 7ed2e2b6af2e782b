"""Racing: few candidates are tried on a few folds, and only those that are ahead go on.

A model that is fitted once per candidate is expensive, and most searches end with equal weights. So the search first
tries a coarse grid (about ten weightings: every measure and k, few ratios) and drops, after 2, 3 and 5 of 10 folds,
each weighting with

    t_c = mean_j d_cj / (sd_j d_cj / √J) ≤ 0, 1 and 1.5,      d_cj its score minus that of equal weights on fold j

A weighting needs t of about 3 on all folds to be chosen. When none is left and there is nothing else to decide, equal
weights are kept and the search ends. Ratios of the same measure, k and direction as a survivor are then added, on all
folds. Equal weights are never dropped, other controls only if they are behind. Linear models are solved for all
weightings of a fold at once: there all are tried, and after three tenths of the folds those with t ≤ −½ are dropped.

The bound that a candidate must exceed is that of the largest t of *all* candidates tried, those dropped included
(:func:`steep.evidence.weigh_evidence`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np

from steep._validation import FloatArray
from steep.evidence import student_t
from steep.weighting.candidates import EQUAL, WeightingCandidate

# Shares of the folds, and the t up to which a weighting is dropped after them.
_FITTED = ((0.2, 0.0), (0.3, 1.0), (0.5, 1.5))
_SOLVED = ((0.3, -0.5),)
# With fewer folds there is little to save.
_WORTHWHILE = 8
# Weightings that the coarse grid aims at.
_COARSE = 10

# Scores of some candidates on folds from … to, ``(n_candidates, n_folds, n_scorers)``.
Scored = Callable[[int, int, Sequence[int]], FloatArray]
# How many of some folds a budget still pays for, with these candidates on each.
Affordable = Callable[[int, Sequence[int]], int]


def race(
    candidates: Sequence[WeightingCandidate], n_folds: int, score: Scored, *, solved: bool, early: bool = True,
    n_scorers: int = 1, affordable: Affordable = lambda n_folds, candidates: n_folds,
) -> tuple[list[int], FloatArray]:  # fmt: skip
    """Candidates that were tried, and their scores ``(n_tried, n_folds, n_scorers)``, NaN once they were dropped.

    ``solved`` says that weightings cost next to nothing, ``early`` that candidates may be dropped before the last fold.
    Fewer folds are scored where no more are ``affordable``; two always have to be.
    """
    steps = (_SOLVED if solved else _FITTED) if early and n_folds >= _WORTHWHILE else ()
    running, done = list(range(len(candidates))) if solved or not steps else coarse(candidates), 0
    tried = set(running)
    seen, least = np.full((len(candidates), n_folds, n_scorers), np.nan), 0.0
    for share, least in steps:
        if (last := max(2, ceil(share * n_folds))) > done:
            paid = done + affordable(last - done, running)
            if paid > done:
                seen[running, done:paid] = score(done, paid, running)
            done = paid
            if paid < last:  # the budget has ended
                return sorted(tried), seen[sorted(tried), :done]
        running = still_running(candidates, seen[:, :done, 0], running, least)
        if running == [i for i in running if candidates[i].control == EQUAL]:  # nothing is left to decide
            return sorted(tried), seen[sorted(tried), :done]
    sides = {candidates[i].side for i in running if candidates[i].control is None}
    more = [i for i, c in enumerate(candidates) if c.control is None and c.side in sides and i not in tried]
    if more and affordable(done, more) == done:
        seen[more, :done] = score(0, done, more)
        tried |= set(more)
        running = still_running(candidates, seen[:, :done, 0], [*running, *more], least)
    last = done + affordable(n_folds - done, running)
    if last > done:
        seen[running, done:last] = score(done, last, running)
    return sorted(tried), seen[sorted(tried), :last]


def coarse(candidates: Sequence[WeightingCandidate]) -> list[int]:
    """The controls, and of every measure and k so few ratios that there are about ten weightings."""
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


def still_running(
    candidates: Sequence[WeightingCandidate], scores: FloatArray, running: Sequence[int], least: float
) -> list[int]:
    """Candidates worth scoring on more folds: equal weights, weightings whose t exceeds ``least``, controls ahead.

    ``scores`` are ``(n_candidates, n_folds)`` so far; only ``running`` rows are looked at.
    """
    kinds = [candidate.control for candidate in candidates]
    equal = kinds.index(EQUAL)
    t = student_t(scores[running] - scores[equal])
    bounds = [least if kinds[i] is None else min(least, 0.0) for i in running]
    is_ahead = dict(zip(running, t > bounds, strict=True))
    return [i for i in running if kinds[i] == EQUAL or is_ahead[i]]
