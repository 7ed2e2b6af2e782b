"""Getting weights into any estimator: who takes ``sample_weight``, and by which name."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import has_fit_parameter

from steep._labels import Task
from steep._validation import FloatArray
from steep.exceptions import UnsupportedEstimatorError


def require_sample_weight(estimator: Any) -> None:
    """Refuse an estimator that would ignore the weights or choke on them."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise UnsupportedEstimatorError(
            f"estimator={estimator!r} is not an estimator instance; need an object with fit(X, y, sample_weight)"
        )
    if not _accepts_sample_weight(estimator):
        raise UnsupportedEstimatorError(
            f"{type(estimator).__name__}.fit takes no sample_weight, so it cannot be trained on weighted samples; "
            "use an estimator that does, or resample with numpy.random.Generator.choice(p=weights)"
        )


def _accepts_sample_weight(estimator: Any) -> bool:
    if hasattr(estimator, "steps"):
        return _accepts_sample_weight(estimator.steps[-1][1])
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    inner = getattr(estimator, "estimator", getattr(estimator, "regressor", None))
    takes_anything = has_fit_parameter(estimator, "params") or has_fit_parameter(estimator, "fit_params")
    return inner is not None and takes_anything and _accepts_sample_weight(inner)


def fit_weighted(estimator: Any, X: Any, y: Any, weights: FloatArray, params: dict[str, Any]) -> Any:
    """Fit with weights; a pipeline hands them to its last step."""
    name = "sample_weight"
    if get_config()["enable_metadata_routing"]:
        _request_for_last_step(estimator)
    else:
        name = _last_step_prefix(estimator) + name
    return estimator.fit(X, y, **{name: weights}, **params)


def _last_step_prefix(estimator: Any) -> str:
    """``"ridge__"`` of a pipeline that ends in a step named ridge; empty for anything else."""
    if not hasattr(estimator, "steps"):
        return ""
    name, last = estimator.steps[-1]
    return f"{name}__{_last_step_prefix(last)}"


def _request_for_last_step(estimator: Any) -> None:
    """Ask for the weights in the last step of a (nested) pipeline, and nowhere else."""
    if not hasattr(estimator, "steps"):
        if hasattr(estimator, "set_fit_request"):
            estimator.set_fit_request(sample_weight=True)
        return
    for _, step in estimator.steps[:-1]:
        if has_fit_parameter(step, "sample_weight") and hasattr(step, "set_fit_request"):
            step.set_fit_request(sample_weight=False)
    _request_for_last_step(estimator.steps[-1][1])


def task_of(estimator: Any) -> Task:
    """How an estimator reads its labels."""
    if is_classifier(estimator):
        return "classification"
    return "regression" if is_regressor(estimator) else "auto"
