"""``--model``: the model that weights are decided with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, SVR

from steep.cli.options import load_target
from steep.cli.printing import aside
from steep.exceptions import InputError

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
    """A model that decides: its name, the model, and the rows that decide."""

    name: str
    estimator: Any
    rows: int


def model_of(option: str, *, is_classes: bool) -> Model:
    """The model behind ``--model``: a known one, or ``package.module:name`` of an estimator or of what makes one."""
    if option in _KNOWN:
        name, for_classes, for_numbers, rows = _KNOWN[option]
        estimator = for_classes if is_classes else for_numbers
        return Model(name or ("logistic regression" if is_classes else "ridge regression"), estimator, rows)
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
        raise InputError(
            f"--model {option!r} is a {type(found).__name__}; expected a {'classifier' if is_classes else 'regressor'} "
            "for this target; choose another model, or pass --task"
        )
    return Model(type(found).__name__, found, _OWN_ROWS)


def on_some_rows(estimator: Any, share: float) -> Any:
    """A model fitted to a share of the rows, drawn at random: one that only has to predict needs no more."""
    bagging = BaggingClassifier if is_classifier(estimator) else BaggingRegressor
    return bagging(estimator, n_estimators=1, max_samples=share, random_state=0)
