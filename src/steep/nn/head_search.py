"""Which head: fit every candidate, score it on samples it has not seen, and choose by the evidence.

Candidates are the original head; for every λ one with equal weights; and for every λ, measure, k and weight ratio m a
weighted one (Algorithm 3, lines 4 to 6). Where altered copies are tried the weighted heads are fitted with them, and
the equal-weight ones both without and with them. All share the same λ. The default λ are extended by factors of ten,
at either end, until the best head of each kind lies inside: else weights would be credited with what a stronger or a
weaker penalty does as well.

The choice has two steps, both by :mod:`steep.evidence`: a weighted head is eligible if it beats the best equal-weight
head; of the eligible heads that beat the original one the best is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from steep._validation import FloatArray, IntArray, check_count, check_real
from steep.evidence import Evidence, weigh_evidence
from steep.exceptions import InputError, InputTypeError
from steep.measures import Measure, resolve
from steep.nn._arguments import check_each
from steep.nn.feature_space import (
    Variations,
    measure_variations,
    n_known,
    neighbors_within,
    search_neighbors,
)
from steep.nn.heads import Head, HeadGrid, HeadTask, Samples, fit_head
from steep.nn.heads.task import Scores
from steep.rescaling import rescale

# Powers of ten of the default λ, and how far they may be extended.
_FIRST_POWERS, _POWERS = range(-6, -1), range(-8, 4)


@dataclass(frozen=True)
class Candidate:
    """How a head was fitted; the original head has no ``l2``."""

    kind: str
    l2: float | None = None
    weight_ratio: float = 1.0
    n_neighbors: int | None = None
    measure: str | None = None
    augmented: bool = False


@dataclass(frozen=True)
class Grid:
    """The values to try, checked."""

    l2: tuple[float, ...]
    weight_ratio: tuple[float, ...]
    n_neighbors: tuple[int, ...]
    measures: tuple[Measure, ...]
    is_extended: bool = False

    @classmethod
    def of(cls, l2: Any, weight_ratio: Any, n_neighbors: Any, measure: Any) -> Grid:
        """Check what the caller gave; no ``l2`` is the default range, which may be extended."""
        names = measure if isinstance(measure, list | tuple) else (measure,)
        measures = tuple(_measure(name) for name in names)
        smallest = max((smallest_size(measure) for measure in measures), default=1)
        grid = cls(
            l2=tuple(10.0**power for power in _FIRST_POWERS)
            if l2 is None
            else check_each(l2, lambda value: check_real(value, name="l2", minimum=0.0), name="l2"),
            weight_ratio=check_each(
                weight_ratio,
                lambda value: check_real(value, name="weight_ratio", above=0.0),
                name="weight_ratio",
            ),
            n_neighbors=check_each(
                n_neighbors,
                lambda value: check_count(value, name="n_neighbors", minimum=smallest),
                name="n_neighbors",
            ),
            measures=measures,
            is_extended=l2 is None,
        )
        if not grid.l2:
            raise InputError("l2 is empty; need at least one strength; pass l2=(1e-3,), or leave it out")
        return grid

    @property
    def sizes(self) -> tuple[int, ...]:
        """k to measure; none where no weighted head is tried."""
        ratios = [ratio for ratio in self.weight_ratio if ratio != 1.0]
        return tuple(dict.fromkeys(self.n_neighbors)) if ratios and self.measures else ()

    @property
    def reachable(self) -> tuple[float, ...]:
        """Every λ that may be tried."""
        return tuple(10.0**power for power in _POWERS) if self.is_extended else self.l2

    @property
    def middle(self) -> float:
        """λ of the heads that the measures ask which ask a model."""
        return float(sorted(self.l2)[len(self.l2) // 2])

    def beyond(self, tried: Sequence[float], best: Sequence[float]) -> list[float]:
        """λ to try next: one step past each end at which a best head sits."""
        if not self.is_extended:
            return []
        low, high = min(tried), max(tried)
        steps = {10.0 ** (round(np.log10(high)) + 1)} if high in best else set()
        steps |= {10.0 ** (round(np.log10(low)) - 1)} if low in best else set()
        return [step for step in steps if step in self.reachable]


def _measure(name: Any) -> Measure:
    if not isinstance(name, str | Measure) and not callable(name):
        raise InputTypeError(
            f"measure is a {type(name).__name__}; need a name, or a callable of (features, labels)"
        )
    return resolve(name, use="steep.nn", feeds=("labels", "model"))


def smallest_size(measure: Measure) -> int:
    """Fewest neighbours for a measure; the variance alone makes do with two."""
    return measure.smallest_k if measure.needs_self else min(measure.smallest_k, 2)


@dataclass(frozen=True)
class Weighting:
    """One way to weigh the samples of a group, and the variation behind it."""

    measure: str
    n_neighbors: int
    weight_ratio: float
    variation: FloatArray

    @property
    def weight(self) -> FloatArray:
        """Weights of mean one."""
        return rescale(self.variation, weight_ratio=self.weight_ratio)


@dataclass(frozen=True)
class Group:
    """Heads fitted to the same samples."""

    grid: HeadGrid
    weightings: list[Weighting]
    augmented: bool

    def heads(self, l2s: Sequence[float]) -> Iterator[tuple[Candidate, Head]]:
        """Fit the heads of every λ, equal weights first."""
        for l2, (equal, *weighted) in self.grid.heads(l2s):
            yield Candidate("equal", l2, augmented=self.augmented), equal
            for w, head in zip(self.weightings, weighted, strict=True):
                yield (
                    Candidate("weighted", l2, w.weight_ratio, w.n_neighbors, w.measure, self.augmented),
                    head,
                )


@dataclass(frozen=True)
class Trial:
    """Groups of heads, and the samples they have not seen: ``units`` says which of all units those are."""

    groups: list[Group]
    held_out: Samples
    units: npt.NDArray[np.intp]


@dataclass(frozen=True)
class Final:
    """The head to join, the weights it was trained with, and the variation behind the best weights."""

    head: Head
    weights: FloatArray
    variation: FloatArray | None


@dataclass(frozen=True)
class Training:
    """All samples a head may be fitted to, and the one neighbour graph of them.

    ``pool`` holds the training samples, then their altered copies, copy by copy, then ``n_extra`` held-out samples
    that the chosen head is fitted to once more.
    """

    pool: Samples
    n_plain: int
    n_copies: int
    n_extra: int
    task: HeadTask
    grid: Grid
    original: Head
    neighbors: IntArray | None

    @classmethod
    def of(
        cls,
        plain: Samples,
        copies: list[FloatArray],
        extra: Samples | None,
        task: HeadTask,
        grid: Grid,
        original: Head,
        *,
        n_folds: int | None,
        n_jobs: int | None,
    ) -> Training:
        """Search the neighbours once, with some to spare where samples will be left out of a fit."""
        pool, n_extra = plain.with_copies(copies), 0
        if extra is not None:
            pool, n_extra = pool.followed_by(extra), len(extra)
        neighbors = None
        if grid.sizes:
            wanted = max(grid.sizes)
            share = 1 - n_extra / len(pool) if n_folds is None else 1 - 1 / n_folds
            _check_enough(wanted, int(share * len(plain)) * (1 + len(copies)), in_fold=n_folds is not None)
            known = min(n_known(wanted, share, len(copies)), len(pool))
            neighbors = search_neighbors(pool.features, known, n_jobs)
        return cls(pool, len(plain), len(copies), n_extra, task, grid, original, neighbors)

    def trial(self, held_out: Samples) -> Trial:
        """All training samples against held-out ones."""
        return Trial(self.groups(np.arange(self.n_plain)), held_out, np.arange(len(held_out)))

    def fold(self, units: npt.NDArray[np.intp]) -> Trial:
        """The other training samples, without the copies of these, against these."""
        kept = np.setdiff1d(np.arange(self.n_plain), units)
        return Trial(self.groups(kept), self.pool.rows(units), units)

    def groups(self, kept: npt.NDArray[np.intp], *, with_extra: bool = False) -> list[Group]:
        """The groups of heads that are fitted to some of the training samples: without copies, and with them."""
        extra = np.arange(len(self.pool) - self.n_extra, len(self.pool)) if with_extra else kept[:0]
        copied = [kept + self.n_plain * copy for copy in range(1 + self.n_copies)]
        groups = []
        if self.n_copies:
            groups.append(self._group(self._rows(np.concatenate([kept, extra])), [], augmented=False))
        rows = np.concatenate([*copied, extra])
        owners = np.concatenate(
            [np.tile(np.arange(len(kept)), 1 + self.n_copies), len(kept) + np.arange(len(extra))]
        )
        samples = self._rows(rows)
        weightings = self._weightings(samples, rows, owners)
        return [*groups, self._group(samples, weightings, augmented=bool(self.n_copies))]

    def final(self, search: Search, choice: Choice, trials: Sequence[Trial], *, refit: bool) -> Final:
        """The chosen head: as it was scored, or fitted once more to all that may be used."""
        chosen = search.candidates[choice.chosen]
        is_scored = len(trials) == 1 and not (refit and chosen.kind != "original")
        groups = trials[0].groups if is_scored else self.groups(np.arange(self.n_plain), with_extra=refit)
        weighting = _weighting_of(chosen, groups) or _weighting_of(_best_weighted(search, choice), groups)
        group = groups[0] if not chosen.augmented else groups[-1]
        weight = (
            weighting.weight if weighting and chosen.kind == "weighted" else np.ones(len(group.grid.samples))
        )
        head = search.heads.get(chosen) if is_scored else None
        if chosen.kind == "original":
            head = self.original
        if head is None:
            head = fit_head(group.grid.samples, self.task, weight, chosen.l2 or 0.0, original=self.original)
        variation = None if weighting is None else weighting.variation[: self.n_plain]
        return Final(head, weight[: self.n_plain], variation)

    def _rows(self, rows: npt.NDArray[np.intp]) -> Samples:
        return self.pool if len(rows) == len(self.pool) else self.pool.rows(rows)

    def _group(self, samples: Samples, weightings: list[Weighting], *, augmented: bool) -> Group:
        weights = [weighting.weight for weighting in weightings]
        heads = HeadGrid(samples, self.task, weights, original=self.original, reachable=self.grid.reachable)
        return Group(heads, weightings, augmented)

    def _weightings(
        self, samples: Samples, rows: npt.NDArray[np.intp], owners: npt.NDArray[np.intp]
    ) -> list[Weighting]:
        if self.neighbors is None:
            return []
        k = max(self.grid.sizes)
        neighbors = self.neighbors[:, :k]
        if len(rows) < len(self.pool):
            neighbors = neighbors_within(self.pool.features, self.neighbors, rows, k)
        variations = measure_variations(
            samples, self.task, neighbors, self.grid.measures, self.grid.sizes,
            original=self.original, l2=self.grid.middle, owners=owners,
        )  # fmt: skip
        return [
            Weighting(name, k, ratio, variation)
            for (name, k), variation in _different(variations).items()
            for ratio in self.grid.weight_ratio
            if ratio != 1.0
        ]


def _weighting_of(candidate: Candidate | None, groups: list[Group]) -> Weighting | None:
    """The weights a candidate was fitted with, in these groups."""
    if candidate is None or candidate.kind != "weighted":
        return None
    wanted = (candidate.measure, candidate.n_neighbors, candidate.weight_ratio)
    return next(w for w in groups[-1].weightings if (w.measure, w.n_neighbors, w.weight_ratio) == wanted)


def _best_weighted(search: Search, choice: Choice) -> Candidate | None:
    numbers = [number for (kind, _), number in choice.best.items() if kind == "weighted"]
    return search.candidates[numbers[0]] if numbers else None


def _check_enough(n_neighbors: int, n_samples: int, *, in_fold: bool) -> None:
    if n_samples < n_neighbors:
        raise InputError(
            f"n_neighbors={n_neighbors} needs at least {n_neighbors} samples, got {n_samples}"
            f"{' in a fold' if in_fold else ''}; lower n_neighbors or pass more data"
        )


def _different(variations: Variations) -> Variations:
    """Without those of a measure that are the same for another k: a caller's own measure need not know k."""
    kept: Variations = {}
    for (name, k), variation in variations.items():
        if not any(name == other and np.array_equal(variation, v) for (other, _), v in kept.items()):
            kept[name, k] = variation
    return kept


