"""Variance Based Samples Weighting, Algorithm 2.

1   k, m                          n_neighbors, weight_ratio
2   Df̂²(x_i) by Eq. Dhat2         any measure of steep.measures
3   {(w_i, x_i)}                  rescale
4   f_θ trained on them           VarianceWeighted, any estimator
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import indexable

from steep._sklearn import count_samples
from steep._validation import FloatArray, IntArray, check_sample_weight, refuse_large
from steep.exceptions import InputError, InputTypeError
from steep.labels import Labels, Task, check_labels, refuse_tiny, warn_of_float_classes
from steep.measures import Measure, Neighborhood, resolve
from steep.rescaling import WEIGHT_RATIO, Rescaling, check_rescaling, rescale
from steep.weighting.embedding import Space
from steep.weighting.fitting import (
    DelegatingEstimator,
    cross_fitted,
    fit_weighted,
    params_of_rows,
    require_sample_weight,
    task_of,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TrainingSet:
    """Labelled samples, checked once: as the caller gave them (in ``space``) and as measures read them.

    With the caller's own weights, and a number for each group of samples that belong together.
    """

    space: Space
    labels: Labels
    sample_weight: FloatArray | None = None
    groups: IntArray | None = None

    @classmethod
    def check(
        cls, X: Any, y: Any, *, embedding: Any, task: Task, estimator: Any = None, sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:  # fmt: skip
        """Read the data, or reject them before anything is fitted."""
        X, y = _indexable(X, "X"), _indexable(y, "y")
        index, other = (row_index(data) for data in (X, y))
        if (
            index is not None and other is not None and len(index) == len(other) and not index.equals(other)
            and index.isin(other).all() and other.isin(index).all()
        ):  # fmt: skip
            raise InputError("y has the index of X in another order; rows are paired by position; pass y.loc[X.index]")
        space = Space.settle(X, embedding, y=y, estimator=estimator)
        n_samples = count_samples(X)
        labels = check_labels(y, n_samples=n_samples, task=task)
        refuse_tiny(labels)
        own = None if sample_weight is None else check_sample_weight(sample_weight, n_samples)
        if groups is not None:
            groups = check_labels(groups, n_samples=n_samples, task="classification", name="groups").codes
            if groups is None:
                raise InputError(f"groups has several columns; expected shape ({n_samples},), one group per sample")
        return cls(space, labels, own, groups)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def X(self) -> Any:  # noqa: N802
        """Samples as the caller gave them."""
        return self.space.X

    @property
    def y(self) -> Any:
        """Labels as the caller gave them."""
        return self.space.y

    def rows(self, rows: IntArray) -> Self:
        """Some of the samples, read as they were among all."""
        own, groups = self.sample_weight, self.groups
        return type(self)(
            self.space.rows(rows), self.labels.rows(rows), own if own is None else own[rows],
            groups if groups is None else groups[rows],
        )  # fmt: skip


def _indexable(data: Any, name: str) -> Any:
    refuse_large(data, name)
    try:
        return indexable(data)[0]
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"a {type(data).__name__} is not data ({error}); expected X of shape (n_samples, n_features) and y of "
            "shape (n_samples,)"
        ) from error


@dataclass(frozen=True)
class Measured:
    """Variation by measure and k, and the predictions a model was asked for."""

    variation: dict[tuple[Measure, int], FloatArray]
    predicted: FloatArray | None


def measure_samples(
    samples: TrainingSet, wanted: Mapping[Measure, Sequence[int]], *, estimator: Any = None,
    params: Mapping[str, Any] | None = None, neighbors: Any = None, predicted: FloatArray | None = None,
    n_jobs: int | None = None,
) -> Measured:  # fmt: skip
    """Measure a training set: one embedding, one graph for the largest k, one cross-fitting for all measures.

    ``wanted`` are measures with their values of k; ``estimator`` and ``params`` the model that some measures ask, and
    arguments of its ``fit``; ``neighbors`` and ``predicted`` a graph and cross-fitted predictions known already.
    """
    largest = max((k for sizes in wanted.values() for k in sizes), default=1)
    is_known = neighbors is not None or largest == 1
    points: FloatArray = np.empty((len(samples), 0))  # as if they were not needed
    if not is_known or any(measure.uses_points for measure in wanted):
        points = samples.space.points()
    around = Neighborhood.search(
        points, samples.labels, n_neighbors=largest, neighbors=neighbors, n_jobs=n_jobs, given=(samples.X, samples.y)
    )
    if any(measure.needs == "model" for measure in wanted):
        if predicted is None:
            predicted = cross_fitted(
                estimator, samples.X, samples.y, samples.labels, sample_weight=samples.sample_weight,
                groups=samples.groups, params=params,
            )  # fmt: skip
        around = replace(around, predicted=predicted)
    variation = {
        (measure, k): values
        for measure, sizes in wanted.items()
        for k, values in zip(sizes, measure.variations(around, sizes), strict=True)
    }
    return Measured(variation, around.predicted)


def row_index(data: Any) -> pd.Index[Any] | None:
    """The pandas index of data; None where there is none, or rows are just counted."""
    import pandas as pd

    if not isinstance(data, pd.DataFrame | pd.Series):
        return None
    is_counted = data.index.equals(pd.RangeIndex(len(data))) and data.index.name is None
    return None if is_counted else data.index


def sample_weights(
    X: Any,
    y: Any,
    *,
    n_neighbors: int = 20,
    weight_ratio: float = WEIGHT_RATIO,
    measure: str | Callable[..., Any] | Measure = "variance",
    rescaling: Rescaling | None = None,
    embedding: Any = "auto",
    neighbors: Any = None,
    task: Task = "auto",
    n_jobs: int | None = None,
) -> FloatArray:
    """Weight labelled samples by the variance of their neighbours' labels (Algorithm 2).

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, n_features)
        Samples; with the default ``embedding`` columns may hold text, categories, dates and missing values. Data
        that do not fit in memory go to ``steep.dask.sample_weights``.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any kind.
    n_neighbors : int, default 20
        k, neighbours whose labels are compared, the sample itself counted.
    weight_ratio : float, default 1.5
        m, the largest weight divided by the smallest; 1 is equal weights, below 1 favours flat regions. No ratio above
        1 helps every data set, and large ones do harm: with the paper's 40 linear models lost 1.3 points of accuracy
        and 6 % of the mean absolute error on 31 tables, with 1.5 they gained 0.05 points and lost 0.3 %.
        :class:`VarianceWeightedCV` chooses the ratio on held-out data.
    measure : str, callable or Measure, default "variance"
        What counts as variation: "variance" is the paper's; see :mod:`steep.measures` for the
        others. A callable gets ``X`` and ``y`` as they are.

    Other Parameters
    ----------------
    rescaling : Rescaling, optional
        How variation is scaled and cut, and the mean of the weights; see :class:`Rescaling`.
    embedding : {"auto", "standard", None}, transformer or callable, default "auto"
        Space in which neighbours are looked for. "auto" standardises numbers and encodes the other columns (see
        :mod:`steep.weighting.embedding`); an estimator that wraps a pipeline uses its preprocessing
        first. "standard" takes numbers only; None takes ``X`` as it is (the paper). Else what a scikit-learn
        transformer's ``fit_transform`` returns, or ``embedding(X)``.
    neighbors : ndarray or (distances, indices), optional
        A graph from :func:`neighbor_graph`, which saves the search; ``embedding`` is then not used. It decides
        whether a sample counts among its own neighbours.
    task : {"auto", "classification", "regression"}, default "auto"
        How to read ``y``: "auto" takes floats, and integers of more than 20 different values that are not codes of
        classes, as numbers, and everything else as classes (:func:`steep.labels.infer_task`).
    n_jobs : int, optional
        Threads of the search.

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
    found = resolve(measure, use="sample_weights", feeds=("labels",))
    size = found.check_k(n_neighbors)
    rescaling = check_rescaling(rescaling)
    samples = TrainingSet.check(X, y, embedding=embedding if neighbors is None else None, task=task)
    warn_of_float_classes(samples.labels, task)
    measured = measure_samples(samples, {found: [size]}, neighbors=neighbors, n_jobs=n_jobs)
    (variation,) = measured.variation.values()
    return rescale(variation, weight_ratio=weight_ratio, rescaling=rescaling)


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
            X, y, embedding=self.embedding, task=task_of(self.estimator), estimator=self.estimator,
            sample_weight=sample_weight, groups=groups,
        )  # fmt: skip
        measure = resolve(self.measure, use="VarianceWeighted", feeds=("labels", "model"))
        size = measure.check_k(self.n_neighbors)
        if len(samples) == 1:
            raise InputError("X has 1 sample; expected n_neighbors samples at least; pass more data")
        own = np.ones(len(samples)) if samples.sample_weight is None else samples.sample_weight
        used = np.flatnonzero(own)  # samples of weight zero are left out
        measured = measure_samples(
            samples if used.size == len(samples) else samples.rows(used), {measure: [size]}, estimator=self.estimator,
            params=params_of_rows(extra, used, len(samples)), n_jobs=self.n_jobs,
        )  # fmt: skip
        (variation,) = measured.variation.values()
        self.sample_weight_ = np.zeros(len(samples))
        self.sample_weight_[used] = rescale(variation, weight_ratio=self.weight_ratio, rescaling=self.rescaling)
        self.sample_weight_ *= own
        self.estimator_ = fit_weighted(clone(self.estimator), X, y, self.sample_weight_, extra)
        return self
