"""Line 4 of Algorithm 2: train f_θ, any estimator, on the weighted data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from steep._validation import FloatArray
from steep.exceptions import InputError
from steep.measures import Measure, resolve
from steep.rescaling import WEIGHT_RATIO, Rescaling, check_rescaling, rescale
from steep.weighting.fitting import DelegatingEstimator, fit_weighted, params_of_rows, require_sample_weight, task_of
from steep.weighting.weights import TrainingSet, measure_samples


class VarianceWeighted(DelegatingEstimator):
    """Any classifier or regressor, trained with variance based sample weights (Algorithm 2).

    Parameters
    ----------
    estimator : estimator
        Anything whose ``fit`` takes ``sample_weight``, or a pipeline or search that ends in one.
    n_neighbors, weight_ratio, measure, rescaling, embedding, n_jobs
        See :func:`sample_weights`. Weights come from the data given to ``fit`` alone, and neighbours are
        looked for after the preprocessing of a wrapped pipeline. ``measure`` may also be "misfit" or
        "border", which use predictions of the estimator itself; 1 neighbour is enough for them.

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
        weight_ratio: float = WEIGHT_RATIO,
        measure: str | Callable[..., Any] | Measure = "variance",
        rescaling: Rescaling | None = None,
        embedding: Any = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_neighbors = n_neighbors
        self.weight_ratio = weight_ratio
        self.measure = measure
        self.rescaling = rescaling
        self.embedding = embedding
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **params: Any) -> Self:
        """Compute the weights, then fit the wrapped estimator with them.

        Parameters
        ----------
        X, y : array-like
            Training data.
        sample_weight : array-like of shape (n_samples,), optional
            Your weights ≥ 0, multiplied in.
        groups : array-like of shape (n_samples,), optional
            Samples that belong together: when a measure asks the estimator, none is predicted by a fit that
            saw its group. Handed on to a wrapped search.
        **params
            Further arguments for the wrapped estimator's ``fit``.
        """
        require_sample_weight(self.estimator)
        check_rescaling(self.rescaling)
        extra = self._fit_params(params, groups)
        samples = TrainingSet.check(
            X,
            y,
            embedding=self.embedding,
            task=task_of(self.estimator),
            estimator=self.estimator,
            sample_weight=sample_weight,
            groups=groups,
        )
        self.sample_weight_ = self._weights(samples, extra)
        self.estimator_ = fit_weighted(clone(self.estimator), X, y, self.sample_weight_, extra)
        return self

    def _weights(self, samples: TrainingSet, params: dict[str, Any]) -> FloatArray:
        """Weights of the samples, the caller's own multiplied in; those of weight zero are left out."""
        measure = resolve(self.measure, use="VarianceWeighted", feeds=("labels", "model"))
        size = measure.check_k(self.n_neighbors)
        if len(samples) == 1:
            raise InputError("X has 1 sample; expected n_neighbors samples at least; pass more data")
        own = np.ones(len(samples)) if samples.sample_weight is None else samples.sample_weight
        used = np.flatnonzero(own)
        measured = measure_samples(
            samples if used.size == len(samples) else samples.rows(used),
            {measure: [size]},
            estimator=self.estimator,
            params=params_of_rows(params, used, len(samples)),
            n_jobs=self.n_jobs,
        )
        (variation,) = measured.variation.values()
        weights = np.zeros(len(samples))
        weights[used] = rescale(variation, weight_ratio=self.weight_ratio, rescaling=self.rescaling)
        return weights * own
