"""Scores by name, the worst-case ones included, and how a gain in them is put into words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sklearn.metrics import check_scoring, get_scorer, make_scorer, max_error

from steep.exceptions import InputError
from steep.metrics import Interval, worst_decile_error

Scorer = Callable[..., float]

WORST_CASE: dict[str, Scorer] = {
    "worst_decile": make_scorer(worst_decile_error, greater_is_better=False),
    "max_error": make_scorer(max_error, greater_is_better=False),
}

# Scores between 0 and 1, whose gains people read in points.
_IN_POINTS = (
    "accuracy",
    "balanced_accuracy",
    "f1",
    "precision",
    "recall",
    "roc_auc",
    "jaccard",
    "top_k_accuracy",
)


def resolve_scorers(estimator: Any, scoring: Any) -> dict[str, Scorer]:
    """Return the scorers asked for, by name; the first one decides."""
    if scoring is None or callable(scoring):
        scorer = check_scoring(estimator, scoring=scoring)
        return {getattr(scoring, "__name__", "score"): scorer}
    if isinstance(scoring, str):
        return {scoring: _named(scoring)}
    if isinstance(scoring, Mapping):
        return {name: _named(scorer) for name, scorer in scoring.items()}
    return {name: _named(name) for name in scoring}


def _named(scorer: Any) -> Scorer:
    if callable(scorer):
        return scorer  # type: ignore[no-any-return]
    if scorer in WORST_CASE:
        return WORST_CASE[scorer]
    try:
        found: Scorer = get_scorer(scorer)
    except ValueError as error:
        raise InputError(
            f"scoring={scorer!r} is unknown; need a scikit-learn scorer, {' or '.join(map(repr, WORST_CASE))}"
        ) from error
    return found


def describe_gain(name: str, interval: Interval, control: float) -> str:
    """Put a gain into words: "raises accuracy by 1.6 points (95 % interval 1.1 to 2.1, 50 paired fits)"."""
    is_error = name.startswith("neg_") or name in WORST_CASE
    title = name.removeprefix("neg_").replace("_", " ")
    scale, unit = (100.0, " points") if name.startswith(_IN_POINTS) or name == "score" else (1.0, "")
    better = interval.mean >= 0
    verb = "lowers" if is_error == better else "raises"
    sign = 1 if better else -1
    low, high = sorted((sign * scale * interval.low, sign * scale * interval.high))
    relative = f", {abs(interval.mean / control):.1%}" if not unit and control else ""
    return (
        f"{verb} {title} by {abs(scale * interval.mean):.3g}{unit}{relative} (95 % interval {low:.3g} to {high:.3g}, "
        f"{interval.n} paired fits)"
    )
