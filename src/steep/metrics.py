"""Errors, intervals of means, and scorers by name: scikit-learn's and the worst-case ones; many models at once.

scikit-learn checks its arguments again at every call, which makes a search three times as long: :func:`quick_scores`
computes accuracy and the errors of numbers for all models together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn import metrics
from sklearn.metrics import check_scoring, get_scorer, make_scorer

from steep._sklearn import is_own_score, scored_predictions
from steep._validation import FloatArray, check_numbers, check_sample_weight, check_vector
from steep.exceptions import InputError, InputTypeError

Scorer = Callable[..., float]


@dataclass(frozen=True)
class Interval:
    """A mean and its two-sided confidence interval from ``n`` values.

    Examples
    --------
    >>> gain = Interval(0.5, 0.2, 0.8, n=10)
    >>> print(gain, gain.excludes_zero)
    0.5 ± 0.3 True
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """The ± of ``mean ± half_width``."""
        return (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies wholly on one side of zero."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.half_width:.2g}"


def linf_error(y_true: Any, y_pred: Any, sample_weight: Any = None) -> float:
    """Largest absolute error over points and outputs; points of weight zero do not count."""
    errors = np.abs(difference(y_true, y_pred)).max(axis=1)
    return float(errors[check_sample_weight(sample_weight, len(errors)) > 0].max())


def worst_decile_error(y_true: Any, y_pred: Any, sample_weight: Any = None) -> float:
    """Mean absolute error of the tenth of the samples, or of their weight, that is predicted worst."""
    errors = np.abs(difference(y_true, y_pred)).max(axis=1)
    if sample_weight is None:
        return float(np.sort(errors)[-max(1, round(len(errors) / 10)) :].mean())
    worst_first = np.argsort(-errors, kind="stable")
    weights = check_sample_weight(sample_weight, len(errors))[worst_first]
    tenth = weights.sum() / 10
    counted = np.clip(tenth - (np.cumsum(weights) - weights), 0.0, weights)
    return float(counted @ errors[worst_first] / counted.sum())


WORST_CASE: dict[str, Scorer] = {
    "worst_decile": make_scorer(worst_decile_error, greater_is_better=False),
    "max_error": make_scorer(linf_error, greater_is_better=False),
}


def resolve_scorers(estimator: Any, scoring: Any) -> dict[str, Scorer]:
    """The scorers asked for, by name; the first one decides, and the default is the estimator's own ``score``."""
    if scoring is None:
        try:
            return {"score": check_scoring(estimator)}
        except TypeError as error:
            raise InputTypeError(
                f"{type(estimator).__name__} has no score method; expected scoring, the name of a scorer or a callable"
            ) from error
    if isinstance(scoring, str):
        return {scoring: _named_scorer(scoring)}
    if callable(scoring):
        return {getattr(scoring, "__name__", "score"): scoring}
    if isinstance(scoring, Mapping):
        scorers = {str(name): _named_scorer(scorer) for name, scorer in scoring.items()}
    elif isinstance(scoring, Iterable) and getattr(scoring, "ndim", None) != 0:  # an array of no dimension is a scalar
        scorers = {getattr(s, "__name__", s if isinstance(s, str) else "score"): _named_scorer(s) for s in scoring}
    else:
        raise _unknown_scorer(scoring)
    if not scorers:
        raise InputError(f"scoring={scoring!r} is empty; expected at least one scorer; leave it out for the default")
    return scorers


def _named_scorer(scorer: Any) -> Scorer:
    if callable(scorer):
        return scorer  # type: ignore[no-any-return]
    if not isinstance(scorer, str):
        raise _unknown_scorer(scorer)
    try:
        return WORST_CASE[scorer] if scorer in WORST_CASE else get_scorer(scorer)
    except ValueError as error:
        raise _unknown_scorer(scorer) from error


def _unknown_scorer(scorer: Any) -> InputError:
    return InputError(
        f"scoring={scorer!r} is unknown; expected a scikit-learn scorer, {' or '.join(map(repr, WORST_CASE))}"
    )


def mean_interval(scores: Any, *, name: str = "scores") -> Interval:
    """Mean over repeats with Student's interval at 95 %.

    Examples
    --------
    >>> print(mean_interval([1.0, 2.0, 3.0]))
    2 ± 2.5
    """
    values = check_vector(scores, name=name)
    if values.size < 2:
        raise InputError(f"{name} has {values.size} value; expected at least 2 repeats for an interval; run more")
    mean = float(values.mean())
    half = float(stats.t.ppf(0.975, values.size - 1)) * float(values.std(ddof=1) / np.sqrt(values.size))
    return Interval(mean, mean - half, mean + half, values.size)


def paired_interval(baseline: Any, new: Any) -> Interval:
    """Interval of the mean difference ``new − baseline`` over paired repeats (same seed, same split)."""
    first = check_vector(baseline, name="baseline")
    return mean_interval(check_vector(new, name="new", n_samples=len(first)) - first, name="baseline")


def difference(y_true: Any, y_pred: Any) -> FloatArray:
    """y − ŷ, ``(n_samples, n_outputs)``, of arrays of one shape."""
    true, predicted = check_numbers(y_true, name="y_true"), check_numbers(y_pred, name="y_pred")
    if true.shape != predicted.shape or true.ndim not in (1, 2) or not true.size:
        raise InputError(
            f"y_true has shape {true.shape} and y_pred {predicted.shape}; expected the same (n_samples,) or "
            "(n_samples, n_outputs)"
        )
    return np.asarray((true - predicted).reshape(len(true), -1))


def quick_scores(
    scorer: Any, target: Any, predicted: Any, weight: FloatArray | None, *, is_classifier: bool
) -> FloatArray | None:
    """Score every row of ``predicted``, ``(n_models, n_samples)``, or None if the scorer has to be asked.

    Targets and predictions are codes of classes, or numbers; an estimator's own score is accuracy or R².
    """
    sign, function = 1.0, metrics.accuracy_score if is_classifier else metrics.r2_score
    if not is_own_score(scorer):
        found = scored_predictions(scorer)
        if found is None:
            return None
        function, sign = found
    if is_classifier and function is metrics.accuracy_score:
        return sign * _mean((predicted == target).astype(np.float64), weight)
    if is_classifier or function not in _OF_ERRORS:
        return None
    scores = _OF_ERRORS[function](predicted - target, target, weight)
    return None if scores is None else sign * np.asarray(scores)


def _mean(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    return np.asarray(values.mean(axis=-1) if weight is None else values @ weight / weight.sum())


def _r2(errors: FloatArray, target: FloatArray, weight: FloatArray | None) -> FloatArray | None:
    spread = _mean((target - _mean(target, weight)) ** 2, weight)
    return None if len(target) < 2 or spread == 0 else np.asarray(1 - _mean(errors**2, weight) / spread)


def _largest(errors: FloatArray, target: FloatArray, weight: FloatArray | None) -> FloatArray:
    return np.asarray(np.abs(errors)[:, slice(None) if weight is None else weight > 0].max(axis=1))


# Scores as functions of errors, targets and weights.
_OF_ERRORS: dict[Callable[..., Any], Callable[[FloatArray, Any, FloatArray | None], FloatArray | None]] = {
    metrics.r2_score: _r2,
    metrics.mean_squared_error: lambda errors, _, weight: _mean(errors**2, weight),
    metrics.root_mean_squared_error: lambda errors, _, weight: np.sqrt(_mean(errors**2, weight)),
    metrics.mean_absolute_error: lambda errors, _, weight: _mean(np.abs(errors), weight),
    metrics.max_error: _largest,
    linf_error: _largest,
}
