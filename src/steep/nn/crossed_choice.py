"""Which head, and what the choice is worth: made on some of the held-out samples, scored on the others.

The best of a hundred heads on the held-out samples looks better there than it is. So the whole choice is repeated on
four fifths of the samples and scored on the last fifth, five times over:

    a_i = answer to sample i of the head chosen without the fold of i

a_i has seen nothing of sample i, so its score needs no correction for the number of heads. The choice takes the best
head, or for accuracies of groups and classes the mean of two where that is better still (of the best few, each with
every other). The same is done among the equal-weight heads. A choice counts when its a beats that of its control by
the evidence of :mod:`steep.evidence`: all heads against equal weights, and what is left against the original head.
What is joined is the choice made on all samples; what is reported is the gain of a, less what a gain is too high on
average because only significant ones are reported (:meth:`steep.evidence.Evidence.stated`).

The original head is kept as well where the samples cannot tell: the interval is wider than the range of the score, or
the gain rests on so few samples that equal heads would often be as far apart. If n samples speak for the new head and
none against it, equal heads show that, or the opposite, with probability 2^(1 − n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log2

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.evidence import Evidence, weigh_evidence, weigh_resamples
from steep.metrics import Interval
from steep.nn.blends import blend, blended, blended_answers, may_blend
from steep.nn.candidates import Training, Trial
from steep.nn.head_search import Kind, Search, best_of_kinds
from steep.nn.heads import Head
from steep.nn.scoring import Array, CellScore, MeanScore, WholeScore

Rows = npt.NDArray[np.intp]
_N_FOLDS = 5
# Heads that are blended with every other: the best ones. Settled on development networks (benchmarks/groups.py).
_N_STARTS = 16
# The confidence of every interval that is reported.
REPORTED = 0.95
_UNKNOWN = Interval(np.nan, np.nan, np.nan, 0)


@dataclass(frozen=True)
class Choice:
    """The candidate chosen, and the evidence for it.

    Attributes
    ----------
    chosen : int
        Number of the candidate; 0 is the original head.
    best : dict
        Number of the best candidate of each kind.
    gain : Interval
        Gain over the original head of the choice, on samples it was not made by; of the choice that did not count
        where the original head is kept. NaN where the original head's scores are not finite.
    retraining : float
        The part of that gain which equal weights have too.
    rows : dict of int to Interval
        Gain of the best candidates on the samples that they were chosen by.
    doubt : str or None
        Why the samples cannot tell whether a head is better.
    is_beaten : bool
        Whether any head, or mean of two, scores higher than the original one on all samples.
    outputs : ndarray or None
        Outputs of the choice for each sample, by the head chosen without its fold: what other scores are measured by.
        None where the original head is kept or the samples were not given.
    """

    chosen: int
    best: dict[Kind, int]
    gain: Interval
    retraining: float
    rows: dict[int, Interval]
    doubt: str | None = None
    is_beaten: bool = True
    outputs: FloatArray | None = None


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

    def __init__(self, search: Search, parts: list[Rows], trial: Trial | None, training: Training | None) -> None:
        self.search, self.kept = search, search.kept
        self.values = [self._values(self.kept, rows) for rows in parts]
        self.parts, self.pairs = parts, dict[int, Array]()
        if trial is not None and training is not None:
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

    def picks(self, kinds: tuple[str, ...]) -> list[Pick]:
        """The best of these kinds by the samples of each part."""
        return [self.pick(number, kinds) for number in range(len(self.parts))]

    def answers(self, pick: Pick) -> Array:
        """What the score knows of the pick, sample by sample."""
        found: Array = self.kept[pick.one] if pick.other is None else self.pairs[pick.one][pick.other]
        return found

    def _values(self, kept: Array, rows: Rows) -> FloatArray:
        return self.search.scores[0].part(rows).values(kept[:, rows])

    def _is_of(self, kinds: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        return np.array([candidate.kind in kinds for candidate in self.search.candidates])

    def _starts(self, values: FloatArray) -> list[int]:
        order = np.argsort(-values[1:], kind="stable")[:_N_STARTS] + 1
        return [int(i) for i in order if np.isfinite(values[i])]

    def _partners(self, start: int) -> npt.NDArray[np.bool_]:
        own = self.search.candidates[start]
        return np.array([may_blend(own, other) for other in self.search.candidates])


def choose_head(
    search: Search,
    trial: Trial | None,
    training: Training | None,
    *,
    confidence: float,
    blends: bool = False,
    random_state: int = 0,
) -> tuple[Search, Choice]:
    """Choose by the deciding score; the search is returned with the blended head, if one was picked, as its last.

    Parameters
    ----------
    search : Search
        The candidates, the original head first.
    trial, training
        Where they were scored, and what they were fitted to; None where means of two heads are not tried.
    confidence : float
        The original head is replaced if the interval of the gain at this confidence excludes zero.
    blends : bool, default False
        Whether means of two heads are tried.
    random_state : int, default 0
        Seed of the folds and of the evidence.
    """
    generator = np.random.default_rng(random_state)
    score, original = search.scores[0], search.kept[0]
    fold = _deal(score, generator)
    parts = [np.arange(len(fold)), *(np.flatnonzero(fold != number) for number in range(_N_FOLDS))]
    picker = Picker(search, parts, trial if blends else None, training)
    equal, found = (picker.picks(kinds) for kinds in (("equal",), ("equal", "weighted")))
    crossed_equal, crossed = (_crossed([picker.answers(pick) for pick in picks], fold) for picks in (equal, found))
    top = float(score.values(picker.answers(found[0])[None])[0])
    best = best_of_kinds(search.candidates, search.values[0])
    shown = sorted({number for number in best.values() if number})
    answers = np.stack([original, crossed_equal, crossed, *search.kept[shown]])
    judge = _Judge(score, answers, confidence, generator)
    number = 2
    if not judge.is_sure(judge.evidence([2], 1)):
        found, number = equal, 1
    choice = replace(_concluded(judge, number, found[0].one, best, shown), is_beaten=top > float(judge.values[0]))
    if not choice.chosen or trial is None or training is None:
        return search, choice
    outputs = [_head(search, pick, training).outputs(trial.held_out.features) for pick in found]
    choice = replace(choice, outputs=_crossed(outputs, fold))
    if found[0].other is None:
        return search, choice
    search = _with_blend(search, found[0], trial, training)
    return search, replace(choice, chosen=len(search.candidates) - 1)


def _concluded(judge: _Judge, number: int, picked: int, best: dict[Kind, int], shown: list[int]) -> Choice:
    """Whether the candidate picked, whose crossed answers are row ``number``, replaces the original head."""
    if not np.isfinite(judge.values[0]):
        return Choice(picked, best, _UNKNOWN, np.nan, dict.fromkeys(shown, _UNKNOWN))
    evidence = judge.evidence([number], 0)
    doubt = judge.doubt(evidence, number)
    is_better = doubt is None and judge.is_sure(evidence)
    gain = judge.bounded(evidence.stated(0) if is_better else evidence.interval(0))
    observed = float(evidence.gains[0])
    retraining = gain.mean * float(judge.values[1] - judge.values[0]) / observed if observed else 0.0
    together = judge.evidence(list(range(3, 3 + len(shown))), 0)
    rows = {candidate: judge.bounded(together.interval(i)) for i, candidate in enumerate(shown)}
    return Choice(picked if is_better else 0, best, gain, retraining, rows, doubt)


class _Judge:
    """Weighs rows of answers against each other, by pairs or by resamples as the score asks.

    The first row is the original head, the second and third are the crossed choices among equal-weight heads and all.
    """

    def __init__(self, score: MeanScore, answers: Array, confidence: float, generator: np.random.Generator) -> None:
        self.score, self.answers, self.confidence, self.generator = score, answers, confidence, generator
        self.values, self.units = score.values(answers), score.units(answers)
        self.drawn: FloatArray | None = None
        if self.units is None:
            assert isinstance(score, CellScore | WholeScore)
            self.drawn = score.resamples(answers, generator)
        # Both ends of an interval count, one end of it decides.
        self.one_sided = (1 + confidence) / 2
        self.fewest = ceil(1 - log2(max(1 - confidence, 1e-12)))

    def evidence(self, rows: list[int], control: int) -> Evidence:
        """Evidence for rows of answers; nothing is gained by a head that gives no numbers."""
        with np.errstate(invalid="ignore"):
            gains = self.values[rows] - self.values[control]
            table = self.units if self.drawn is None else self.drawn
            assert table is not None
            differences = table[rows] - table[control]
        broken = ~np.isfinite(gains) | ~np.isfinite(differences).all(axis=1)
        gains[broken], differences[broken] = 0.0, 0.0
        if self.drawn is None:
            return weigh_evidence(differences, 0.0, self.one_sided, self.generator)
        return weigh_resamples(gains, differences, self.answers.shape[1], 0.0, self.one_sided)

    def is_sure(self, evidence: Evidence) -> bool:
        """Whether a gain is significant; at the confidence that is reported, by the interval that is."""
        is_clear = self.confidence < REPORTED or evidence.interval(0).low > 0
        return bool(evidence.counts[0]) and is_clear

    def doubt(self, evidence: Evidence, row: int) -> str | None:
        """Why the samples cannot tell whether a gain is one; None where they can."""
        if evidence.gains[0] <= 0:
            return None
        n_for = self.score.n_for(self.answers[row], self.answers[0])
        if n_for < self.fewest:
            samples = "1 sample" if n_for == 1 else f"{n_for} samples"
            return f"the gain of the best one rests on {samples}, and at least {self.fewest} are needed"
        low, high = self.score.bounds
        interval = evidence.interval(0)
        if interval.high - interval.low > high - low:
            return "the interval of the gain is wider than the range of the score"
        return None

    def bounded(self, gain: Interval) -> Interval:
        """A gain over the original head, within what the score can gain and lose."""
        low, high = (bound - self.values[0] for bound in self.score.bounds)
        return replace(gain, low=max(gain.low, low), high=min(gain.high, high))


def _crossed(answers: Sequence[Array], fold: Rows) -> Array:
    """a: for each sample the answer of the pick made without its fold; the first pick was made by all samples."""
    crossed = answers[0].copy()
    for number, own in enumerate(answers[1:]):
        rows = np.flatnonzero(fold == number)
        crossed[rows] = own[rows]
    return crossed


def _head(search: Search, pick: Pick, training: Training) -> Head:
    one = search.heads[search.candidates[pick.one]]
    if pick.other is None:
        return one
    return blend(one, search.heads[search.candidates[pick.other]], training.task)


def _deal(score: MeanScore, generator: np.random.Generator) -> Rows:
    """Fold of every sample, dealt at random within its stratum; −1 for one that no part may lack."""
    strata, n_dealt = score.strata, 0
    fold = np.empty(len(strata), dtype=np.intp)
    for stratum in np.unique(strata):
        rows = generator.permutation(np.flatnonzero(strata == stratum))
        if len(rows) == 1 and isinstance(score, WholeScore):  # scorers of scikit-learn's need every class
            fold[rows] = -1
            continue
        fold[rows] = (n_dealt + np.arange(len(rows))) % _N_FOLDS
        n_dealt += len(rows)
    return fold


def _with_blend(search: Search, pick: Pick, trial: Trial, training: Training) -> Search:
    """The search with the blended head behind its other candidates."""
    assert pick.other is not None
    pair = search.candidates[pick.one], search.candidates[pick.other]
    head = _head(search, pick, training)
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
