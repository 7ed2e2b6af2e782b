"""Scores of many models on the same samples at once, where the score is a plain function of the predictions.

scikit-learn checks its arguments again at every call, which takes longer than the score itself on a few hundred
samples. Its accuracy, R², squared and absolute errors and the worst-case ones of :mod:`steep.metrics` are computed here
for all models together; any other score, and any odd case, is None: ask the scorer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import metrics

from steep._sklearn import is_own_score, scored_predictions
from steep._validation import FloatArray
from steep.metrics import linf_error, worst_decile_error


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
    if function is metrics.accuracy_score:
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


def _worst_decile(errors: FloatArray, target: FloatArray, weight: FloatArray | None) -> FloatArray | None:
    tenth = max(1, round(len(target) / 10))
    return None if weight is not None else np.asarray(np.sort(np.abs(errors), axis=1)[:, -tenth:].mean(axis=1))


# Scores as functions of errors, targets and weights.
_OF_ERRORS: dict[Callable[..., Any], Callable[[FloatArray, Any, FloatArray | None], FloatArray | None]] = {
    metrics.r2_score: _r2,
    metrics.mean_squared_error: lambda errors, _, weight: _mean(errors**2, weight),
    metrics.root_mean_squared_error: lambda errors, _, weight: np.sqrt(_mean(errors**2, weight)),
    metrics.mean_absolute_error: lambda errors, _, weight: _mean(np.abs(errors), weight),
    metrics.max_error: _largest,
    linf_error: _largest,
    worst_decile_error: _worst_decile,
}
