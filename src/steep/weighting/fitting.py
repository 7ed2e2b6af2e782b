"""How any estimator is fitted with weights, what is passed on once it is fitted, and its cross-fitted predictions.

Measures that ask a model need predictions for samples it has not seen. The samples are dealt into five parts; each part
is predicted by a fit on the other four, with equal weights or the caller's own. An error on samples a model was fitted
to would flatter it: a model that memorises its labels has none. Samples of one group go to the same part, so that none
is predicted by a fit that saw its group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from steep._sklearn import take_rows
from steep._validation import FloatArray, IntArray, Seed, check_generator
from steep.exceptions import InputError, UnsupportedEstimatorError
from steep.labels import Labels, Task, one_hot

N_PARTS = 5


def _delegated(name: str, doc: str) -> Any:
    """A method of the fitted estimator, offered exactly when the wrapped one has it."""

    def method(self: DelegatingEstimator, X: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.estimator_, name)(X)

    method.__name__, method.__doc__ = name, doc
    return available_if(_has(name))(method)


def _has(name: str) -> Callable[[DelegatingEstimator], bool]:
    """Whether the estimator has a method; an AttributeError says which one lacks it."""
    return lambda self: getattr(getattr(self, "estimator_", self.estimator), name) is not None


def _of_fitted(name: str, doc: str) -> Any:
    """An attribute of the fitted estimator."""
    return property(lambda self: getattr(self.estimator_, name), doc=doc)


class DelegatingEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A meta-estimator whose predictions are those of ``estimator_``, fitted with weights of ours."""

    # Weights and groups are ours to use; whether the wrapped estimator asked for them changes nothing.
    __metadata_request__fit: ClassVar = {"sample_weight": True, "groups": True}

    estimator: Any
    estimator_: Any

    def _fit_params(self, params: dict[str, Any], groups: Any) -> dict[str, Any]:
        """Arguments of ``fit`` that are meant for the wrapped estimator."""
        if groups is not None and _wants_groups(self.estimator):
            return params | {"groups": groups}
        return params

    predict = _delegated("predict", "Predictions of the fitted estimator.")
    predict_proba = _delegated("predict_proba", "Class probabilities of the fitted estimator.")
    predict_log_proba = _delegated("predict_log_proba", "Logarithms of the class probabilities.")
    decision_function = _delegated("decision_function", "Decision function of the fitted estimator.")

    @available_if(_has("score"))  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of the fitted estimator."""
        check_is_fitted(self)
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.estimator_.score(X, y, **weight))

    classes_ = _of_fitted("classes_", "Class labels of the fitted estimator.")
    n_features_in_ = _of_fitted("n_features_in_", "Number of inputs seen in ``fit``.")
    feature_names_in_ = _of_fitted("feature_names_in_", "Names of the inputs seen in ``fit``.")

    def __sklearn_tags__(self) -> Any:
        inner, tags = get_tags(self.estimator), super().__sklearn_tags__()
        for name in ("estimator_type", "target_tags", "classifier_tags", "regressor_tags"):
            setattr(tags, name, getattr(inner, name))
        return tags


def require_sample_weight(estimator: Any) -> None:
    """Reject an estimator that would ignore the weights or choke on them."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise UnsupportedEstimatorError(
            f"estimator={estimator!r} is not an estimator instance; expected an object with fit(X, y, sample_weight)"
        )
    if not accepts_sample_weight(estimator):
        raise UnsupportedEstimatorError(
            f"{type(estimator).__name__}.fit takes no sample_weight, so it cannot be trained on weighted samples; "
            "use an estimator that does, or resample with numpy.random.Generator.choice(p=weights)"
        )


def accepts_sample_weight(estimator: Any) -> bool:
    """Whether ``fit`` takes weights; of a pipeline, that of its last step."""
    if hasattr(estimator, "steps"):
        return accepts_sample_weight(estimator.steps[-1][1])
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    inner = inner_estimator(estimator)
    takes_anything = has_fit_parameter(estimator, "params") or has_fit_parameter(estimator, "fit_params")
    return inner is not None and takes_anything and accepts_sample_weight(inner)


def inner_estimator(estimator: Any) -> Any:
    """What a search or a target transformation wraps; None for anything else."""
    return getattr(estimator, "estimator", getattr(estimator, "regressor", None))


def _wants_groups(estimator: Any) -> bool:
    """Whether ``fit`` takes groups: a search does, whose splitter may need them."""
    return has_fit_parameter(estimator, "groups") or (hasattr(estimator, "cv") and hasattr(estimator, "refit"))


def params_of_rows(params: Mapping[str, Any], rows: IntArray, n_samples: int) -> dict[str, Any]:
    """Arguments of ``fit`` for some of the samples: what has one entry a sample is cut to them."""
    return {name: take_rows(value, rows) if _length(value) == n_samples else value for name, value in params.items()}


