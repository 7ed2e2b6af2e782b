"""Which head, and what the choice is worth: made on some of the held-out samples, scored on the others.

The best of a hundred heads on the held-out samples looks better there than it is. So the whole choice is repeated on
four fifths of the samples and scored on the last fifth, five times over:

    a_i = answer to sample i of the head chosen without the fold of i

a_i has seen nothing of sample i, so its score needs no correction for the number of heads. The choice takes the best
head, or for accuracies of groups and classes the mean of two if that is better still (of the best few, each with
every other). The same is done among the equal-weight heads. A choice counts if its a beats that of its control by
the evidence of :mod:`steep.evidence`: all heads against equal weights, and what is left against the original head.
What is joined is the choice made on all samples; what is reported is the gain of a, less what a gain is too high on
average because only significant ones are reported (:meth:`steep.evidence.Evidence.stated`).

The original head is also kept if the samples cannot tell: the interval is wider than the range of the score, or
the gain rests on so few samples that equal heads would often be as far apart. If n samples speak for the new head and
none against it, equal heads show that, or the opposite, with probability 2^(1 − n).

The mean of two heads, between one that follows a shortcut and one that turned against it:

    W = √(s_a s_b)/2 (W_a/s_a + W_b/s_b),      s = ‖W‖,      and b in the same way

Both heads count the same, whatever the penalty made of their size. Only differences between the outputs of a softmax
count, so the mean over the classes is first subtracted from W and b. The mean of two linear layers is a linear layer.
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
from steep.nn.candidates import FittedHead, HeadCandidate, ScoredHeads
from steep.nn.heads import Head, HeadTask
from steep.nn.scores import Array, CellScore, MeanScore, WholeScore

Rows = npt.NDArray[np.intp]
_N_FOLDS = 5
# Heads that are blended with every other: the best ones. Settled on development networks (benchmarks/groups.py).
_N_STARTS = 16
# The confidence of every interval that is reported.
REPORTED = 0.95
_UNKNOWN = Interval(np.nan, np.nan, np.nan, 0)


@dataclass(frozen=True)
class Choice:
    """The head chosen (its number, 0 for the original one), and the evidence for it.

    ``gain`` over the original head is measured on samples the choice was not made by, NaN if the original head's
    scores are not finite; ``retraining`` is the part of it that equal weights have too; ``rows`` are the gains of the
    best head of each row of the table on the samples it was chosen by; ``doubt`` is why the samples cannot tell.
    ``is_beaten`` says whether any head, or mean of two, scores higher than the original one on all samples.
    ``outputs`` are those of the choice for each sample, by the head chosen without its fold.
    """

    chosen: int
    gain: Interval
    retraining: float
    rows: dict[int, Interval]
    doubt: str | None = None
    is_beaten: bool = True
    outputs: FloatArray | None = None


def choose_head(
    found: ScoredHeads, *, confidence: float, blends: bool = False, random_state: int = 0
) -> tuple[ScoredHeads, Choice]:
    """Choose by the deciding score; a blended head that was chosen is returned as the last of the heads."""
    generator = np.random.default_rng(random_state)
    score = found.scores[0]
    fold = _deal(score, generator)
    parts = [np.arange(len(fold)), *(np.flatnonzero(fold != number) for number in range(_N_FOLDS))]
    picker = _Picker(found, parts, blends=blends)
    equal, picked = picker.picks("equal"), picker.picks("equal", "weighted")
    crossed_equal, crossed = (_crossed([picker.answers(*pick) for pick in picks], fold) for picks in (equal, picked))
    top = float(score.values(picker.answers(*picked[0])[None])[0])
    shown = sorted({number for number in found.best().values() if number})
    answers = np.stack([picker.kept[0], crossed_equal, crossed, *picker.kept[shown]])
    judge = _Judge(score, answers, confidence, generator)
    row = 2
    if not judge.is_sure(judge.evidence([2], 1)):
        picked, row = equal, 1
    one, other = picked[0]
    choice = replace(_concluded(judge, row, one, shown), is_beaten=top > float(judge.values[0]))
    if not choice.chosen:
        return found, choice
    outputs = [picker.fitted(*pick).head.outputs(found.held_out.features) for pick in picked]
    choice = replace(choice, outputs=_crossed(outputs, fold))
    if other is None:
        return found, choice
    blended = found.scored(picker.fitted(one, other))
    return replace(found, heads=[*found.heads, blended]), replace(choice, chosen=len(found.heads))


def _concluded(judge: _Judge, row: int, picked: int, shown: list[int]) -> Choice:
    """Whether the head picked, whose crossed answers are this row, replaces the original head."""
    if not np.isfinite(judge.values[0]):
        return Choice(picked, _UNKNOWN, np.nan, dict.fromkeys(shown, _UNKNOWN))
    evidence = judge.evidence([row], 0)
    doubt = judge.doubt(evidence, row)
    is_better = doubt is None and judge.is_sure(evidence)
    gain = judge.bounded(evidence.stated(0) if is_better else evidence.interval(0))
    observed = float(evidence.gains[0])
    retraining = gain.mean * float(judge.values[1] - judge.values[0]) / observed if observed else 0.0
    together = judge.evidence(list(range(3, 3 + len(shown))), 0)
    rows = {number: judge.bounded(together.interval(i)) for i, number in enumerate(shown)}
    return Choice(picked if is_better else 0, gain, retraining, rows, doubt)


def _deal(score: MeanScore, generator: np.random.Generator) -> Rows:
    """Fold of every sample, dealt at random within its stratum; −1 for one that no part may lack."""
    strata, n_dealt = score.strata, 0
    fold = np.empty(len(strata), dtype=np.intp)
    for stratum in np.unique(strata):
        rows = generator.permutation(np.flatnonzero(strata == stratum))
        if len(rows) == 1 and isinstance(score, WholeScore):  # scorers of scikit-learn need every class
            fold[rows] = -1
            continue
        fold[rows] = (n_dealt + np.arange(len(rows))) % _N_FOLDS
        n_dealt += len(rows)
    return fold


def _crossed(answers: Sequence[Array], fold: Rows) -> Array:
    """a: for each sample the answer of the pick made without its fold; the first pick was made by all samples."""
    crossed = answers[0].copy()
    for number, own in enumerate(answers[1:]):
        rows = np.flatnonzero(fold == number)
        crossed[rows] = own[rows]
    return crossed


# ------------------------------------------------------------------------------- picks


class _Picker:
    """Picks the best head, and the one it is blended with if that is better still, by the samples of each part."""

    def __init__(self, found: ScoredHeads, parts: list[Rows], *, blends: bool) -> None:
        self.found, self.kept, self.parts = found, found.kept, parts
        self.kinds = np.array([candidate.kind for candidate in found.candidates])
        self.values = [self._values(self.kept, rows) for rows in parts]
        self.pairs: dict[int, Array] = {}
        if blends:
            starts = sorted({start for values in self.values for start in self._starts(values)})
            self.pairs = _blended_answers(found, starts)

    def picks(self, *kinds: str) -> list[tuple[int, int | None]]:
        """The best of these kinds by the samples of each part, the first of equals."""
        return [self._pick(number, kinds) for number in range(len(self.parts))]

    def answers(self, one: int, other: int | None) -> Array:
        """What the score keeps of the answers of a pick, sample by sample."""
        found: Array = self.kept[one] if other is None else self.pairs[one][other]
        return found

    def fitted(self, one: int, other: int | None) -> FittedHead:
        """The head of a pick."""
        if other is None:
            return self.found.heads[one]
        a, b = (self.found.heads[number] for number in (one, other))
        reweighted = a.candidate.reweighted or b.candidate.reweighted
        blended = (a.candidate, b.candidate)
        candidate = HeadCandidate("blended", weight_ratio=None, reweighted=reweighted, blend=blended)
        return FittedHead(candidate, blend(a.head, b.head, self.found.task))

    def _pick(self, number: int, kinds: tuple[str, ...]) -> tuple[int, int | None]:
        values = np.where(np.isin(self.kinds, kinds), self.values[number], -np.inf)
        one, other = int(np.argmax(values)), None
        best = values[one]
        if "weighted" not in kinds:
            return one, None
        for start in self._starts(self.values[number]) if self.pairs else ():
            pair_values = self._values(self.pairs[start], self.parts[number])
            pair_values[~self._partners(start)] = -np.inf
            if pair_values.max() > best:
                one, other = start, int(np.argmax(pair_values))
                best = pair_values[other]
        return one, other

    def _values(self, kept: Array, rows: Rows) -> FloatArray:
        return self.found.scores[0].part(rows).values(kept[:, rows])

    def _starts(self, values: FloatArray) -> list[int]:
        order = np.argsort(-values[1:], kind="stable")[:_N_STARTS] + 1
        return [int(i) for i in order if np.isfinite(values[i])]

    def _partners(self, start: int) -> npt.NDArray[np.bool_]:
        """Heads of the same data, and the original one with any."""
        reweighted = np.array([candidate.reweighted for candidate in self.found.candidates])
        is_original = self.kinds == "original"
        return np.asarray(is_original | is_original[start] | (reweighted == reweighted[start]))


# ------------------------------------------------------------------------------- evidence


class _Judge:
    """Weighs rows of answers against each other, by pairs or by resamples as the score requires.

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
        """Why the samples cannot tell whether a gain is one; None if they can."""
        if evidence.gains[0] <= 0:
            return None
        n_for = self.score.n_for(self.answers[row], self.answers[0])
        if n_for < self.fewest:
            samples = "1 sample" if n_for == 1 else f"{n_for} samples"
            return f"the gain of the best one rests on {samples}, and at least {self.fewest} are needed"
        is_unknown = self.score.words.cannot_tell(evidence.interval(0))
        return "the interval of the gain is wider than the range of the score" if is_unknown else None

    def bounded(self, gain: Interval) -> Interval:
        """A gain over the original head, within what the score can gain and lose."""
        return self.score.words.within(gain, float(self.values[0]))


