"""What a fitted wrapper passes on to the estimator inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


def _delegates(method: Callable[..., Any]) -> Any:
    """Offer a method exactly when the wrapped estimator has it."""

    def has_method(self: DelegatingEstimator) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method.__name__)
        return True

    return available_if(has_method)(method)


class DelegatingEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A meta-estimator whose predictions are those of ``estimator_``, fitted with weights of ours."""

    # The weights are ours to use; whether the wrapped estimator asked for them changes nothing.
    __metadata_request__fit: ClassVar = {"sample_weight": True}

    estimator: Any
    estimator_: Any

    def _fit_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Arguments of ``fit`` that are meant for the wrapped estimator."""
        return dict(process_routing(self, "fit", **params).estimator.fit) if params else {}

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
