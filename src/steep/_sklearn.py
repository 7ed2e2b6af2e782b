"""What steep takes from scikit-learn's private modules, in one place: a new release is checked here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics._scorer import _PassthroughScorer, _Scorer
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples as count_samples

__all__ = ["count_samples", "is_own_score", "is_scorer", "scored_predictions", "take_rows"]


def take_rows(data: Any, rows: Any) -> Any:
    """Some rows of anything that holds samples; arrays need not be asked what they are."""
    return data[rows] if type(data) is np.ndarray else _safe_indexing(data, rows)


def is_own_score(scorer: Any) -> bool:
    """Whether a scorer asks the estimator's own ``score``."""
    return type(scorer) is _PassthroughScorer


def is_scorer(scorer: Any) -> bool:
    """Whether a scorer asks an estimator for nothing but its predictions: made by ``make_scorer``."""
    return type(scorer) is _Scorer


def scored_predictions(scorer: Any) -> tuple[Callable[..., Any], float] | None:
    """The function of labels and predictions behind a scorer, and its sign; None if there is more to it."""
    if not is_scorer(scorer) or scorer._kwargs or scorer._response_method != "predict":
        return None
    return scorer._score_func, float(scorer._sign)
