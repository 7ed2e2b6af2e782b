"""The heads to try, fitted and scored on samples they have not seen; :mod:`steep.nn.choose` chooses among them.

Candidates are the original head; for every λ one with equal weights; for every λ and weighting a weighted one
(Algorithm 3, lines 4 to 6); and the same held near the original head instead of near zero. All share the same λ. The
default λ are extended by factors of ten, at either end, until the best head of each kind lies inside: otherwise weights
would be credited with what a stronger or a weaker penalty does as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from time import monotonic
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from steep._progress import progress_bar
from steep._validation import FloatArray, IntArray, check_count, check_flag, check_real, shown
from steep.exceptions import InputError, InputTypeError
from steep.measures import Measure, resolve
from steep.nn.data import HeadData
from steep.nn.heads import Head, HeadGrid, HeadSamples, HeadTask, seconds_of_a_head
from steep.nn.scores import Array, MeanScore
from steep.nn.weightings import (
    Balanced,
    ByClass,
    ByGroup,
    ByRatio,
    Doubted,
    FeatureSpace,
    HeadWeighting,
    PseudoGroups,
    Rule,
    apply_rules,
    search_neighbors,
)

Value = TypeVar("Value")

# Powers of ten up to which the default λ may be extended.
_POWERS = range(-8, 4)
# λ of heads that are fitted to the held-out samples, and samples of every class that this takes.
_CROSSED_L2, _FEWEST_OF_A_CLASS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4), 20

# Heads of a mean that are named.
_N_NAMED = 3


@dataclass(frozen=True)
class HeadSearch:
    """What :func:`steep.nn.improve` tries, and for how long.

    Defaults are those of every score of classes; those of several labels per sample and of numbers are in parentheses.

    Parameters
    ----------
    l2 : sequence of float, optional
        Strengths of the penalty; see :func:`steep.nn.retrain_head`. Default 10, …, 1e-5 (1e-2, …, 1e-6), and further
        by factors of ten, within 1e-8 and 1e3, until the best equal-weight and the best weighted head lie inside.
    weight_ratio : sequence of float, optional
        Values of m; equal weights are always tried as well. Default 5, 1,000 (0.2 to 40), or none if only
        ``weightings`` is given.
    weightings : sequence of Balanced, PseudoGroups and Doubted, optional
        Other ways to weight the samples of classes. Default all three (none), or none if only ``weight_ratio`` is
        given.
    n_neighbors : sequence of int, optional
        Values of k. Default 5, 20, 100, up to a fifth of the samples (10, 20, 35).
    time_limit : float, optional
        Seconds for fitting heads; the fewest heads are tried if not even those fit in. Default none.

    Other Parameters
    ----------------
    measure : str, callable, or a sequence of them, optional
        What the weights follow. Default "disagreement" ("variance").
    anchor : bool, optional
        Whether every head is tried a second time, held near the original one: ½ λ (s² ‖W − W₀‖² + ‖c − c₀‖²) in place
        of the penalty, c the outputs at the mean of the features. Default: the heads weighted by ``Doubted``.
    held_out : bool, optional
        Whether the validation data are fitted to as well, one part to be scored on the others: heads with equal
        weights, with classes and with groups of equal mass, and behind every head a threshold, shifted logits or a
        temperature (:mod:`steep.nn.choose`). Means of heads are tried too: of two for accuracies of groups and
        classes, of the ten best for other scores than accuracy and log loss. Default True, or False if
        ``weight_ratio`` or ``weightings`` is given.

    Examples
    --------
    >>> HeadSearch(l2=(1e-2, 1e-4), weight_ratio=(5.0,), weightings=(Balanced(), PseudoGroups(0.9), Doubted(8))).l2
    (0.01, 0.0001)
    """

    l2: Sequence[float] | None = None
    weight_ratio: Sequence[float] | None = None
    weightings: Sequence[ByClass] | None = None
    n_neighbors: Sequence[int] | None = None
    measure: str | Callable[..., Any] | Sequence[Any] | None = None
    anchor: bool | None = None
    held_out: bool | None = None
    time_limit: float | None = None


# Settled on development networks (benchmarks/groups.py). Pseudo-groups with a large share stand for groups of which a
# trained network leaves few samples contradicted. Strong penalties are for scores to which few samples count for much.
_OF_CLASSES = HeadSearch(
    weight_ratio=(5.0, 1000.0),
    weightings=(Balanced(), PseudoGroups(), PseudoGroups(0.9), Doubted(4.0), Doubted(8.0), Doubted(13.0)),
    n_neighbors=(5, 20, 100),
    measure="disagreement",
    held_out=True,
)
_OF_NUMBERS = HeadSearch(
    weight_ratio=(0.2, 0.5, 2.0, 5.0, 15.0, 40.0), weightings=(), n_neighbors=(10, 20, 35), measure="variance",
    held_out=False,
)  # fmt: skip
_CLASS_POWERS, _NUMBER_POWERS = range(-5, 2), range(-6, -1)


@dataclass(frozen=True)
class Grid:
    """The values of a :class:`HeadSearch`, checked; ``anchor`` says which heads are also held near the original one."""

    l2: tuple[float, ...]
    rules: tuple[Rule, ...]
    n_neighbors: tuple[int, ...]
    measures: tuple[Measure, ...]
    is_extended: bool
    anchor: Literal["none", "doubted", "all"]
    held_out: bool
    time_limit: float | None
    has_default_k: bool = False
    deadline: float = inf

    @classmethod
    def of(cls, search: Any, *, has_classes: bool, use: str = "improve") -> Grid:
        """Check what was given and fill in the rest."""
        if not isinstance(search, HeadSearch):
            raise InputTypeError(
                f"search is a {type(search).__name__}; expected a HeadSearch, for example HeadSearch(l2=(1e-2, 1e-4))"
            )
        for name in ("anchor", "held_out"):
            check_flag(getattr(search, name), name=name, optional=True)
        if search.time_limit is not None:
            check_real(search.time_limit, name="time_limit", above=0.0)
        rest = _OF_CLASSES if has_classes else _OF_NUMBERS
        if search.weight_ratio is not None or search.weightings is not None:
            rest = replace(rest, weight_ratio=(), weightings=(), held_out=False)
        full = replace(rest, **{name: value for name, value in vars(search).items() if value is not None})
        names = full.measure if isinstance(full.measure, list | tuple) else (full.measure,)
        measures = tuple(resolve(name, use=use, feeds=("labels", "model")) for name in names)
        smallest = max((measure.smallest_k for measure in measures), default=1)
        rules: tuple[Rule, ...] = (
            *check_each(full.weight_ratio, ByRatio, name="weight_ratio"),
            *check_each(full.weightings, _check_rule, name="weightings"),
        )
        powers = tuple(10.0**power for power in (_CLASS_POWERS if has_classes else _NUMBER_POWERS))
        has_doubt = any(isinstance(rule, Doubted) for rule in rules)
        grid = cls(
            l2=check_each(
                powers if full.l2 is None else full.l2, lambda l2: check_real(l2, name="l2", minimum=0.0), name="l2"
            ),
            rules=tuple(rule for rule in rules if rule != ByRatio(1.0)),  # equal weights are always tried
            n_neighbors=check_each(
                full.n_neighbors, lambda k: check_count(k, name="n_neighbors", minimum=smallest), name="n_neighbors"
            ),
            measures=measures,
            is_extended=full.l2 is None,
            anchor="all" if full.anchor else "doubted" if full.anchor is None and has_doubt else "none",
            held_out=bool(full.held_out),
            time_limit=full.time_limit,
            has_default_k=search.n_neighbors is None,
        )
        if not grid.l2:
            raise InputError("l2 is empty; expected at least one strength, for example l2=(1e-3,)")
        return grid

    def of_data(self, data: HeadData) -> Grid:
        """What can be tried with these data: classes, k up to a fifth of the samples, and a time limit."""
        by_class = [rule for rule in self.rules if not isinstance(rule, ByRatio)]
        if by_class and not data.task.has_classes:
            raise InputError(
                f"{by_class[0]!r} needs one class per sample, got a {data.task.name} head; use weight_ratio instead"
            )
        grid = self
        if self.has_default_k and any(isinstance(rule, PseudoGroups) for rule in self.rules):
            most = min(len(part) for part in (data.train, data.reweighting) if part is not None) // 5
            kept = tuple(k for k in self.n_neighbors if k <= most)
            grid = replace(grid, n_neighbors=kept or (min(self.n_neighbors),))
        return grid if self.time_limit is None else grid._affordable(self.time_limit, data.train, data.task)

    def _affordable(self, time_limit: float, samples: HeadSamples, task: HeadTask) -> Grid:
        """What fits into the time limit, by the time that a gradient takes: the middle λ first, then cheap rules."""
        timed = replace(self, deadline=monotonic() + time_limit)

        def n_heads(rule: Rule) -> int:
            n = len(self.n_neighbors) if isinstance(rule, ByRatio | PseudoGroups) else 1
            return n * (2 if self.anchor == "all" or isinstance(rule, Doubted) else 1)

        allowed = time_limit / seconds_of_a_head(samples, task)
        if (1 + sum(map(n_heads, self.rules))) * len(self.l2) <= allowed:
            return timed
        ordered = sorted(self.l2)
        first = max(0, len(ordered) // 2 - 1)
        l2 = tuple(ordered[first : first + max(1, min(3, int(allowed)))])
        left, kept = allowed / len(l2) - 1, list[Rule]()
        for rule in sorted(self.rules, key=lambda rule: isinstance(rule, ByRatio | PseudoGroups)):
            if n_heads(rule) <= left:
                kept.append(rule)
                left -= n_heads(rule)
        return replace(timed, l2=l2, rules=tuple(kept), is_extended=False, held_out=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """k to measure; none if no head is weighted by what neighbours say."""
        is_measured = any(isinstance(rule, ByRatio | PseudoGroups) for rule in self.rules)
        return tuple(dict.fromkeys(self.n_neighbors)) if is_measured else ()

    @property
    def reachable(self) -> tuple[float, ...]:
        """Every λ that may be tried."""
        return tuple(10.0**power for power in _POWERS) if self.is_extended else self.l2

    def beyond(self, tried: Sequence[float], best: Iterable[float]) -> list[float]:
        """λ to try next: one step past each end at which a best head sits."""
        if not self.is_extended:
            return []
        ends, best = {max(tried): 1, min(tried): -1}, set(best)
        steps = [10.0 ** (round(np.log10(end)) + step) for end, step in ends.items() if end in best]
        return [step for step in steps if step in self.reachable]


def _check_rule(value: Any) -> ByClass:
    if not isinstance(value, ByClass):
        raise InputTypeError(
            f"weightings holds {shown(value)}; expected Balanced(), PseudoGroups(share) or Doubted(gamma) of steep.nn"
        )
    return value


# ------------------------------------------------------------------------------- candidates


@dataclass(frozen=True)
class HeadCandidate:
    """How a head was fitted.

    ``kind`` is "original", "equal", "weighted", "validation" if it was fitted to the validation data, or "blended" for
    the mean of the heads in ``blend``. ``layer`` is what was put behind the head, such as "threshold 0.4".
    ``weight_ratio`` is m, 1 for equal weights and None if ``rule`` is another one, such as "PseudoGroups(share=0.9)".
    ``reweighted`` heads were fitted to the data of ``reweighting=``; ``anchored`` ones are held near the original head.
    """

    kind: str
    l2: float | None = None
    weight_ratio: float | None = 1.0
    rule: str | None = None
    n_neighbors: int | None = None
    measure: str | None = None
    reweighted: bool = False
    anchored: bool = False
    blend: tuple[HeadCandidate, ...] | None = None
    layer: str | None = None

    def __str__(self) -> str:
        if self.blend is not None:
            named = [*map(str, self.blend[:_N_NAMED]), *(["…"] if len(self.blend) > _N_NAMED else [])]
            return f"the mean of {len(self.blend)} heads: {'; '.join([*named, *([self.layer] if self.layer else [])])}"
        weighted = f"{self.measure or 'classes'} {self.rule or f'ratio {self.weight_ratio:g}'}"
        kinds = {"weighted": weighted, "equal": "equal weights", "original": "the original head"}
        words = [
            kinds.get(self.kind, f"{self.rule}, fitted to the validation data"),
            self.n_neighbors is not None and f"k {self.n_neighbors}",
            self.l2 is not None and f"l2 {self.l2:g}",
            self.reweighted and "reweighted",
            self.anchored and "anchored",
            self.layer,
        ]
        return ", ".join(word for word in words if word)

    @property
    def row(self) -> str:
        """The row of the table that its kind is in."""
        kind = {"equal": "equal weights", "validation": "fitted to validation"}.get(self.kind, self.kind)
        return kind + ", reweighting data" * self.reweighted + ", anchored" * self.anchored

    @property
    def order(self) -> tuple[Any, ...]:
        """Sorts candidates: the original head first, then the strongest penalty, which is taken of equal scores."""
        return self.kind != "original", self.reweighted, self.anchored, -(self.l2 or 0.0)


ORIGINAL = HeadCandidate("original")


@dataclass(frozen=True)
class FittedHead:
    """A candidate, what each score keeps of its answers, and the heads fitted ``without`` one or two of the folds."""

    candidate: HeadCandidate
    head: Head
    weighting: HeadWeighting | None = None
    kept: tuple[Array, ...] = ()
    values: tuple[float, ...] = ()
    without: dict[frozenset[int], Head] | None = None

    def outputs(self, features: FloatArray, fold: IntArray, part: int | None = None) -> FloatArray:
        """Outputs for the held-out samples: no head has seen a sample it answers, nor, but for that, fold ``part``."""
        if self.without is None:
            return self.head.outputs(features)
        found = np.empty((len(features), len(self.head.weight)), dtype=features.dtype)
        for number in np.unique(fold):
            rows = fold == number
            known = frozenset({int(number)} | ({part} if part is not None else set())) - {-1}
            found[rows] = self.without[known].outputs(features[rows])
        return found


@dataclass(frozen=True)
class HeadTraining:
    """Samples that heads are fitted to, in feature space, and the weights to try in addition to equal ones."""

    space: FeatureSpace
    weightings: list[HeadWeighting]
    is_reweighting: bool

    @classmethod
    def of(
        cls, samples: HeadSamples, task: HeadTask, grid: Grid, original: Head, *, n_jobs: int | None,
        is_reweighting: bool = False, groups: IntArray | None = None,
    ) -> HeadTraining:  # fmt: skip
        """Search the neighbours once, for every measure and every k."""
        neighbors = search_neighbors(samples.features, max(grid.sizes), n_jobs) if grid.sizes else None
        middle = float(sorted(grid.l2)[len(grid.l2) // 2])
        space = FeatureSpace(samples, task, original, neighbors, middle)
        known = [] if groups is None else [HeadWeighting(ByGroup(), groups)]
        return cls(space, known + apply_rules(grid.rules, space, grid.measures, grid.sizes), is_reweighting)


class _Fitter:
    """Fits the heads of the same samples, λ by λ: near zero or, if ``anchored``, near the original one."""

    def __init__(self, training: HeadTraining, grid: Grid, *, anchored: bool) -> None:
        space, has_all = training.space, not anchored or grid.anchor == "all"
        weightings = [w for w in training.weightings if has_all or isinstance(w.rule, Doubted)]
        self.weightings: list[HeadWeighting | None] = [None, *weightings]
        weights = [np.ones(len(space.samples)), *(w.weight for w in weightings)]
        self.how: dict[str, Any] = {"reweighted": training.is_reweighting, "anchored": anchored}
        self.grid = HeadGrid(
            space.samples, space.task, weights, original=space.original, anchored=anchored, reachable=grid.reachable,
            deadline=grid.deadline,
        )  # fmt: skip

    def heads(self, l2s: Sequence[float]) -> Iterator[FittedHead]:
        """The heads of every λ, equal weights first."""
        for l2, heads in self.grid.heads(l2s):
            for w, head in zip(self.weightings, heads, strict=True):
                candidate = HeadCandidate("equal", l2, **self.how)
                if w is not None:
                    m, rule = (w.rule.m, None) if isinstance(w.rule, ByRatio) else (None, repr(w.rule))
                    candidate = HeadCandidate("weighted", l2, m, rule, w.n_neighbors, w.measure, **self.how)
                yield FittedHead(candidate, head, w)


# ------------------------------------------------------------------------------- search


@dataclass(frozen=True)
class ScoredHeads:
    """Every fitted head with its scores on the held-out samples, larger is better; the original head first."""

    heads: list[FittedHead]
    scores: list[MeanScore]
    held_out: HeadSamples
    task: HeadTask
    fold: IntArray

    @property
    def candidates(self) -> list[HeadCandidate]:
        """How they were fitted."""
        return [fitted.candidate for fitted in self.heads]

    def value(self, number: int, score: int) -> float:
        """One score of one head, in its own sign."""
        return self.scores[score].shown(self.heads[number].values[score]) + 0.0  # not −0

    def scored(self, fitted: FittedHead) -> FittedHead:
        """With its answers for the held-out samples."""
        outputs = fitted.outputs(self.held_out.features, self.fold)
        kept = tuple(score.keep(outputs) for score in self.scores)
        values = (float(score.values(own[None])[0]) for score, own in zip(self.scores, kept, strict=True))
        return replace(fitted, kept=kept, values=tuple(values))

    def table(self) -> pd.DataFrame:
        """Every candidate with its held-out scores."""
        everyone = range(len(self.heads))
        columns = {score.unit: [self.value(n, i) for n in everyone] for i, score in enumerate(self.scores)}
        settings = (vars(c) | {"blend": None if c.blend is None else str(c)} for c in self.candidates)
        return pd.DataFrame(settings).assign(**columns)


def search_heads(
    trainings: Sequence[HeadTraining], grid: Grid, held_out: HeadSamples, scores: list[MeanScore], fold: IntArray,
    groups: IntArray | None = None,
) -> ScoredHeads:  # fmt: skip
    """Fit and score every candidate, and extend λ past the end at which a best head sits."""
    space = trainings[0].space
    judge = ScoredHeads([], scores, held_out, space.task, fold)
    anchors = (False,) if grid.anchor == "none" else (False, True)
    fitters = [_Fitter(training, grid, anchored=anchored) for training in trainings for anchored in anchors]
    found = [judge.scored(FittedHead(ORIGINAL, space.original))]
    if not np.isfinite(found[0].values[0]):
        raise InputError(
            "the outputs of the original head overflow on the held-out samples; expected a trained network"
        )
    tried: list[float] = []
    wanted = list(dict.fromkeys(grid.l2))
    total = sum(len(fitter.weightings) for fitter in fitters) * len(wanted)
    with progress_bar(total=total, label="fitting heads") as bar:
        while wanted and (not tried or monotonic() < grid.deadline):
            for fitter in fitters:
                for fitted in fitter.heads(wanted):
                    found.append(judge.scored(fitted))
                    bar.update()
            tried += wanted
            best = (found[i].candidate for i in best_of_rows(found).values())
            # A head held near the original one ends there with ever larger λ: no reason to go on.
            wanted = grid.beyond(tried, [candidate.l2 or 0.0 for candidate in best if not candidate.anchored])
    # Heads can be fitted to three fifths of the held-out samples if these have some of every class.
    is_crossed = grid.held_out and space.task.has_classes and monotonic() < grid.deadline
    if is_crossed and (space.task.class_counts(held_out.targets) >= _FEWEST_OF_A_CLASS).all():
        found += [judge.scored(fitted) for fitted in _crossed_heads(held_out, space, fold, groups)]
    return replace(judge, heads=sorted(found, key=lambda fitted: fitted.candidate.order))


def _crossed_heads(
    held_out: HeadSamples, space: FeatureSpace, fold: IntArray, groups: IntArray | None
) -> Iterator[FittedHead]:
    """Heads fitted to the held-out samples, and the same without each fold and each two folds."""
    folds = [int(number) for number in np.unique(fold) if number >= 0]
    sets = [frozenset(out) for size in (0, 1, 2) for out in combinations(folds, size)]
    classes = held_out.targets.reshape(-1).astype(np.int64)
    masses: dict[str, IntArray] = {"equal weights": np.zeros_like(classes), "classes of equal mass": classes}
    if groups is not None:
        masses["groups of equal mass"] = groups
    weights = []
    for own in masses.values():
        for out in sets:
            inside = ~np.isin(fold, list(out))
            weight = np.zeros(len(fold))
            weight[inside] = Balanced().weigh(weight, own[inside]) * len(fold) / inside.sum()
            weights.append(weight)
    for anchored in (False, True):
        grid = HeadGrid(held_out, space.task, weights, original=space.original, anchored=anchored)
        for l2, heads in grid.heads(_CROSSED_L2):
            for number, rule in enumerate(masses):
                own_heads = dict(zip(sets, heads[number * len(sets) :], strict=False))
                candidate = HeadCandidate("validation", l2, rule=rule, anchored=anchored)
                yield FittedHead(candidate, own_heads[frozenset()], without=own_heads)


def best_of_rows(heads: Sequence[FittedHead]) -> dict[str, int]:
    """The best head of each row of the table but "chosen", in the order of the rows; ties go to the stronger λ."""
    best: dict[str, int] = {}
    alone = [i for i, fitted in enumerate(heads) if fitted.candidate.blend is None and fitted.candidate.layer is None]
    for number in sorted(alone, key=lambda i: (-heads[i].values[0], -(heads[i].candidate.l2 or 0.0))):
        best.setdefault(heads[number].candidate.row, number)

    def place(row: str) -> tuple[Any, ...]:
        candidate = heads[best[row]].candidate
        return *candidate.order[:-1], candidate.kind == "weighted"

    return {row: best[row] for row in sorted(best, key=place)}


def check_each(values: Any, check: Callable[[Any], Value], *, name: str) -> tuple[Value, ...]:
    """Return a tuple of checked values; a number alone is not a sequence."""
    is_alone = isinstance(values, str | bytes) or (hasattr(values, "ndim") and values.ndim == 0)
    if is_alone or not isinstance(values, Iterable):
        raise InputTypeError(f"{name} is a {type(values).__name__}; expected a sequence of values; pass ({name},)")
    return tuple(check(value) for value in values)
