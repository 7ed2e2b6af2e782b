"""Variance Based Samples Weighting: Algorithm 2.

1   k, m                          n_neighbors, weight_ratio
2   Df̂²(x_i) by Eq. Dhat2         neighbor_variance
3   {(w_i, x_i)}                  rescale
4   train f_θ on the weighted set VarianceWeighted.fit
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.utils import Bunch, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter

from steep._labels import Task
from steep._validation import FloatArray, check_points, check_sample_weight
from steep.exceptions import InputError, InputTypeError, UnsupportedEstimatorError
from steep.local_variance import neighbor_variance
from steep.rescaling import Method, Normalize, rescale


def sample_weights(
    X: Any,
    y: Any,
    *,
    n_neighbors: int = 20,
    weight_ratio: float = 40.0,
    normalize: Normalize = "mean",
    method: Method = "minmax",
    embedding: Any = "standard",
    include_self: bool = True,
    neighbors: Any = None,
    task: Task = "auto",
    n_jobs: int | None = None,
) -> FloatArray:
    """Weigh labelled samples by the variance of their neighbours' labels (Algorithm 2).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any kind.
    n_neighbors : int, default 20
        k, neighbours whose labels are compared, the sample itself counted.
    weight_ratio : float, default 40
        m, the largest weight over the smallest; 1 is equal weights, below 1 favours flat regions.
        Which ratio helps differs by data set: try several on held-out data.
    normalize : {"mean", "sum", None}, default "mean"
        See :func:`rescale`.
    method : {"minmax", "max"}, default "minmax"
        See :func:`rescale`.
    embedding : {"standard", None}, transformer or callable, default "standard"
        Space in which neighbours are looked for: standardised columns, ``X`` as it is (the paper),
        what a scikit-learn transformer's ``fit_transform`` returns, or ``embedding(X)``.
    include_self : bool, default True
        Whether a sample counts among its own neighbours.
    neighbors : ndarray or (distances, indices), optional
        A graph from :func:`neighbor_graph`; ``embedding`` is then not used.
    task : {"auto", "classification", "regression"}, default "auto"
        How to read ``y``; see :func:`neighbor_variance`.
    n_jobs : int, optional
        Parallel jobs of the search.

    Returns
    -------
    ndarray of shape (n_samples,)
        Weights for the ``sample_weight`` of any estimator.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> weight = sample_weights(X, y, n_neighbors=20, weight_ratio=40)
    >>> bool(abs(weight.mean() - 1) < 1e-12), bool(weight.max() / weight.min() < 40 + 1e-9)
    (True, True)
    """
    space = X if neighbors is not None else _embed(X, embedding)
    variation = neighbor_variance(
        space,
        y,
        n_neighbors=n_neighbors,
        include_self=include_self,
        neighbors=neighbors,
        task=task,
        n_jobs=n_jobs,
    )
    return rescale(variation, weight_ratio=weight_ratio, method=method, normalize=normalize)


def _embed(X: Any, embedding: Any) -> FloatArray:
    if isinstance(embedding, str) and embedding == "standard":
        points = check_points(X)
        spread = points.std(axis=0)
        standard: FloatArray = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return standard
    if embedding is None:
        return check_points(X)
    if hasattr(embedding, "fit_transform"):
        return check_points(clone(embedding).fit_transform(X), name="embedding.fit_transform(X)")
    if callable(embedding):
        return check_points(embedding(X), name="embedding(X)")
    raise InputTypeError(
        f"embedding={embedding!r} is unknown; need 'standard', None, a transformer with fit_transform, or a callable"
    )


def _delegates(method: Callable[..., Any]) -> Any:
    """Offer a method exactly when the wrapped estimator has it."""

    def has_method(self: VarianceWeighted) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method.__name__)
        return True

    return available_if(has_method)(method)


class VarianceWeighted(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier or regressor, trained with variance based sample weights (Algorithm 2).

    Parameters
    ----------
    estimator : estimator
        Anything whose ``fit`` takes ``sample_weight``, or a pipeline or search that ends in one.
    n_neighbors, weight_ratio, method, embedding, include_self, n_jobs
        See :func:`sample_weights`. Weights come from the data given to ``fit`` alone.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone.
    sample_weight_ : ndarray of shape (n_samples,)
        Weights it was fitted with, a caller's own multiplied in.
    classes_, n_features_in_, feature_names_in_
        Those of the fitted clone.

    Notes
    -----
    A ``sample_weight`` given to ``fit`` is multiplied in; it does not change which neighbours are
    compared, except that samples of weight zero are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), VarianceWeighted(LogisticRegression(), weight_ratio=5))
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    """

    # The weights are ours to use; whether the wrapped estimator asked for them changes nothing.
    __metadata_request__fit: ClassVar = {"sample_weight": True}

    def __init__(
        self,
        estimator: Any,
        *,
        n_neighbors: int = 20,
        weight_ratio: float = 40.0,
        method: Method = "minmax",
        embedding: Any = "standard",
        include_self: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_neighbors = n_neighbors
        self.weight_ratio = weight_ratio
        self.method = method
        self.embedding = embedding
        self.include_self = include_self
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Weigh the samples, then fit the wrapped estimator with the weights.

        Parameters
        ----------
        X, y : array-like
            Training data.
        sample_weight : array-like of shape (n_samples,), optional
            The caller's own weights ≥ 0, multiplied in.
        **params
            Further arguments for the wrapped estimator's ``fit``.
        """
        require_sample_weight(self.estimator)
        self.sample_weight_ = self._weights(X, y, sample_weight)
        self.estimator_ = fit_weighted(
            clone(self.estimator), X, y, self.sample_weight_, self._fit_params(params)
        )
        return self

    def _weights(self, X: Any, y: Any, sample_weight: Any) -> FloatArray:
        n_samples = _num_samples(X)
        if n_samples == 1:
            raise InputError("X has 1 sample; need n_neighbors samples at least; pass more data")
        given = check_sample_weight(sample_weight, n_samples)
        used = np.flatnonzero(given)
        variance_weights = np.zeros(n_samples)
        variance_weights[used] = sample_weights(
            X if used.size == n_samples else _safe_indexing(X, used),
            y if used.size == n_samples else _safe_indexing(y, used),
            n_neighbors=self.n_neighbors,
            weight_ratio=self.weight_ratio,
            method=self.method,
            embedding=self.embedding,
            include_self=self.include_self,
            task=_task_of(self.estimator),
            n_jobs=self.n_jobs,
        )
        return variance_weights * given

    def _fit_params(self, params: dict[str, Any]) -> dict[str, Any]:
        if not params:
            return {}
        routed: Bunch = process_routing(self, "fit", **params)
        return dict(routed.estimator.fit)

    @_delegates
    def predict(self, X: Any) -> Any:
        """Predictions of the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @_delegates
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @_delegates
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the class probabilities of the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.predict_log_proba(X)

    @_delegates
    def decision_function(self, X: Any) -> Any:
        """Decision function of the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    @_delegates
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of the fitted estimator."""
        check_is_fitted(self)
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.estimator_.score(X, y, **weight))

    @property
    def classes_(self) -> Any:
        """Class labels of the fitted estimator."""
        return self.estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of inputs seen in ``fit``."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the inputs seen in ``fit``."""
        return self.estimator_.feature_names_in_

    def get_metadata_routing(self) -> MetadataRouter:
        """Say which arguments of ``fit`` are used here and which go to the wrapped estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=mapping)
        )

    def __sklearn_tags__(self) -> Any:
        inner, tags = get_tags(self.estimator), super().__sklearn_tags__()
        for name in ("estimator_type", "target_tags", "classifier_tags", "regressor_tags"):
            setattr(tags, name, getattr(inner, name))
        return tags


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


def _task_of(estimator: Any) -> Task:
    if is_classifier(estimator):
        return "classification"
    return "regression" if is_regressor(estimator) else "auto"
