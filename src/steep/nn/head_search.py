"""Fit every candidate and score it on samples it has not seen; :mod:`steep.nn.crossed_choice` chooses among them.

The first score asked for decides; the others are reported with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steep._validation import FloatArray
from steep.nn.blends import blend
from steep.nn.candidates import Candidate, Group, Training, Trial
from steep.nn.heads import Head
from steep.nn.scoring import Array, MeanScore
from steep.nn.weightings import Weighting

Kind = tuple[str, bool, bool]
ORIGINAL = Candidate("original")


@dataclass(frozen=True)
class Search:
    """Every candidate with its scores, larger is better, and its head; the original one first.

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
        return settings_table(self.candidates).assign(**columns)


def settings_table(candidates: Sequence[Candidate]) -> pd.DataFrame:
    """How every candidate was fitted."""
    return pd.DataFrame(
        {name: value for name, value in vars(candidate).items() if name != "blend"}
        | {"blend": None if candidate.blend is None else str(candidate)}
        for candidate in candidates
    )


class _Kept:
    """What every score knows of every candidate."""

    def __init__(self, scores: Sequence[MeanScore], trial: Trial) -> None:
        self.scores, self.features = scores, trial.held_out.features
        self.everyone = np.arange(len(trial.held_out))
        self.arrays: dict[Candidate, list[Array]] = {}
        self.heads: dict[Candidate, Head] = {}

    def add(self, candidate: Candidate, head: Head) -> None:
        """Score a head."""
        outputs = head.outputs(self.features)
        self.arrays[candidate] = [score.keep(outputs, self.everyone) for score in self.scores]
        self.heads[candidate] = head

    def stacked(self, candidates: Sequence[Candidate], score: int = 0) -> Array:
        """Of one score, a row for each candidate."""
        return np.stack([self.arrays[candidate][score] for candidate in candidates])


def search_heads(trial: Trial, training: Training, scores: Sequence[MeanScore]) -> Search:
    """Fit and score every candidate, and extend λ past the end at which a best head sits."""
    grid = training.grid
    kept = _Kept(scores, trial)
    kept.add(ORIGINAL, training.original)
    values = {ORIGINAL: float(scores[0].values(kept.stacked([ORIGINAL]))[0])}
    tried: list[float] = []
    wanted = list(dict.fromkeys(grid.l2))
    while wanted:
        for group in trial.groups:
            for candidate, head in group.heads(wanted):
                kept.add(candidate, head)
        fresh = [candidate for candidate in kept.arrays if candidate not in values]
        values |= dict(zip(fresh, scores[0].values(kept.stacked(fresh)).tolist(), strict=True))
        tried += wanted
        best = best_of_kinds(list(values), np.array(list(values.values())))
        # What holds a head near the original one more and more ends there: no reason to go on.
        ends = [list(values)[i].l2 or 0.0 for (*_, anchored), i in best.items() if not anchored]
        wanted = grid.beyond(tried, ends)
    # The strongest penalty first: of equal scores it is taken.
    candidates = sorted(values, key=lambda c: (c.kind != "original", c.reweighted, c.anchored, -(c.l2 or 0.0)))
    others = [score.values(kept.stacked(candidates, i)) for i, score in enumerate(scores) if i]
    table = np.stack([np.array([values[candidate] for candidate in candidates]), *others])
    return Search(candidates, list(scores), table, kept.stacked(candidates), kept.heads)


def best_of_kinds(candidates: Sequence[Candidate], values: FloatArray) -> dict[Kind, int]:
    """The best candidate of each kind, by what it was fitted to; ties go to the stronger λ."""
    best: dict[Kind, int] = {}
    for number in sorted(range(len(candidates)), key=lambda i: (-values[i], -(candidates[i].l2 or 0.0))):
        candidate = candidates[number]
        best.setdefault((candidate.kind, candidate.reweighted, candidate.anchored), number)
    return best


@dataclass(frozen=True)
class Final:
    """The head to join, the weights it was trained with, and the variation behind the best weights."""

    head: Head
    weights: FloatArray
    variation: FloatArray | None


def final_head(training: Training, search: Search, chosen: Candidate, trial: Trial) -> Final:
    """The chosen head, as it was scored; ``training`` is that of the data it was fitted to."""
    groups = [group for group in trial.groups if group.reweighted == training.is_reweighting]
    parts = chosen.blend or (chosen,)
    heads = [search.heads[part] for part in parts]
    head = heads[0] if chosen.blend is None else blend(heads[0], heads[1], training.task)
    weightings = [_weighting_of(part, groups) for part in parts]
    weights = [np.ones(len(training.samples)) if w is None else w.weight for w in weightings]
    measured = [w for w in weightings if w is not None and w.variation is not None]
    behind = measured[0] if measured else _best_measured(search, groups)
    return Final(head, np.mean(weights, axis=0), None if behind is None else behind.variation)


def _weighting_of(candidate: Candidate, groups: list[Group]) -> Weighting | None:
    """The weights a candidate was fitted with."""
    wanted = (candidate.measure, candidate.n_neighbors, candidate.weight_ratio)
    return next((w for group in groups for w in group.weightings if w.key == wanted), None)


def _best_measured(search: Search, groups: list[Group]) -> Weighting | None:
    """The weights of the best head whose weights follow a measure."""
    ranked = sorted(range(len(search.candidates)), key=lambda i: -search.values[0][i])
    for candidate in (search.candidates[i] for i in ranked):
        if candidate.measure is not None and candidate.reweighted == groups[0].reweighted:
            return _weighting_of(candidate, groups)
    return None