@dataclass(frozen=True)
class Search:
    """Every candidate, its score on every unit, larger is better, and, of a single trial, its head."""

    candidates: list[Candidate]
    scores: Scores
    heads: dict[Candidate, Head]

    def table(self, task: HeadTask) -> pd.DataFrame:
        """Every candidate with its mean held-out score."""
        means = [task.value(float(score.mean(dtype=np.float64))) for score in self.scores]
        return pd.DataFrame(self.candidates).assign(**{task.unit: means})


def search_heads(trials: Sequence[Trial], training: Training) -> Search:
    """Fit and score every candidate in every trial, and extend λ past the end at which a best head sits."""
    task, grid = training.task, training.grid
    n_units = sum(len(trial.units) for trial in trials)
    scores: dict[Candidate, Scores] = {}
    heads: dict[Candidate, Head] = {}

    def score(candidate: Candidate, head: Head, trial: Trial) -> None:
        found = task.scores(head.outputs(trial.held_out.features), trial.held_out.targets)
        if candidate not in scores:
            scores[candidate] = np.empty(n_units, dtype=found.dtype)
        scores[candidate][trial.units] = found
        if len(trials) == 1:
            heads[candidate] = head

    for trial in trials:
        score(Candidate("original"), training.original, trial)
    tried: list[float] = []
    wanted = list(dict.fromkeys(grid.l2))
    while wanted:
        for trial in trials:
            for group in trial.groups:
                for candidate, head in group.heads(wanted):
                    score(candidate, head, trial)
        tried += wanted
        best = best_of_kinds(list(scores), np.stack(list(scores.values())))
        wanted = grid.beyond(tried, [list(scores)[i].l2 or 0.0 for i in best.values()])
    # The strongest penalty first: of equal scores it is taken.
    candidates = sorted(scores, key=lambda c: (c.kind != "original", c.augmented, -(c.l2 or 0.0)))
    return Search(candidates, np.stack([scores[candidate] for candidate in candidates]), heads)


