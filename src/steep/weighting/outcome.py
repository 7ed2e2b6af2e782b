"""What a weighting search concludes: the choice by the rule of evidence, in words and as a table.

A control other than equal weights is preferred when it beats them; a weighting is chosen when it beats the
preferred control. What beats a control only by having been chosen (its stated gain is 0) is not preferred to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steep._validation import FloatArray
from steep.evidence import NO_GAIN, Evidence, Score, weigh_evidence
from steep.metrics import Interval
from steep.weighting.candidates import BALANCED, EQUAL, ROBUST, THRESHOLD, WeightingCandidate


@dataclass(frozen=True)
class Outcome:
    """Equal weights, the control that weightings had to beat, and the choice.

    ``interval`` is the gain of the choice over the control it had to beat, corrected for choosing it, zero for equal
    weights; ``evidence`` that of the weightings, ``rivals``.
    """

    equal: int
    control: int
    chosen: int
    interval: Interval
    rivals: list[int]
    evidence: Evidence | None


def conclude(
    candidates: Sequence[WeightingCandidate], scores: FloatArray, test_ratio: float, confidence: float,
    generator: np.random.Generator,
) -> Outcome:  # fmt: skip
    """Choose the control by evidence, then a weighting if one beats it; ``scores`` are ``(n_candidates, n_folds)``."""

    def beaten(control: int, rivals: list[int]) -> Evidence | None:
        differences = scores[rivals] - scores[control]
        return weigh_evidence(differences, test_ratio, confidence, generator) if rivals else None

    kinds = [candidate.control for candidate in candidates]
    equal = kinds.index(EQUAL)
    others = [i for i, kind in enumerate(kinds) if kind in (BALANCED, THRESHOLD, ROBUST)]
    rivals = [i for i, kind in enumerate(kinds) if kind is None]
    control, interval = equal, NO_GAIN
    if (first := beaten(equal, others)) is not None and first.chosen is not None and first.kept_share > 0:
        control, interval = others[first.chosen], first.stated(first.chosen)
    evidence = beaten(control, rivals)
    if evidence is None or evidence.chosen is None or evidence.kept_share == 0:
        return Outcome(equal, control, control, interval, rivals, evidence)
    return Outcome(equal, control, rivals[evidence.chosen], evidence.stated(evidence.chosen), rivals, evidence)


def bounded(outcome: Outcome, scores: FloatArray, score: Score) -> Interval:
    """The gain of the choice, with an interval that stays in the range of the score."""
    if outcome.interval.n == 0:
        return outcome.interval
    beaten = outcome.equal if outcome.chosen == outcome.control else outcome.control
    return score.within(outcome.interval, float(np.nanmean(scores[beaten])))


def in_words(
    outcome: Outcome, candidates: Sequence[WeightingCandidate], scores: FloatArray, score: Score, *, of_folds: int,
    confidence: float,
) -> str:  # fmt: skip
    """The outcome in sentences; the search ended early if not all of ``of_folds`` were scored."""
    means, n_folds = np.nanmean(scores, axis=1), scores.shape[1]
    sentences = [_choice(outcome, candidates, means, score, n_folds, of_folds)]
    if outcome.evidence is not None and outcome.chosen == outcome.control and n_folds == of_folds:
        nearest = outcome.evidence.nearest
        gain = outcome.evidence.interval(nearest)
        words = score.describe(gain, float(means[outcome.control]))
        sentences.append(f"The closest, {candidates[outcome.rivals[nearest]]}, {words} over {gain.n} paired fits.")
    sentences += _reached(candidates, scores.mean(axis=1), score)
    if n_folds < of_folds and outcome.chosen != outcome.equal:
        sentences.append(f"The budget of fits ended after {n_folds} of {of_folds} folds.")
    # No gain could count where one of the 2^J ways to choose signs is a larger share than is allowed.
    if 0.5**of_folds > 1 - confidence and outcome.chosen == outcome.equal:
        sentences.append(f"{of_folds} folds are too few for confidence={confidence:g}; raise cv or n_repeats.")
    return " ".join(sentences)


_WHAT = {BALANCED: "Balancing the classes", THRESHOLD: "Tuning the decision threshold", ROBUST: "A robust loss"}


def _choice(
    outcome: Outcome, candidates: Sequence[WeightingCandidate], means: FloatArray, score: Score, n_folds: int,
    of_folds: int,
) -> str:  # fmt: skip
    chosen, control = candidates[outcome.chosen], candidates[outcome.control]
    n_rivals = len(outcome.rivals)
    beaten = f"none of {n_rivals} weightings beat" if n_rivals > 1 else "the one weighting did not beat"
    if chosen.measure is not None:
        gain = score.describe(outcome.interval, float(means[outcome.control]))
        over = "" if control.control == EQUAL else f", compared with {control}"
        sure = "" if outcome.interval.excludes_zero else " It passed the test; how large the gain is, is uncertain."
        return f"Weighting by {chosen} {gain} over {outcome.interval.n} paired fits{over}.{sure}"
    if chosen.control == EQUAL:
        why = f"{beaten} them" if n_rivals else "no other weight_ratio was tried"
        if n_rivals and n_folds < of_folds:
            who = f"none of {n_rivals} weightings was" if n_rivals > 1 else "the one weighting was not"
            why = f"{who} clearly ahead after {n_folds} of {of_folds} folds"
        return f"Equal weights are kept: {why}."
    gain = score.describe(outcome.interval, float(means[outcome.equal]))
    after = f"; {beaten} that" if n_rivals else ""
    return f"{_WHAT[str(chosen.control)]} {gain} over {outcome.interval.n} paired fits{after}."


def _reached(candidates: Sequence[WeightingCandidate], means: FloatArray, score: Score) -> list[str]:
    """What each control reaches, where several were scored on all folds; ``means`` are NaN for the others."""
    found = zip(candidates, means, strict=True)
    reached = {c.control: mean for c, mean in found if c.control is not None and np.isfinite(mean)}
    if len(reached) < 2:
        return []
    sign = -1.0 if score.is_error else 1.0
    figures = ", ".join(f"{sign * score.factor * mean:.3g}{score.unit} with {kind}" for kind, mean in reached.items())
    return [f"For comparison, {score.title} is {figures}."]


def results_table(
    candidates: Sequence[WeightingCandidate], scores: FloatArray, names: list[str], equal: int, test_ratio: float
) -> dict[str, Any]:
    """One row per candidate, gains over equal weights; means are over the folds a candidate was fitted on."""
    n_folds = (~np.isnan(scores[:, :, 0])).sum(axis=1)
    table: dict[str, Any] = {
        "control": np.array([c.control for c in candidates], dtype=object),
        "measure": np.array([c.measure and c.measure.name for c in candidates], dtype=object),
        "n_neighbors": np.array([c.n_neighbors for c in candidates], dtype=object),
        "weight_ratio": np.array([c.weight_ratio for c in candidates]),
        "n_folds": n_folds,
    }
    for column, name in enumerate(names):
        gains = scores[:, :, column] - scores[equal, :, column]
        table[f"mean_test_{name}"] = np.nanmean(scores[:, :, column], axis=1)
        for fold in range(scores.shape[1]):
            table[f"split{fold}_test_{name}"] = scores[:, fold, column]
        table[f"std_test_{name}"] = np.nanstd(scores[:, :, column], axis=1)
        table[f"mean_gain_{name}"] = np.nanmean(gains, axis=1)
        table[f"se_gain_{name}"] = np.nanstd(gains, axis=1, ddof=1) * np.sqrt(1 / n_folds + test_ratio)
    return table
