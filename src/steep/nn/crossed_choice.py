"""Choosing a head by the accuracy of cells, and what the choice is worth: made on some samples, scored on others.

The best of hundreds of heads on the validation samples flatters itself there, and a bound that holds for all of them
at once asks so much evidence that more candidates may end in a worse choice. So the whole choice is made anew on four
fifths of the samples of every cell, and scored on the last fifth, five times over:

    a_i = answer to sample i of the head chosen without the fold of i

a_i has seen nothing of sample i. Its score needs no correction for the number of heads, whatever the choice does: here
it takes the best head, or the mean of two where that is better still (of the best few, each with every other). The
same is done among the equal-weight heads. A choice counts when its a beats that of its control by the evidence of
resamples (:func:`steep.evidence.weigh_resamples`, of one candidate): all heads against equal weights, and what is left
against the original head. What is joined is the choice made on all samples; what is reported is the gain of a.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.evidence import Evidence, weigh_resamples
from steep.nn.blends import blend, blended, blended_answers, can_blend, may_blend
from steep.nn.candidates import Training, Trial
from steep.nn.head_search import Choice, Search, best_of_kinds, evidence_against_original
from steep.nn.scoring import Array, CellScore

Rows = npt.NDArray[np.intp]
_N_FOLDS = 5
# Heads that are blended with every other: the best ones. Settled on development networks (benchmarks/groups.py).
_N_STARTS = 16


@dataclass(frozen=True)
class Pick:
    """The best candidate, and the one it is blended with if that is better still."""

    one: int
    other: int | None = None


class Picker:
    """Picks among the candidates of a search by some of the samples.

    Parameters
    ----------
    search : Search
        Candidates, the original head first, and their answers.
    parts : sequence of ndarray of int
        The samples of each pick that will be asked for.
    trial, training
        Where the heads were scored; None where they are not blended.
    """

    def __init__(self, search: Search, parts: list[Rows], trial: Trial | None, training: Training) -> None:
        self.search, self.kept = search, search.kept
        self.values = [self._values(self.kept, rows) for rows in parts]
        self.parts, self.pairs = parts, dict[int, Array]()
        if trial is not None:
            starts = sorted({start for values in self.values for start in self._starts(values)})
            heads = [search.heads[candidate] for candidate in search.candidates]
            self.pairs = blended_answers(heads, starts, trial.held_out, training.task, search.scores[0])

    def pick(self, number: int, kinds: tuple[str, ...]) -> Pick:
        """The best of these kinds by the samples of a part, the first of equals."""
        values = np.where(self._is_of(kinds), self.values[number], -np.inf)
        one = int(np.argmax(values))
        best, found = values[one], Pick(one)
        if "weighted" not in kinds:
            return found
        for start in self._starts(self.values[number]) if self.pairs else ():
            pair_values = self._values(self.pairs[start], self.parts[number])
            pair_values[~self._partners(start)] = -np.inf
            other = int(np.argmax(pair_values))
            if pair_values[other] > best:
                best, found = pair_values[other], Pick(start, other)
        return found

    def answers(self, pick: Pick) -> Array:
        """What the score knows of the pick, sample by sample."""
        found: Array = self.kept[pick.one] if pick.other is None else self.pairs[pick.one][pick.other]
        return found

    def _values(self, kept: Array, rows: Rows) -> FloatArray:
        score: Any = self.search.scores[0]
        part = replace(score, targets=score.targets[rows], cells=score.cells[rows])
        found: FloatArray = part.values(kept[:, rows])
        return found

    def _is_of(self, kinds: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        return np.array([candidate.kind in kinds for candidate in self.search.candidates])

    def _starts(self, values: FloatArray) -> list[int]:
        order = np.argsort(-values[1:], kind="stable")[:_N_STARTS] + 1
        return [int(i) for i in order if np.isfinite(values[i])]

    def _partners(self, start: int) -> npt.NDArray[np.bool_]:
        own = self.search.candidates[start]
        return np.array([may_blend(own, other) for other in self.search.candidates])


def choose_crossed(
    search: Search,
    trials: list[Trial],
    training: Training,
    *,
    blends: bool,
    confidence: float,
    test_ratio: float = 0.0,
    random_state: int = 0,
) -> tuple[Search, Choice]:
    """Choose by cells; the search is returned with the blended head among its candidates where one was picked.

    Parameters
    ----------
    search : Search
        The candidates, the original head first; its deciding score is one of cells.
    trials, training
        Where they were scored, and what they were fitted to.
    blends : bool
        Whether means of two heads are tried; they need heads scored on held-out samples once.
    confidence, test_ratio, random_state
        See :func:`steep.nn.head_search.choose`; the seed is that of the folds and the resamples.
    """
    generator = np.random.default_rng(random_state)
    fold = _deal(_cells(search), generator)
    parts = [np.arange(len(fold)), *(np.flatnonzero(fold != number) for number in range(_N_FOLDS))]
    can = blends and len(trials) == 1 and can_blend(training.task, training.original)
    picker = Picker(search, parts, trials[0] if can else None, training)
    original = search.kept[0]

    def compared(answers: Array, control: Array) -> Evidence:
        return _compare(search, np.stack([control, answers]), test_ratio, confidence, generator)

    def is_better(answers: Array) -> bool:
        return not np.isfinite(search.values[0][0]) or bool(compared(answers, original).counts[0])

    equal, crossed_equal = _crossed(picker, fold, ("equal",))
    found, crossed = _crossed(picker, fold, ("equal", "weighted"))
    if not (compared(crossed, crossed_equal).counts[0] and is_better(crossed)):
        found, crossed = equal, crossed_equal
        if not is_better(crossed):
            found = Pick(0)
    if found.other is not None:
        search = _with_blend(search, found, trials[0], training)
    chosen = found.one if found.other is None else len(search.candidates) - 1
    evidence = evidence_against_original(search, confidence, test_ratio, generator)
    gain = compared(crossed, original).interval(0) if chosen and evidence is not None else None
    return search, Choice(chosen, best_of_kinds(search.candidates, search.values[0]), evidence, gain)


def _crossed(picker: Picker, fold: Rows, kinds: tuple[str, ...]) -> tuple[Pick, Array]:
    """The pick by all samples, and a: for each sample the answer of the pick made without its fold."""
    picked = picker.pick(0, kinds)
    answers = picker.answers(picked).copy()
    for number in range(_N_FOLDS):
        rows = np.flatnonzero(fold == number)
        answers[rows] = picker.answers(picker.pick(1 + number, kinds))[rows]
    return picked, answers


def _cells(search: Search) -> npt.NDArray[np.int64]:
    score = search.scores[0]
    assert isinstance(score, CellScore)
    return score.cells


def _deal(cells: npt.NDArray[np.int64], generator: np.random.Generator) -> Rows:
    """Fold of every sample, dealt at random within its cell."""
    fold = np.empty(len(cells), dtype=np.intp)
    for cell in np.unique(cells):
        rows = generator.permutation(np.flatnonzero(cells == cell))
        fold[rows] = np.arange(len(rows)) % _N_FOLDS
    return fold


def _compare(
    search: Search, kept: Array, test_ratio: float, confidence: float, generator: np.random.Generator
) -> Evidence:
    """Evidence for the second row of answers against the first."""
    score: Any = search.scores[0]
    values, drawn = score.values(kept), score.resamples(kept, generator)
    with np.errstate(invalid="ignore"):
        gains, resampled = values[1:] - values[0], drawn[1:] - drawn[0]
    if not (np.isfinite(gains).all() and np.isfinite(resampled).all()):
        gains, resampled = np.zeros_like(gains), np.zeros_like(resampled)
    return weigh_resamples(gains, resampled, kept.shape[1], test_ratio, confidence)


def _with_blend(search: Search, pick: Pick, trial: Trial, training: Training) -> Search:
    """The search with the blended head behind its other candidates."""
    assert pick.other is not None
    pair = search.candidates[pick.one], search.candidates[pick.other]
    head = blend(search.heads[pair[0]], search.heads[pair[1]], training.task)
    outputs, everyone = head.outputs(trial.held_out.features), np.arange(len(trial.held_out))
    rows = [score.keep(outputs, everyone) for score in search.scores]
    values = [score.values(row[None]) for score, row in zip(search.scores, rows, strict=True)]
    candidate = blended(*pair)
    return replace(
        search,
        candidates=[*search.candidates, candidate],
        values=np.hstack([search.values, np.array(values)]),
        kept=np.concatenate([search.kept, rows[0][None]]),
        heads=search.heads | {candidate: head},
    )
