"""Line 4 of Algorithm 2: train f_θ, any estimator, on the weighted data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from steep._validation import FloatArray, check_count, check_sample_weight
from steep.exceptions import InputError
from steep.measures import resolve
from steep.rescaling import Method, rescale
from steep.weighting.measuring import measure_all
from steep.weighting.weights import sample_weights
from steep.weighting.wrapping import DelegatingEstimator, fit_weighted, require_sample_weight, task_of


class VarianceWeighted(DelegatingEstimator):
    """Any classifier or regressor, trained with variance based sample weights (Algorithm 2).

    Parameters
    ----------
    estimator : estimator
        Anything whose ``fit`` takes ``sample_weight``, or a pipeline or search that ends in one.
    n_neighbors, weight_ratio, measure, method, clip, embedding, include_self, n_jobs
        See :func:`sample_weights`. Weights come from the data given to ``fit`` alone. ``measure`` may also
        be "misfit" or "border", which ask the estimator itself; 1 neighbour is enough for them.

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

    def __init__(
        self,
        estimator: Any,
        *,
        n_neighbors: int = 20,
        weight_ratio: float = 40.0,
        measure: str | Callable[..., Any] = "variance",
        method: Method = "minmax",
        clip: float | None = None,
        embedding: Any = "standard",
        include_self: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_neighbors = n_neighbors
        self.weight_ratio = weight_ratio
        self.measure = measure
        self.method = method
        self.clip = clip
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
        extra = self._fit_params(params)
        self.sample_weight_ = self._weights(X, y, sample_weight, extra)
        self.estimator_ = fit_weighted(clone(self.estimator), X, y, self.sample_weight_, extra)
        return self

    def _weights(self, X: Any, y: Any, sample_weight: Any, params: dict[str, Any]) -> FloatArray:
        n_samples = _num_samples(X)
        if n_samples == 1:
            raise InputError("X has 1 sample; need n_neighbors samples at least; pass more data")
        given = check_sample_weight(sample_weight, n_samples)
        used = np.flatnonzero(given)
        if used.size < n_samples:
            X, y = _safe_indexing(X, used), _safe_indexing(y, used)
        variance_weights = np.zeros(n_samples)
        if resolve(self.measure, use="VarianceWeighted", feeds=("labels", "model")).needs == "model":
            variance_weights[used] = self._model_weights(X, y, given[used], params)
            return variance_weights * given
        variance_weights[used] = sample_weights(
            X,
            y,
            n_neighbors=self.n_neighbors,
            weight_ratio=self.weight_ratio,
            measure=self.measure,
            method=self.method,
            clip=self.clip,
            embedding=self.embedding,
            include_self=self.include_self,
            task=task_of(self.estimator),
            n_jobs=self.n_jobs,
        )
        return variance_weights * given

    def _model_weights(self, X: Any, y: Any, own: FloatArray, params: dict[str, Any]) -> FloatArray:
        """Weights by a measure that asks the estimator itself."""
        if not self.include_self:
            raise InputError(
                f"include_self=False goes with measure='variance' only, got {self.measure!r}; leave it out"
            )
        measured = measure_all(
            X,
            y,
            self.estimator,
            measures=[str(self.measure)],
            sizes=[check_count(self.n_neighbors, name="n_neighbors")],
            embedding=self.embedding,
            sample_weight=own,
            params=params,
            n_jobs=self.n_jobs,
        )
        (variation,) = measured.variation.values()
        return rescale(variation, weight_ratio=self.weight_ratio, method=self.method, clip=self.clip)
