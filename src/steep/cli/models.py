"""``--model``: the model that weights are decided with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, SVR
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from steep._sklearn import take_rows
from steep.cli.options import load_target
from steep.cli.printing import aside
from steep.exceptions import InputError
from steep.weighting.embedding import embed

# Each with its name, the models for classes and for numbers, and the rows that decide: a search takes 30 to 300 fits.
_KNOWN: dict[str, tuple[str, Any, Any, int]] = {
    "linear": ("", LogisticRegression(max_iter=1000), Ridge(), 20_000),
    "svm": ("a support vector machine", SVC(), SVR(), 2_000),
    "forest": ("a random forest", RandomForestClassifier(random_state=0), RandomForestRegressor(random_state=0), 2_000),
    "boosting": (
        "gradient boosting", HistGradientBoostingClassifier(random_state=0),
        HistGradientBoostingRegressor(random_state=0), 3_000,
    ),
}  # fmt: skip
_OWN_ROWS = 2_000


@dataclass(frozen=True)
class Model:
    """A model that decides: what the user passed to ``--model``, its name, the model, and the rows that decide."""

    option: str
    name: str
    estimator: Any
    rows: int

    @property
    def sentence(self) -> str:
        """Which model decided, and what its weights are for."""
        return (
            f"Decided with {self.name} (--model {self.option}). The weights are for this model: another model may "
            "lose by them; choose yours with --model."
        )

    def inputs(self, X: pd.DataFrame) -> tuple[Any, Any]:
        """What the model is fitted to and ``embedding=``: a pipeline gets the columns, others the library's points."""
        return (X, "auto") if hasattr(self.estimator, "steps") else (embed(X), None)


def model_of(option: str, *, is_classes: bool) -> Model:
    """The model behind ``--model``: a known one, or ``package.module:name`` of an estimator or of what makes one."""
    if option in _KNOWN:
        name, for_classes, for_numbers, rows = _KNOWN[option]
        estimator = for_classes if is_classes else for_numbers
        return Model(option, name or ("logistic regression" if is_classes else "ridge regression"), estimator, rows)
    if ":" not in option:
        raise InputError(
            f"--model {option!r} is unknown; expected one of {', '.join(_KNOWN)}, or module:name of an estimator"
        )
    with aside():
        found = load_target(option)
        if not hasattr(found, "fit") or isinstance(found, type):
            try:
                found = found()
            except Exception as error:  # the user's own code
                raise InputError(
                    f"--model {option!r} raises {type(error).__name__}: {error}; expected an estimator, or a function "
                    "without arguments that returns one"
                ) from error
    fits = is_classifier(found) if is_classes else is_regressor(found)
    if not hasattr(found, "fit") or not fits:
        kind = "classifier" if is_classes else "regressor"
        raise InputError(
            f"--model {option!r} is a {type(found).__name__}; expected a {kind} for this target; choose another "
            "model, or pass --task"
        )
    return Model(option, type(found).__name__, found, _OWN_ROWS)


class OnSomeRows(BaseEstimator):  # type: ignore[misc]
    """A model fitted to ``n_rows`` of the rows, drawn at random, and without weights: it only has to predict."""

    def __init__(self, estimator: Any, n_rows: int) -> None:
        self.estimator = estimator
        self.n_rows = n_rows

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model."""
        rows = np.random.default_rng(0).permutation(len(y))[: self.n_rows]
        self.estimator_ = clone(self.estimator).fit(take_rows(X, rows), y[rows])
        if is_classifier(self.estimator_):
            self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any) -> Any:
        """Its predictions."""
        return self.estimator_.predict(X)

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Its probabilities."""
        return self.estimator_.predict_proba(X)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)