Kind = tuple[str, bool]


def best_of_kinds(candidates: Sequence[Candidate], scores: Scores) -> dict[Kind, int]:
    """The best candidate of each kind, without and with copies; ties go to the stronger λ."""
    means = mean_scores(scores)
    best: dict[Kind, int] = {}
    for number in sorted(range(len(candidates)), key=lambda i: (-means[i], -(candidates[i].l2 or 0.0))):
        best.setdefault((candidates[number].kind, candidates[number].augmented), number)
    return best


def mean_scores(scores: Scores) -> FloatArray:
    """Mean of every row; −∞ for a head whose outputs are not finite."""
    means = scores.mean(axis=1, dtype=np.float64)
    return np.where(np.isfinite(means), means, -np.inf)


@dataclass(frozen=True)
class Choice:
    """The candidate chosen, the best of each kind, and the evidence against the original head.

    ``evidence`` has a row for each candidate but the first, the original; it is None where that head's scores are not
    finite, and nothing can be compared with them.
    """

    chosen: int
    best: dict[Kind, int]
    evidence: Evidence | None


def choose(
    candidates: Sequence[Candidate],
    scores: Scores,
    *,
    confidence: float,
    test_ratio: float = 0.0,
    random_state: int = 0,
) -> Choice:
    """Choose by the scores of the same units: the first candidate is the original head.

    Parameters
    ----------
    candidates, scores
        As of :class:`Search`, the original head first.
    confidence : float
        See :func:`steep.evidence.weigh_evidence`.
    test_ratio : float, default 0
        For the interval; 0 where heads were fitted to other samples than the units.
    random_state : int, default 0
        Seed of the random signs.
    """
    rng = np.random.default_rng(random_state)
    means, best = mean_scores(scores), best_of_kinds(candidates, scores)
    rows: dict[str, list[int]] = {"equal": [], "weighted": []}
    for number, candidate in enumerate(candidates[1:], start=1):
        if np.isfinite(means[number]):
            rows[candidate.kind].append(number)
    eligible = list(rows["equal"])
    if rows["weighted"] and eligible:
        control = max(eligible, key=lambda i: means[i])
        found = weigh_evidence(_differences(scores, rows["weighted"], control), test_ratio, confidence, rng)
        eligible += [i for i, counts in zip(rows["weighted"], found.counts, strict=True) if counts]
    evidence = None
    if np.isfinite(means[0]):
        every = list(range(1, len(candidates)))
        evidence = weigh_evidence(_differences(scores, every, 0), test_ratio, confidence, rng)
        eligible = [i for i in eligible if evidence.counts[i - 1]]
    return Choice(max(eligible, key=lambda i: means[i], default=0), best, evidence)


def _differences(scores: Scores, rows: Sequence[int], control: int) -> FloatArray:
    differences: FloatArray = np.subtract(scores[list(rows)], scores[control], dtype=np.float32)
    return differences
