"""Which head, and what the choice is worth: made on some of the held-out samples, scored on the others.

The best of a hundred heads on the held-out samples looks better there than it is. So the whole choice is repeated on
four fifths of the samples and scored on the last fifth, five times over:

    a_i = answer to sample i of the head chosen without the fold of i

a_i has seen nothing of sample i, so its score needs no correction for the number of heads. The choice takes the best
head with the best layer behind it, or the mean of some. The same is done among the equal-weight heads, which are left
only for a choice among all that is better by a standard error. The original head is left for a choice whose a beats it
by the evidence of :mod:`steep.evidence`. What is joined is the choice made on all samples; what is reported is the gain
of a (:meth:`steep.evidence.Evidence.stated`). The original head is also kept if the samples cannot tell: the interval
is wider than the range of the score, or the gain rests on so few samples n that equal heads would often differ by as
many, which they do with probability 2^(1 − n).

The mean of two heads is tried for the accuracies of groups and classes. For scores that hang on few samples, such as
F1 of a rare class, it is the mean of the ten best heads, which varies less than the best one:

    W = s̄ mean_a W_a/s_a,      s = ‖W‖,  s̄ their geometric mean,      and b in the same way

The mean over the classes is first subtracted from W and b. A layer behind a head is a candidate like any other:

    threshold     two classes: the share r of the samples is called positive, for r around that of the training labels
    prior^τ       more classes: z_c − τ log π_c, π_c the share of class c among the training labels (Menon et al. 2021)
    temperature   probabilities: z / T
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from steep._validation import FloatArray, IntArray
from steep.evidence import Evidence, weigh_evidence, weigh_resamples
from steep.metrics import Interval
from steep.nn.candidates import FittedHead, HeadCandidate, ScoredHeads, best_of_rows
from steep.nn.heads import Head, HeadSamples, HeadTask
from steep.nn.scores import Array, CellScore, DecisionScore, MeanScore, WholeScore

Rows = npt.NDArray[np.intp]
N_FOLDS = 5
# Heads that are blended with every other: the best ones. Settled on development networks (benchmarks/groups.py).
_N_STARTS = 16
# Heads that are averaged where a score hangs on few samples: the best one alone is best by chance. Of 1, 3, 5, 10, 20
# and 40 ten were best on two development networks (benchmarks/group_scores.py).
_N_AVERAGED = 10
# Outputs that may be computed for it, in all parts: some seconds.
_MOST_WORK = 1e9
# The original head is replaced only if the 95 % interval of the gain excludes zero: both ends of an interval count, one
# end of it decides. Samples for a new head, and none against it, that equal heads show as rarely.
_ONE_SIDED, _FEWEST = 0.975, 6
# Shares called positive, on the scale of logits, around that of the training labels; and the other layers.
_RATES = np.linspace(-3.0, 3.0, 25)
_POWERS = (-0.5, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
_TEMPERATURES = (0.5, 0.63, 0.8, 1.25, 1.6, 2.0, 2.5, 3.2)


@dataclass(frozen=True)
class Choice:
    """The head chosen (its number, 0 for the original one), and the evidence for it.

    ``gain`` is of samples the choice was not made by; ``retraining`` is the part of it that equal weights have too;
    ``rows`` are the gains of the best heads of each row of the table. ``is_beaten`` says whether any head is better on
    all samples. ``outputs`` are those of the choice for each sample, by the head chosen without its fold.
    """

    chosen: int
    gain: Interval
    retraining: float
    rows: dict[int, Interval]
    doubt: str | None = None
    is_beaten: bool = True
    outputs: FloatArray | None = None


def choose_head(
    found: ScoredHeads, *, blends: bool = False, layers: Layers | None = None, random_state: int = 0
) -> tuple[ScoredHeads, Choice]:
    """Choose by the deciding score; a blended head, or one with a layer, is returned as the last of the heads."""
    generator = np.random.default_rng(random_state)
    score, fold = found.scores[0], found.fold
    picker = _Picker(found, blends=blends, layers=layers)
    equal, picked = picker.picks()
    crossed_equal, crossed = (
        _crossed([picker.answers(part, pick) for part, pick in enumerate(picks)], fold) for picks in (equal, picked)
    )
    top = float(score.values(picker.answers(0, picked[0])[None])[0])
    shown = sorted({number for number in best_of_rows(found.heads).values() if number})
    answers = np.stack([picker.kept[0], crossed_equal, crossed, *picker.kept[shown]])
    judge = _Judge(score, answers, generator)
    choice = _concluded(judge, 2, shown)
    lead = judge.evidence([2], 1)  # of the choice among all over that among equal weights
    if lead.gains[0] <= lead.standard_errors[0] and (simpler := _concluded(judge, 1, shown)).chosen:
        choice, picked = simpler, equal
    choice = replace(choice, is_beaten=top > float(judge.values[0]))
    if not choice.chosen:
        return found, choice
    outputs = [picker.outputs(part, pick) for part, pick in enumerate(picked)]
    choice = replace(choice, outputs=_crossed(outputs, fold))
    if len(picked[0].heads) == 1 and picked[0].layer is None:
        return found, replace(choice, chosen=picked[0].heads[0])
    made = found.scored(picker.fitted(picked[0]))
    return replace(found, heads=[*found.heads, made]), replace(choice, chosen=len(found.heads))


def _concluded(judge: _Judge, row: int, shown: list[int]) -> Choice:
    """Whether the choice whose crossed answers are this row replaces the original head: ``chosen`` is then 1."""
    evidence = judge.evidence([row], 0)
    doubt = judge.doubt(evidence, row)
    is_better = doubt is None and bool(evidence.counts[0]) and evidence.interval(0).low > 0
    gain = judge.bounded(evidence.stated(0) if is_better else evidence.interval(0))
    observed = float(evidence.gains[0])
    retraining = gain.mean * float(judge.values[1] - judge.values[0]) / observed if observed else 0.0
    together = judge.evidence(list(range(3, 3 + len(shown))), 0)
    rows = {number: judge.bounded(together.interval(i)) for i, number in enumerate(shown)}
    return Choice(int(is_better), gain, retraining, rows, doubt)


def deal_folds(score: MeanScore, generator: np.random.Generator) -> Rows:
    """Fold of every sample, dealt at random within its stratum; −1 for one that no part may lack."""
    strata, n_dealt = score.strata, 0
    fold = np.empty(len(strata), dtype=np.intp)
    for stratum in np.unique(strata):
        rows = generator.permutation(np.flatnonzero(strata == stratum))
        if len(rows) == 1 and isinstance(score, WholeScore):  # scorers of scikit-learn need every class
            fold[rows] = -1
            continue
        fold[rows] = (n_dealt + np.arange(len(rows))) % N_FOLDS
        n_dealt += len(rows)
    return fold


def _crossed(answers: Sequence[Array], fold: IntArray) -> Array:
    """a: for each sample the answer of the pick made without its fold; the first pick was made by all samples."""
    crossed: Array = np.stack(answers)[fold + 1, np.arange(len(fold))]
    return crossed


# ------------------------------------------------------------------------------- picks


class Pick(NamedTuple):
    """The numbers of the heads whose mean it is, and the layer behind them, if any."""

    heads: tuple[int, ...]
    layer: Layer | None = None


class _Picker:
    """Picks the best head by the samples of each part: part 0 is all samples, part f all but those of fold f − 1."""

    def __init__(self, found: ScoredHeads, *, blends: bool, layers: Layers | None) -> None:
        self.found, self.score, self.layers = found, found.scores[0], layers
        self.parts = [np.arange(len(found.fold)), *(np.flatnonzero(found.fold != number) for number in range(N_FOLDS))]
        self.kept = np.stack([fitted.kept[0] for fitted in found.heads])
        self.is_crossed = np.array([fitted.without is not None for fitted in found.heads])
        self.is_plain = np.array([candidate.kind == "equal" for candidate in found.candidates])
        self.turned = [_turned(fitted, found.task) for fitted in found.heads] if blends else []
        self.pairs: dict[int, Array] = {}

    def picks(self) -> tuple[list[Pick], list[Pick]]:
        """The best by the samples of each part, the first of equals: among equal weights alone, and of all."""
        values = np.stack([self._values(self._part_answers(part), part) for part in range(len(self.parts))])
        values[:, 0] = -np.inf  # the original head is what a pick must beat
        plain = [Pick((int(np.argmax(row)),)) for row in np.where(self.is_plain, values, -np.inf)]
        layers = self._improve_by_layers(values)
        return plain, [self._best(part, row, layers[part]) for part, row in enumerate(values)]

    def answers(self, part: int, pick: Pick) -> Array:
        """What the score keeps of the answers of a pick, sample by sample."""
        first = pick.heads[0]
        if len(pick.heads) == 1 and pick.layer is None and not (part and self.is_crossed[first]):
            own: Array = self.kept[first]
            return own
        return self.score.keep(self.outputs(part, pick))

    def outputs(self, part: int, pick: Pick) -> FloatArray:
        return self._outputs(self.fitted(pick), part)

    def fitted(self, pick: Pick) -> FittedHead:
        parts = [self.found.heads[number] for number in pick.heads]
        whole = parts[0] if len(parts) == 1 else _joined(parts, self.found.task)
        if (layer := pick.layer) is None:
            return whole
        without = whole.without and {key: layer.joined(head) for key, head in whole.without.items()}
        candidate = replace(whole.candidate, layer=layer.name)
        return replace(whole, candidate=candidate, head=layer.joined(whole.head), without=without)

    def _best(self, part: int, values: FloatArray, layers: dict[int, Layer]) -> Pick:
        """The best of a part; ``values`` are those of heads with their ``layers``."""
        first = int(np.argmax(values))
        alone = Pick((first,), layers.get(first))
        if not self.turned:
            return alone
        if not isinstance(self.score, CellScore):
            # A bias, divided by the size of a very small head, leaves no digits to the weights.
            is_large = [c.anchored or (c.l2 or 0.0) <= 1.0 for c in self.found.candidates]
            allowed = self._partners(first) & np.isfinite(values) & is_large
            order = [int(i) for i in np.argsort(-values, kind="stable") if allowed[i]]
            some = Pick(tuple(order[:_N_AVERAGED]) or (first,))
            return self._with_layer(part, some)
        pair, top = alone, values[first]
        starts = self._starts(values)
        outputs = [self._outputs(fitted, part) for fitted in self.turned]
        for start in starts:
            pair_values = self._values(self._pair_answers(start, part, outputs), part)
            pair_values[~self._partners(start)] = -np.inf
            if pair_values.max() > top:
                top, pair = pair_values.max(), Pick((start, int(np.argmax(pair_values))))
        return alone if pair is alone else self._with_layer(part, pair)

    def _with_layer(self, part: int, pick: Pick) -> Pick:
        """A pick without or with the best layer behind it."""
        outputs = self.outputs(part, pick)
        layers = [None, *(self.layers.behind(outputs) if self.layers is not None else ())]
        kept = [self.score.keep(outputs if layer is None else layer.outputs(outputs)) for layer in layers]
        values = self._values(np.stack(kept), part)
        return pick._replace(layer=layers[int(np.argmax(values))])

    def _improve_by_layers(self, values: FloatArray) -> list[dict[int, Layer]]:
        """The best layer behind each head in every part, if any is better than none; ``values`` become those of it."""
        found: list[dict[int, Layer]] = [{} for _ in self.parts]
        everything = list(range(len(self.parts)))
        if self.layers is None:
            return found
        for number, fitted in enumerate(self.found.heads):
            for parts in [[part] for part in everything] if fitted.without else [everything]:
                outputs = self._outputs(fitted, parts[0])
                if not (layers := self.layers.behind(outputs)):
                    continue
                kept = np.stack([self.score.keep(layer.outputs(outputs)) for layer in layers])
                for part in parts:
                    own = self._values(kept, part)
                    place = int(np.argmax(own))
                    if own[place] > values[part, number]:
                        values[part, number], found[part][number] = own[place], layers[place]
        return found

    def _outputs(self, fitted: FittedHead, part: int) -> FloatArray:
        return fitted.outputs(self.found.held_out.features, self.found.fold, part - 1 if part else None)

    def _part_answers(self, part: int) -> Array:
        if not part or not self.is_crossed.any():
            return self.kept
        kept = self.kept.copy()
        for number in np.flatnonzero(self.is_crossed):
            kept[number] = self.score.keep(self._outputs(self.found.heads[number], part))
        return kept

    def _pair_answers(self, start: int, part: int, outputs: list[FloatArray]) -> Array:
        """Answers of the mean of a head and each other; those of heads that no part changes are kept."""
        keep = self.score.keep
        if self.is_crossed[start]:
            return np.stack([keep(outputs[start] + other) for other in outputs])
        if start not in self.pairs:
            self.pairs[start] = np.stack([keep(outputs[start] + other) for other in outputs])
            return self.pairs[start]
        for number in np.flatnonzero(self.is_crossed):
            self.pairs[start][number] = keep(outputs[start] + outputs[number])
        return self.pairs[start]

    def _values(self, kept: Array, part: int) -> FloatArray:
        rows = self.parts[part]
        return self.score.part(rows).values(kept[:, rows])

    def _starts(self, values: FloatArray) -> list[int]:
        """The best heads; fewer if their means with all others would take long."""
        work = len(self.turned) * len(self.found.fold) * self.found.task.n_outputs * len(self.parts)
        order = np.argsort(-values[1:], kind="stable")[: int(np.clip(_MOST_WORK / work, 2, _N_STARTS))] + 1
        return [int(i) for i in order if np.isfinite(values[i])]

    def _partners(self, start: int) -> npt.NDArray[np.bool_]:
        """Heads of the same data, and the original one and those of the validation data with any."""
        candidates = self.found.candidates
        reweighted = np.array([candidate.reweighted for candidate in candidates])
        is_free = self.is_crossed | np.array([candidate.kind == "original" for candidate in candidates])
        return np.asarray(is_free | is_free[start] | (reweighted == reweighted[start]))


def _joined(parts: Sequence[FittedHead], task: HeadTask) -> FittedHead:
    """The mean of several heads, also for every part of the samples that one of them was fitted without."""
    candidates = tuple(part.candidate for part in parts)
    reweighted = any(candidate.reweighted for candidate in candidates)
    keys = next((part.without for part in parts if part.without), None)
    without = keys and {
        key: blend([part.without[key] if part.without else part.head for part in parts], task) for key in keys
    }
    candidate = HeadCandidate("blended", weight_ratio=None, reweighted=reweighted, blend=candidates)
    return FittedHead(candidate, blend([part.head for part in parts], task), without=without)


def _turned(fitted: FittedHead, task: HeadTask) -> FittedHead:
    """A head scaled to size one."""

    def turn(head: Head) -> Head:
        direction = _direction(head, task)[0]
        return Head(direction[:, :-1], direction[:, -1])

    without = fitted.without and {key: turn(head) for key, head in fitted.without.items()}
    return FittedHead(fitted.candidate, turn(fitted.head), without=without)


# ------------------------------------------------------------------------------- evidence


class _Judge:
    """Weighs answers: of the original head, of the crossed choices among equal weights and all, and of others."""

    def __init__(self, score: MeanScore, answers: Array, generator: np.random.Generator) -> None:
        self.score, self.answers, self.generator = score, answers, generator
        self.values, self.units = score.values(answers), score.units(answers)
        self.drawn: FloatArray | None = None
        if self.units is None:
            assert isinstance(score, CellScore | DecisionScore | WholeScore)
            self.drawn = score.resamples(answers, generator)

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
            return weigh_evidence(differences, 0.0, _ONE_SIDED, self.generator)
        return weigh_resamples(gains, differences, self.answers.shape[1], 0.0, _ONE_SIDED)

    def doubt(self, evidence: Evidence, row: int) -> str | None:
        """Why the samples cannot tell whether a gain is one; None if they can."""
        if evidence.gains[0] <= 0:
            return None
        n_for = self.score.n_for(self.answers[row], self.answers[0])
        if n_for < _FEWEST:
            samples = "1 sample" if n_for == 1 else f"{n_for} samples"
            return f"the gain of the best one rests on {samples}, and at least {_FEWEST} are needed"
        is_unknown = self.score.words.cannot_tell(evidence.interval(0))
        return "the interval of the gain is wider than the range of the score" if is_unknown else None

    def bounded(self, gain: Interval) -> Interval:
        """A gain over the original head, within what the score can gain and lose."""
        return self.score.words.within(gain, float(self.values[0]))


# ------------------------------------------------------------------------------- means of heads


def blend(heads: Sequence[Head], task: HeadTask) -> Head:
    """The mean of heads."""
    turned, sizes = zip(*(_direction(head, task) for head in heads), strict=True)
    mean = np.exp(np.log(sizes).mean()) * np.mean(turned, axis=0)
    return Head(mean[:, :-1], None if heads[0].bias is None else mean[:, -1])


def can_blend(score: MeanScore) -> bool:
    """Classes, and a score to which samples count unequally."""
    return type(score) is not MeanScore and score.task.has_classes


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


# ------------------------------------------------------------------------------- layers


class Layer(NamedTuple):
    """z / ``temperature`` + ``shift``, and what it is called."""

    name: str
    shift: FloatArray
    temperature: float = 1.0

    def outputs(self, outputs: FloatArray) -> FloatArray:
        """Outputs behind the layer."""
        return (outputs / self.temperature + self.shift).astype(outputs.dtype, copy=False)

    def joined(self, head: Head) -> Head:
        """Head and layer as one head."""
        bias = None if head.bias is None else head.bias / self.temperature + self.shift
        return Head(head.weight / self.temperature, bias)


@dataclass(frozen=True)
class Layers:
    """The layers that a score may be improved by."""

    kind: str
    priors: FloatArray

    @classmethod
    def of(cls, score: MeanScore, original: Head, training: HeadSamples) -> Layers | None:
        """Those for a score; None if the head has no bias, or classes of one size need no shift."""
        if not score.task.has_classes:
            return None
        counts = np.maximum(score.task.class_counts(training.targets), 1)
        priors = counts / counts.sum()
        if score.name == "neg_log_loss":
            return cls("temperature", priors)
        if original.bias is None or not isinstance(score, DecisionScore | CellScore):
            return None
        if len(priors) == 2:
            return cls("threshold", priors)
        return cls("prior", priors) if np.ptp(np.log(priors)) > 1e-3 else None

    def behind(self, outputs: FloatArray) -> list[Layer]:
        """The layers for a head with these outputs for the held-out samples."""
        if not np.isfinite(outputs).all():
            return []
        if self.kind == "temperature":
            zero = np.zeros(outputs.shape[1])
            return [Layer(f"temperature {t:g}", zero, t) for t in _TEMPERATURES]
        if self.kind == "prior":
            levels = np.log(self.priors) - np.log(self.priors).mean()
            return [Layer(f"prior^{power:g}", -power * levels) for power in _POWERS]
        margins = np.sort(outputs[:, -1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs[:, 0])
        rates = expit(logit(np.clip(self.priors[1], 1e-4, 1 - 1e-4)) + _RATES)
        places = np.clip(np.round((1 - rates) * len(margins)).astype(int), 1, len(margins) - 1)
        # Between two samples, so that rounding puts neither on the other side.
        cuts = ((margins[places - 1].astype(np.float64) + margins[places]) / 2).tolist()
        turned = np.array([0.5, -0.5]) if outputs.shape[1] == 2 else np.array([-1.0])
        return [Layer(f"threshold {cut:.3g}", cut * turned) for cut in dict.fromkeys(cuts)]
