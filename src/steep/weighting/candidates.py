"""What a search tries: weightings, and the controls, which most people try before and a weighting has to beat.

    equal weights            the default
    balanced class weights   every class counts the same; as sample weights, so that any estimator has it
    tuned threshold          equal weights, and the second of two classes predicted from the probability on that has
                             the best score on cross-fitted predictions of the training rows
    robust loss              equal weights, and the same model with a loss in which samples far off count less

The two in the middle can only gain in scores that count rare classes as much as frequent ones, the last one in absolute
errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import HuberRegressor, LinearRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from steep._validation import FloatArray, check_choice
from steep.exceptions import InputError
from steep.labels import Labels
from steep.measures import MEASURES, Measure
from steep.metrics import Scorer
from steep.weighting.weights import TrainingSet

EQUAL, BALANCED, THRESHOLD = "equal weights", "balanced class weights", "tuned threshold"
ROBUST = "robust loss"

# Scores that a threshold can raise, and those that only balanced weights can.
_THRESHOLDED = ("balanced_accuracy", "f1", "precision", "recall", "jaccard")
_RANKED = ("average_precision",)
_ABSOLUTE = ("neg_mean_absolute", "neg_median_absolute")
# Thresholds tried: enough that the best of a few thousand probabilities is not missed by much.
_N_THRESHOLDS = 100
# By class: the parameter that holds the loss, its usual values, and the robust one.
_ROBUST_LOSSES = {
    "HistGradientBoostingRegressor": ("loss", ("squared_error",), "absolute_error"),
    "GradientBoostingRegressor": ("loss", ("squared_error",), "absolute_error"),
    "LGBMRegressor": ("objective", (None, "regression", "regression_l2"), "regression_l1"),
    "XGBRegressor": ("objective", (None, "reg:squarederror"), "reg:absoluteerror"),
}


@dataclass(frozen=True)
class WeightingCandidate:
    """One way to train: a weighting (measure, k, m) or a control."""

    measure: Measure | None = None
    n_neighbors: int | None = None
    weight_ratio: float = 1.0
    control: str | None = None

    def __str__(self) -> str:
        """As a verdict names it: "misfit (ratio 10, 5 neighbours)"."""
        if self.measure is None:
            return str(self.control)
        size = "the sample alone" if self.n_neighbors == 1 else f"{self.n_neighbors} neighbours"
        return f"{self.measure.name} (ratio {self.weight_ratio:g}, {size})"

    @property
    def side(self) -> object:
        """What the ratios of one direction have in common."""
        return self.measure, self.n_neighbors, self.weight_ratio > 1

    @property
    def asks_model(self) -> bool:
        """Whether its measure needs predictions of the estimator."""
        return self.measure is not None and self.measure.needs == "model"

    @property
    def written(self) -> dict[str, Any]:
        """The candidate as users write it; what does not apply is left out."""
        params: dict[str, Any] = {"weight_ratio": self.weight_ratio}
        if self.measure is not None:
            known = MEASURES.get(self.measure.name) is self.measure
            params |= {"n_neighbors": self.n_neighbors, "measure": self.measure.name if known else self.measure}
        elif self.control != EQUAL:
            params |= {"control": self.control}
        return params


@dataclass(frozen=True)
class Menu:
    """What may be combined: k by measure and ratios; and controls, equal weights first."""

    sizes: Mapping[Measure, Sequence[int]]
    ratios: tuple[float, ...]
    controls: tuple[str, ...] = (EQUAL,)

    @property
    def largest_size(self) -> int:
        """Most neighbours that any measure looks at."""
        return max((k for sizes in self.sizes.values() for k in sizes), default=1)

    def of(self, candidates: Sequence[WeightingCandidate]) -> Menu:
        """The same for some candidates: what no candidate needs is not measured."""
        pairs = {(c.measure, c.n_neighbors) for c in candidates}
        wanted = {m: [k for k in sizes if (m, k) in pairs] for m, sizes in self.sizes.items()}
        return replace(self, sizes={measure: sizes for measure, sizes in wanted.items() if sizes})

    def grid(self) -> list[WeightingCandidate]:
        """Every combination, after the controls."""
        # From ratios near 1 outwards, so that a warm start has the shortest way to go.
        ratios = sorted({r for r in self.ratios if r != 1}, key=lambda r: abs(np.log(r)))
        # A tuned threshold follows the equal weights whose fit it uses.
        controls = [name for name in (EQUAL, THRESHOLD, BALANCED, ROBUST) if name in self.controls]
        return [
            *(WeightingCandidate(control=name) for name in controls),
            *(WeightingCandidate(m, k, r) for m, sizes in self.sizes.items() for k in sizes for r in ratios),
        ]


def default_measures(estimator: Any, samples: TrainingSet) -> tuple[str, ...]:
    """Return the measures to try: what gained most on development tables, if the estimator can answer."""
    if not is_classifier(estimator):
        return ("variance", "misfit")
    one_class_each = samples.labels.codes is not None
    return ("misfit", "border") if one_class_each and hasattr(estimator, "predict_proba") else ("misfit",)


def values_of(given: Any, name: str) -> list[Any]:
    """One value or several, as a list."""
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    values = list(given) if several and getattr(given, "ndim", 1) != 0 else [given]
    if not values:
        raise InputError(f"{name} is empty; expected at least one value; leave it out for the default")
    return values


def check_controls(controls: Any, score: str, estimator: Any, samples: TrainingSet) -> tuple[str, ...]:
    """Return the controls to try, equal weights first."""
    names = {"balanced": BALANCED, "threshold": THRESHOLD, "robust": ROBUST}
    needs = {
        "balanced": "classes",
        "threshold": "two classes and predict_proba",
        "robust": "one target per sample, dense X and a linear, ridge or gradient boosting regression",
    }
    labels = samples.labels
    classes = labels.n_columns if is_classifier(estimator) and labels.codes is not None else 0
    one_number = labels.codes is None and labels.n_columns == 1
    possible = {
        "balanced": classes >= 2,
        "threshold": classes == 2 and hasattr(estimator, "predict_proba"),
        "robust": one_number and not issparse(samples.X) and robust_twin(estimator) is not None,
    }
    if isinstance(controls, str) and controls == "auto":
        params = estimator.get_params() if hasattr(estimator, "get_params") else {}
        # An estimator that weights the classes already would overdo it with balanced weights.
        balances = any(name.split("__")[-1] == "class_weight" and value is not None for name, value in params.items())
        fitting = {
            "balanced": score.startswith(_THRESHOLDED + _RANKED) and not balances,
            "threshold": score.startswith(_THRESHOLDED),
            "robust": score.startswith(_ABSOLUTE),
        }
        return (EQUAL, *(name for key, name in names.items() if fitting[key] and possible[key]))
    asked = [controls] if isinstance(controls, str) or not isinstance(controls, Iterable) else list(controls)
    for name in asked:
        check_choice(name, name="controls", choices=tuple(names))
        if not possible[name]:
            raise InputError(
                f"controls={name!r} does not apply to {type(estimator).__name__} and {classes} classes; it requires "
                f"{needs[name]}; leave it out"
            )
    return (EQUAL, *(name for key, name in names.items() if key in asked))


def robust_twin(estimator: Any) -> Any:
    """The same model, not fitted, with a robust loss; None where no simple change gives one.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> robust_twin(HistGradientBoostingRegressor())
    HistGradientBoostingRegressor(loss='absolute_error')
    """
    if type(estimator) is Pipeline:
        *before, (name, last) = estimator.steps
        twin = robust_twin(last)
        return None if twin is None else Pipeline([*clone(estimator).steps[: len(before)], (name, twin)])
    if type(estimator) in (LinearRegression, Ridge):
        huber = make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000))
        return TransformedTargetRegressor(huber, transformer=StandardScaler())
    name, usual, robust = _ROBUST_LOSSES.get(type(estimator).__name__, ("", (), ""))
    if name not in getattr(estimator, "get_params", dict)() or estimator.get_params()[name] not in usual:
        return None
    return clone(estimator).set_params(**{name: robust})


def balancing(labels: Labels, own: FloatArray) -> FloatArray:
    """Weights under which every class counts the same, as ``class_weight="balanced"`` does for own weights of one."""
    codes = np.asarray(labels.codes)
    totals = np.bincount(codes, weights=own, minlength=labels.n_columns)
    present = totals > 0
    share = np.divide(totals.sum() / present.sum(), totals, out=np.zeros_like(totals), where=present)
    return np.asarray(share[codes])


def tuned_threshold(samples: TrainingSet, probability: FloatArray, name: str, scorer: Scorer) -> float:
    """Threshold of the second class's cross-fitted ``probability`` with the best score."""
    weight = {} if samples.sample_weight is None else {"sample_weight": samples.sample_weight}
    # Half-way between probabilities met, and 1/2; nearest to 1/2 first, so that it wins where scores are equal.
    values = np.unique(np.quantile(probability, np.linspace(0, 1, _N_THRESHOLDS), method="nearest"))
    steps = np.append((values[1:] + values[:-1]) / 2, 0.5)
    steps = steps[np.argsort(np.abs(steps - 0.5), kind="stable")]
    scores = [
        finite_score(name, scorer, _Answers(samples.labels, probability >= t), samples.X, samples.y, weight)
        for t in steps
    ]
    return float(steps[int(np.argmax(scores))])


class _Answers(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose predictions are known, so that any scorer can be asked about them."""

    def __init__(self, labels: Labels, is_second: npt.NDArray[np.bool_]) -> None:
        self.labels = labels
        self.is_second = is_second

    @property
    def classes_(self) -> Any:
        return self.labels.classes

    def predict(self, X: Any) -> Any:
        """The known predictions, whatever ``X`` is."""
        return np.asarray(self.labels.classes)[self.is_second.astype(int)]


def finite_score(name: str, scorer: Scorer, model: Any, X: Any, y: Any, weight: Mapping[str, Any]) -> float:
    """Score a fitted model, or say why it has none."""
    try:
        value = float(scorer(model, X, y, **weight))
    except TypeError as error:
        if weight and "sample_weight" in str(error):
            raise InputError(
                f"scoring={name!r} takes no sample_weight, and one was given to fit; leave it out, or use another score"
            ) from error
        raise
    if not np.isfinite(value):
        raise InputError(
            f"scoring={name!r} is {value} on a fold of {len(y)} samples; expected a finite score on every fold; "
            "use fewer folds, stratified ones, or another score"
        )
    return value
