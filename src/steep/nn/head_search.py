"""Which head: fit every candidate, score it on samples it has not seen, and choose by the evidence.

The first score asked for decides; the others are told beside it. The choice has two steps, both by
:mod:`steep.evidence`: a weighted head is eligible if it beats the best equal-weight
head; of the eligible heads that beat the original one the best is chosen. Scores of cells are chosen by in
:mod:`steep.nn.crossed_choice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steep._validation import FloatArray
from steep.evidence import Evidence, weigh_evidence, weigh_resamples
from steep.metrics import Interval
from steep.nn.blends import blend
from steep.nn.candidates import Candidate, Group, Training, Trial
from steep.nn.heads import Head, fit_head
from steep.nn.scoring import Array, CellScore, MeanScore, WholeScore
from steep.nn.weightings import Weighting

Kind = tuple[str, bool, bool, bool]


@dataclass(frozen=True)
class Search:
    """Every candidate with its scores, larger is better, and, of a single trial, its head.

    ``values`` has a row for each score and a column for each candidate; ``kept`` is what the deciding score knows of
    the candidates' answers, sample by sample.
    """

    candidates: list[Candidate]
    scores: list[MeanScore]
    values: FloatArray
    kept: Array
    heads: dict[Candidate, Head]

    def table(self) -> pd.DataFrame:
        """Every candidate with its held-out scores."""
        columns = {
            score.unit: [score.shown(value) for value in row]
            for score, row in zip(self.scores, self.values.tolist(), strict=True)
        }
        how = [
            {name: value for name, value in vars(candidate).items() if name != "blend"}
            | {"blend": None if candidate.blend is None else str(candidate)}
            for candidate in self.candidates
        ]
        return pd.DataFrame(how).assign(**columns)


class _Kept:
    """What every score knows of every candidate, filled in trial by trial."""

    def __init__(self, scores: Sequence[MeanScore], n_units: int, *, with_heads: bool) -> None:
        self.scores, self.n_units, self.with_heads = scores, n_units, with_heads
        self.arrays: dict[Candidate, list[Array]] = {}
        self.heads: dict[Candidate, Head] = {}

    def add(self, candidate: Candidate, head: Head, trial: Trial) -> None:
        """Score a head on the samples of a trial."""
        outputs = head.outputs(trial.held_out.features)
        found = [score.keep(outputs, trial.units) for score in self.scores]
        if candidate not in self.arrays:
            self.arrays[candidate] = [np.empty((self.n_units, *rows.shape[1:]), rows.dtype) for rows in found]
        for array, rows in zip(self.arrays[candidate], found, strict=True):
            array[trial.units] = rows
        if self.with_heads:
            self.heads[candidate] = head

    def stacked(self, candidates: Sequence[Candidate], score: int = 0) -> Array:
        """Of one score, a row for each candidate."""
        return np.stack([self.arrays[candidate][score] for candidate in candidates])


def search_heads(trials: Sequence[Trial], training: Training, scores: Sequence[MeanScore]) -> Search:
    """Fit and score every candidate in every trial, and extend λ past the end at which a best head sits."""
    grid = training.grid
    n_units = sum(len(trial.units) for trial in trials)
    kept = _Kept(scores, n_units, with_heads=len(trials) == 1)
    for trial in trials:
        kept.add(Candidate("original"), training.original, trial)
    values = {Candidate("original"): float(scores[0].values(kept.stacked([Candidate("original")]))[0])}
    tried: list[float] = []
    wanted = list(dict.fromkeys(grid.l2))
    while wanted:
        for trial in trials:
            for group in trial.groups:
                for candidate, head in group.heads(wanted):
                    kept.add(candidate, head, trial)
        fresh = [candidate for candidate in kept.arrays if candidate not in values]
        values |= dict(zip(fresh, scores[0].values(kept.stacked(fresh)).tolist(), strict=True))
        tried += wanted
        best = best_of_kinds(list(values), np.array(list(values.values())))
        # What holds a head near the original one more and more ends there: no reason to go on.
        ends = [list(values)[i].l2 or 0.0 for (*_, anchored), i in best.items() if not anchored]
        wanted = grid.beyond(tried, ends)
    # The strongest penalty first: of equal scores it is taken.
    candidates = sorted(
        values, key=lambda c: (c.kind != "original", c.augmented, c.reweighted, c.anchored, -(c.l2 or 0.0))
    )
    others = [score.values(kept.stacked(candidates, i)) for i, score in enumerate(scores) if i]
    table = np.stack([np.array([values[candidate] for candidate in candidates]), *others])
    return Search(candidates, list(scores), table, kept.stacked(candidates), kept.heads)


def best_of_kinds(candidates: Sequence[Candidate], values: FloatArray) -> dict[Kind, int]:
    """The best candidate of each kind, by what it was fitted to; ties go to the stronger λ."""
    best: dict[Kind, int] = {}
    for number in sorted(range(len(candidates)), key=lambda i: (-values[i], -(candidates[i].l2 or 0.0))):
        candidate = candidates[number]
        kind = candidate.kind, candidate.augmented, candidate.reweighted, candidate.anchored
        best.setdefault(kind, number)
    return best


@dataclass(frozen=True)
class Choice:
    """The candidate chosen, the best of each kind, and the evidence against the original head.

    ``evidence`` has a row for each candidate but the first, the original; it is None where that head's scores are not
    finite, and nothing can be compared with them. ``gain`` is that of the chosen head where the choice was scored on
    samples it was not made by; else it is the evidence's.
    """

    chosen: int
    best: dict[Kind, int]
    evidence: Evidence | None
    gain: Interval | None = None


def choose(search: Search, *, confidence: float, test_ratio: float = 0.0, random_state: int = 0) -> Choice:
    """Choose by the deciding score on the same samples: the first candidate is the original head.

    Parameters
    ----------
    search : Search
        The candidates, the original head first.
    confidence : float
        See :func:`steep.evidence.weigh_evidence`.
    test_ratio : float, default 0
        For the interval; 0 where heads were fitted to other samples than the units.
    random_state : int, default 0
        Seed of the random signs, or of the resamples.
    """
    compare = _Comparison(search, confidence, test_ratio, np.random.default_rng(random_state))
    candidates, values = search.candidates, search.values[0]
    rows: dict[str, list[int]] = {"equal": [], "weighted": []}
    for number, candidate in enumerate(candidates[1:], start=1):
        if np.isfinite(values[number]):
            rows[candidate.kind].append(number)
    eligible = list(rows["equal"])
    if rows["weighted"] and eligible:
        found = compare(rows["weighted"], max(eligible, key=lambda i: values[i]))
        eligible += [i for i, counts in zip(rows["weighted"], found.counts, strict=True) if counts]
    evidence = None
    if np.isfinite(values[0]):
        evidence = compare(list(range(1, len(candidates))), 0)
        eligible = [i for i in eligible if evidence.counts[i - 1]]
    best = best_of_kinds(candidates, values)
    return Choice(max(eligible, key=lambda i: values[i], default=0), best, evidence)


def evidence_against_original(
    search: Search, confidence: float, test_ratio: float, generator: np.random.Generator
) -> Evidence | None:
    """Evidence for every candidate but the first, against it; None where that head gives no numbers."""
    if not np.isfinite(search.values[0][0]):
        return None
    compare = _Comparison(search, confidence, test_ratio, generator)
    return compare(list(range(1, len(search.candidates))), 0)


class _Comparison:
    """Weigh candidates against a control, by pairs or by resamples as the score asks; resamples are drawn once."""

    def __init__(
        self, search: Search, confidence: float, test_ratio: float, generator: np.random.Generator
    ) -> None:
        self.search, self.confidence, self.test_ratio = search, confidence, test_ratio
        self.generator, self.drawn = generator, None
        score = search.scores[0]
        if isinstance(score, CellScore | WholeScore):
            self.drawn = score.resamples(search.kept, generator)

    def __call__(self, rows: Sequence[int], control: int) -> Evidence:
        """Evidence for each of these candidates; nothing is gained by a head that gives no numbers."""
        search = self.search
        if self.drawn is None:
            return weigh_evidence(
                _differences(search.kept, rows, control), self.test_ratio, self.confidence, self.generator
            )
        with np.errstate(invalid="ignore"):
            gains = search.values[0][list(rows)] - search.values[0][control]
            resampled = self.drawn[list(rows)] - self.drawn[control]
        broken = ~np.isfinite(gains) | ~np.isfinite(resampled).all(axis=1)
        gains[broken], resampled[broken] = 0.0, 0.0
        return weigh_resamples(gains, resampled, search.kept.shape[1], self.test_ratio, self.confidence)


def _differences(scores: Array, rows: Sequence[int], control: int) -> FloatArray:
    """Score of each row minus that of the control, unit by unit; nothing is gained by a head that gives no numbers."""
    differences: FloatArray = np.subtract(scores[list(rows)], scores[control], dtype=np.float32)
    differences[~np.isfinite(differences).all(axis=1)] = 0.0
    return differences


@dataclass(frozen=True)
class Final:
    """The head to join, the weights it was trained with, and the variation behind the best weights."""

    head: Head
    weights: FloatArray
    variation: FloatArray | None


def final_head(
    training: Training, search: Search, choice: Choice, trials: Sequence[Trial], *, refit: bool
) -> Final:
    """The chosen head: as it was scored, or fitted once more to all that may be used.

    ``training`` is that of the data the chosen head was fitted to.
    """
    chosen = search.candidates[choice.chosen]
    is_scored = len(trials) == 1 and not (refit and chosen.kind != "original")
    if is_scored:
        groups = [group for group in trials[0].groups if group.reweighted == chosen.reweighted]
    else:
        groups = training.groups(np.arange(training.n_plain), with_extra=refit)
    known = search.heads if is_scored else {}
    fitted = [_fitted(part, training, groups, known) for part in chosen.blend or (chosen,)]
    head = fitted[0][0] if chosen.blend is None else blend(fitted[0][0], fitted[1][0], training.task)
    weights = [weight[: training.n_plain] for _, weight, _ in fitted]
    measured = [w for _, _, w in fitted if w is not None and w.variation is not None]
    behind = measured[0] if measured else _best_measured(search, groups)
    variation = None if behind is None else behind.variation
    return Final(head, np.mean(weights, axis=0), None if variation is None else variation[: training.n_plain])


def _fitted(
    candidate: Candidate, training: Training, groups: list[Group], known: dict[Candidate, Head]
) -> tuple[Head, FloatArray, Weighting | None]:
    """A candidate's head, as it was scored or fitted anew, the weights it was fitted with and where they are from."""
    alike = [g for g in groups if (g.augmented, g.anchored) == (candidate.augmented, candidate.anchored)]
    group = alike[0] if alike else groups[0]
    weighting = _weighting_of(candidate, group)
    weight = np.ones(len(group.grid.rows)) if weighting is None else weighting.weight
    head = training.original if candidate.kind == "original" else known.get(candidate)
    if head is None:
        head = fit_head(
            group.grid.samples, training.task, weight, candidate.l2 or 0.0, original=training.original,
            anchored=candidate.anchored,
        )  # fmt: skip
    return head, weight, weighting


def _weighting_of(candidate: Candidate, group: Group) -> Weighting | None:
    """The weights a candidate was fitted with, in this group."""
    wanted = (candidate.measure, candidate.n_neighbors, candidate.weight_ratio)
    return next((w for w in group.weightings if w.key == wanted), None)


def _best_measured(search: Search, groups: list[Group]) -> Weighting | None:
    """The weights of the best head whose weights follow a measure."""
    ranked = sorted(range(len(search.candidates)), key=lambda i: -search.values[0][i])
    for candidate in (search.candidates[i] for i in ranked):
        if candidate.measure is not None and candidate.reweighted == groups[0].reweighted:
            found = (_weighting_of(candidate, group) for group in groups)
            return next((weighting for weighting in found if weighting is not None), None)
    return None
