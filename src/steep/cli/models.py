"""``--model``: the model that weights are decided with, and the preprocessing a table needs in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steep.cli.tables.features import Features
from steep.exceptions import InputError

# Rows that decide if the user does not say how many: a search takes 30 to 300 fits.
ROWS = {"linear": 20_000, "boosting": 3_000, "forest": 2_000, "svm": 2_000}
_OWN_ROWS = 2_000
# Categories of a column that have a column of their own.
_MOST_CATEGORIES = 51


@dataclass(frozen=True)
class Model:
    """A model that decides.

    Attributes
    ----------
    option : str
        What the user passed to ``--model``.
    name : str
        What it is called in a sentence.
    estimator : estimator
        The model, unfitted, with its preprocessing.
    rows : int
        Rows that decide by default.
    """

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


def model_of(option: str, features: Features, *, is_classes: bool) -> Model:
    """The model behind ``--model``.

    Parameters
    ----------
    option : str
        "linear", "svm", "forest", "boosting", or ``package.module:name`` of an estimator, its class or a function that
        returns one. A pipeline gets the columns as they are, any other estimator gets numbers.
    features : Features
        The columns.
    is_classes : bool
        Whether the target holds classes.
    """
    from sklearn.pipeline import make_pipeline

    if option in ROWS:
        name, last = _known(option, is_classes)
    elif ":" in option:
        name, last = _own(option, is_classes)
    else:
        raise InputError(
            f"--model {option!r} is unknown; expected one of {', '.join(ROWS)}, or package.module:name of an estimator"
        )
    if not hasattr(last, "steps"):
        last = make_pipeline(*_preprocessing(features), last)
    return Model(option, name, last, ROWS.get(option, _OWN_ROWS))


def _known(option: str, is_classes: bool) -> tuple[str, Any]:
    if option == "linear":
        from sklearn.linear_model import LogisticRegression, Ridge

        return (
            ("logistic regression", LogisticRegression(max_iter=1000)) if is_classes else ("ridge regression", Ridge())
        )
    if option == "svm":
        from sklearn.svm import SVC, SVR

        return "a support vector machine", SVC() if is_classes else SVR()
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )

    if option == "forest":
        forest = RandomForestClassifier if is_classes else RandomForestRegressor
        return "a random forest", forest(random_state=0)
    boosting = HistGradientBoostingClassifier if is_classes else HistGradientBoostingRegressor
    return "gradient boosting", boosting(random_state=0)


def _own(option: str, is_classes: bool) -> tuple[str, Any]:
    from sklearn.base import is_classifier, is_regressor

    from steep.cli.printing import aside
    from steep.cli.targets import load_target

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
    return type(found).__name__, found


def _preprocessing(features: Features) -> list[Any]:
    """Gaps filled, categories one-hot, numbers standardised; only what the columns need."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    categories = features.of_kind("categories")
    if not categories and not features.missing:
        return [StandardScaler()]
    numbers = [name for name in features.names if name not in categories]
    filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    coded = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=_MOST_CATEGORIES, sparse_output=False)
    parts = [("numbers", make_pipeline(filled, StandardScaler()), numbers), ("categories", coded, categories)]
    return [ColumnTransformer([part for part in parts if part[2]])]


def ready(X: Any, features: Features) -> Any:
    """The columns as estimators take them: dates as days, categories as text, gaps as NaN; or an array of numbers."""
    import numpy as np
    import pandas as pd

    if set(features.names) == set(features.of_kind("numbers")) and not features.missing:
        return X.to_numpy(dtype=float)
    categories: Sequence[str] = features.of_kind("categories")
    columns = {}
    for name in features.names:
        column = X[name]
        if name in categories:
            text = column.astype(object).where(column.isna(), column.astype(str))
            columns[name] = text.where(~column.isna(), np.nan)
            continue
        if name in features.of_kind("dates"):
            column = _days(column)
        columns[name] = column.astype(float)
    return pd.DataFrame(columns)


def _days(column: Any) -> Any:
    """Dates and spans of time in days."""
    import pandas as pd

    if getattr(column.dtype, "kind", "O") == "m":
        return column / pd.Timedelta(days=1)
    return (pd.to_datetime(column, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
