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

_Function = Callable[[Any, Any, FloatArray | None], FloatArray | None]


def quick_scores(
    scorer: Any, target: Any, predicted: Any, weight: FloatArray | None, *, is_classifier: bool
) -> FloatArray | None:
    """Score every row of ``predicted``, ``(n_models, n_samples)``, or None if the scorer has to be asked.

    Targets and predictions are codes of classes, or numbers; an estimator's own score is accuracy or R².
    """
    function: _Function
    if is_own_score(scorer):
        function, sign = (_accuracy if is_classifier else _r2), 1.0
    else:
        found = scored_predictions(scorer)
        if found is None or found[0] not in _SCORES:
            return None
        function, sign = _SCORES[found[0]], found[1]
    scores = function(target, predicted, weight)
    return None if scores is None else sign * scores


def _mean(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    return np.asarray(values.mean(axis=-1) if weight is None else values @ weight / weight.sum())


def _accuracy(target: Any, predicted: Any, weight: FloatArray | None) -> FloatArray | None:
    return _mean((predicted == target).astype(np.float64), weight)


def _squared(target: Any, predicted: Any, weight: FloatArray | None) -> FloatArray | None:
    return _mean((predicted - target) ** 2, weight)


def _root(target: Any, predicted: Any, weight: FloatArray | None) -> FloatArray | None:
    return np.sqrt(_mean((predicted - target) ** 2, weight))


def _absolute(target: Any, predicted: Any, weight: FloatArray | None) -> FloatArray | None:
    return _mean(np.abs(predicted - target), weight)


def _r2(target: Any, predicted: Any, weight: FloatArray | None) -> FloatArray | None:
    spread = _mean((target - _mean(target, weight)) ** 2, weight)
    if len(target) < 2 or spread == 0:
        return None
    return np.asarray(1 - _mean((predicted - target) ** 2, weight) / spread)


def _largest(target: Any, predicted: Any, weight: FloatArray | None) -> FloatArray | None:
    counted = slice(None) if weight is None else weight > 0
    return np.asarray(np.abs(predicted - target)[:, counted].max(axis=1))


def _worst_decile(target: Any, predicted: Any, weight: FloatArray | None) -> FloatArray | None:
    if weight is not None:
        return None
    tenth = max(1, round(len(target) / 10))
    return np.asarray(np.sort(np.abs(predicted - target), axis=1)[:, -tenth:].mean(axis=1))


_SCORES: dict[Callable[..., Any], _Function] = {
    metrics.accuracy_score: _accuracy,
    metrics.r2_score: _r2,
    metrics.mean_squared_error: _squared,
    metrics.root_mean_squared_error: _root,
    metrics.mean_absolute_error: _absolute,
    metrics.max_error: _largest,
    linf_error: _largest,
    worst_decile_error: _worst_decile,
}