def _length(value: Any) -> int | None:
    """Entries of an array, a column or a list; None for anything else."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if shape else None
    return len(value) if isinstance(value, list | tuple) else None


def fit_weighted(estimator: Any, X: Any, y: Any, weights: FloatArray, params: Mapping[str, Any]) -> Any:
    """Fit with weights; a pipeline hands them to its last step, whatever its steps request."""
    with config_context(enable_metadata_routing=False):
        return estimator.fit(X, y, **{f"{_last_step_prefix(estimator)}sample_weight": weights}, **params)


def _last_step_prefix(estimator: Any) -> str:
    """``"ridge__"`` of a pipeline that ends in a step named ridge, also inside a search; empty for anything else."""
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        return f"{name}__{_last_step_prefix(last)}"
    inner = inner_estimator(estimator)
    if inner is None or has_fit_parameter(estimator, "sample_weight"):
        return ""
    return _last_step_prefix(inner)


def task_of(estimator: Any) -> Task:
    """How an estimator reads its labels."""
    if is_classifier(estimator):
        return "classification"
    return "regression" if is_regressor(estimator) else "auto"


def cross_fitted(
    estimator: Any, X: Any, y: Any, labels: Labels, *, sample_weight: FloatArray | None = None,
    groups: IntArray | None = None, params: Mapping[str, Any] | None = None, part: IntArray | None = None,
    n_jobs: int | None = None,
) -> FloatArray:  # fmt: skip
    """Predict every sample by a fit that has not seen it, nor its group: a probability per class, or values.

    Classifiers without ``predict_proba`` count as certain of what they predict. Samples of one ``part`` are predicted
    together; default five parts, dealt class by class or group by group. ``params`` are arguments of ``fit``.
    """
    own = sample_weight
    if own is None and accepts_sample_weight(estimator):
        own = np.ones(len(labels))
    part = deal(labels, N_PARTS, groups) if part is None else part
    turns = [(np.flatnonzero(part != number), np.flatnonzero(part == number)) for number in np.unique(part)]
    arguments = [(estimator, X, y, labels, kept, asked, own, params or {}) for kept, asked in turns]
    answers = Parallel(n_jobs=n_jobs)(delayed(_answers)(*given) for given in arguments)
    predicted = np.empty((len(labels), answers[0].shape[1]))
    for (_, asked), answer in zip(turns, answers, strict=True):
        predicted[asked] = answer
    return predicted


def deal(labels: Labels, n_parts: int, groups: IntArray | None = None, random_state: Seed = 0) -> npt.NDArray[np.intp]:
    """Deal the samples into parts like cards, class by class, always in the same way for the same data and seed.

    With ``groups`` whole groups are dealt, the largest first, each to the part that is smallest so far.
    """
    rng = check_generator(random_state)
    if groups is not None:
        return _deal_groups(groups, n_parts, rng)
    order = rng.permutation(len(labels))
    if labels.codes is not None:
        order = order[np.argsort(labels.codes[order], kind="stable")]
    part = np.empty(len(labels), dtype=np.intp)
    part[order] = np.arange(len(labels)) % n_parts
    return part


def _deal_groups(groups: IntArray, n_parts: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    _, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes)
    if len(sizes) < 2:
        raise InputError(
            "groups holds 1 group; expected at least 2, so that each group can be predicted from the others; "
            "pass finer groups or none"
        )
    filled, part_of = np.zeros(n_parts, dtype=np.intp), np.empty(len(sizes), dtype=np.intp)
    order = rng.permutation(len(sizes))
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        part_of[group] = filled.argmin()
        filled[part_of[group]] += sizes[group]
    parts: npt.NDArray[np.intp] = part_of[codes]
    return parts


def _answers(
    estimator: Any, X: Any, y: Any, labels: Labels, kept: IntArray, asked: IntArray, own: FloatArray | None,
    params: Mapping[str, Any],
) -> FloatArray:  # fmt: skip
    """Predictions for the samples ``asked`` of a fit to the samples ``kept``."""
    if labels.codes is not None and len(seen := np.unique(labels.codes[kept])) == 1:
        # No classifier can be fitted to one class, and none is needed.
        return np.tile(np.eye(labels.n_columns)[seen[0]], (len(asked), 1))
    extra = params_of_rows(params, kept, len(labels))
    data = take_rows(X, kept), take_rows(y, kept)
    if own is None:
        model = clone(estimator).fit(*data, **extra)
    else:
        model = fit_weighted(clone(estimator), *data, own[kept], extra)
    inputs = take_rows(X, asked)
    if labels.codes is None or labels.classes is None:
        return np.asarray(model.predict(inputs), dtype=np.float64).reshape(len(asked), -1)
    if not hasattr(model, "predict_proba"):
        codes = np.searchsorted(labels.classes, np.asarray(model.predict(inputs)).ravel())
        return one_hot(Labels(codes=codes.astype(np.int32), classes=labels.classes))
    probability = np.zeros((len(asked), labels.n_columns))
    probability[:, np.searchsorted(labels.classes, model.classes_)] = model.predict_proba(inputs)
    return probability
