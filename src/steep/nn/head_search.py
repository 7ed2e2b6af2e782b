"""Which head: fit every candidate, score it on samples it has not seen, and choose by the evidence.

The choice has two steps, both by :mod:`steep.evidence`: a weighted head is eligible if it beats the best equal-weight
head; of the eligible heads that beat the original one the best is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steep._validation import FloatArray
from steep.evidence import Evidence, weigh_evidence
from steep.nn.candidates import Candidate, Group, Training, Trial, Weighting
from steep.nn.heads import Head, HeadTask, fit_head
from steep.nn.heads.task import Scores

Kind = tuple[str, bool]


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
    """The chosen head: as it was scored, or fitted once more to all that may be used."""
    chosen = search.candidates[choice.chosen]
    is_scored = len(trials) == 1 and not (refit and chosen.kind != "original")
    groups = trials[0].groups if is_scored else training.groups(np.arange(training.n_plain), with_extra=refit)
    weighting = _weighting_of(chosen, groups) or _weighting_of(_best_weighted(search, choice), groups)
    group = groups[0] if not chosen.augmented else groups[-1]
    weight = weighting.weight if weighting and chosen.kind == "weighted" else np.ones(len(group.grid.rows))
    head = search.heads.get(chosen) if is_scored else None
    if chosen.kind == "original":
        head = training.original
    if head is None:
        head = fit_head(
            group.grid.samples, training.task, weight, chosen.l2 or 0.0, original=training.original
        )
    variation = None if weighting is None else weighting.variation[: training.n_plain]
    return Final(head, weight[: training.n_plain], variation)


def _weighting_of(candidate: Candidate | None, groups: list[Group]) -> Weighting | None:
    """The weights a candidate was fitted with, in these groups."""
    if candidate is None or candidate.kind != "weighted":
        return None
    wanted = (candidate.measure, candidate.n_neighbors, candidate.weight_ratio)
    return next(w for w in groups[-1].weightings if (w.measure, w.n_neighbors, w.weight_ratio) == wanted)


def _best_weighted(search: Search, choice: Choice) -> Candidate | None:
    numbers = [number for (kind, _), number in choice.best.items() if kind == "weighted"]
    return search.candidates[numbers[0]] if numbers else None