# ------------------------------------------------------------------------------- means of two heads


def blend(one: Head, other: Head, task: HeadTask) -> Head:
    """The mean of two heads."""
    (first, s), (second, t) = (_direction(head, task) for head in (one, other))
    mean = np.sqrt(s * t) / 2 * (first + second)
    return Head(mean[:, :-1], None if one.bias is None else mean[:, -1])


def can_blend(task: HeadTask, original: Head) -> bool:
    """Classes, and a bias that moves with the weights: a frozen one would count twice."""
    return task.has_classes and not original.is_bias_fixed


def _blended_answers(found: ScoredHeads, starts: list[int]) -> dict[int, Array]:
    """What the score knows of the mean of each start and every head: ``{start: (n_heads, n_samples)}``."""

    def outputs(number: int) -> FloatArray:
        direction, _ = _direction(found.heads[number].head, found.task)
        return Head(direction[:, :-1], direction[:, -1]).outputs(found.held_out.features)

    first = {start: outputs(start) for start in starts}
    pairs: dict[int, list[Array]] = {start: [] for start in starts}
    for number in range(len(found.heads) if starts else 0):
        other = outputs(number)
        for start, own in first.items():
            pairs[start].append(found.scores[0].keep(own + other))
    return {start: np.stack(rows) for start, rows in pairs.items()}


def _direction(head: Head, task: HeadTask) -> tuple[FloatArray, float]:
    """[W, b] divided by s, and s; a head of no weights keeps its size."""
    bias = np.zeros(len(head.weight)) if head.bias is None else head.bias
    table = np.hstack([head.weight, bias[:, None]]).astype(np.float64)
    if task.loss == "softmax":
        table -= table.mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.linalg.norm(table[:, :-1]))
    size = size if np.isfinite(size) and size > 0 else 1.0
    return table / size, size
