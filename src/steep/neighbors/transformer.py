"""The neighbour graph as a scikit-learn transformer: for pipelines, clustering, t-SNE and UMAP."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from steep._validation import FloatArray, IntArray, Seed, check_choice, check_count
from steep.exceptions import InputError
from steep.neighbors.frame import unit_rows
from steep.neighbors.graph import Metric, neighbor_graph
from steep.neighbors.query import nearest


class NeighborTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn samples into the sparse graph of their nearest neighbours, as ``KNeighborsTransformer`` does.

    What takes ``metric="precomputed"`` (``DBSCAN``, ``Isomap``, ``TSNE``, ``SpectralClustering``,
    ``KNeighborsClassifier``) can follow it in a pipeline.

    Parameters
    ----------
    mode : {"distance", "connectivity"}, default="distance"
        Whether entries are distances or ones.
    n_neighbors : int, default=5
        Neighbours of each sample. As in scikit-learn, graphs of distances hold one more than that, because a sample
        is its own first neighbour; graphs of ones count it among the ``n_neighbors``.
    metric : {"euclidean", "cosine"}, default="euclidean"
    recall : float in (0, 1], default=0.95
        Share of the true neighbours that must be found among more than 8,000 samples; fewer are searched exactly.
    n_jobs : int or None, default=None
        Threads.
    random_state : int, Generator or None, default=None
        Seed of the partitioned search.

    Attributes
    ----------
    n_features_in_ : int
    n_samples_fit_ : int

    Examples
    --------
    >>> from steep.neighbors import NeighborTransformer
    >>> NeighborTransformer(n_neighbors=1).fit_transform([[0.0], [1.0], [3.0]]).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 2., 0.]])
    """

    def __init__(
        self,
        *,
        mode: str = "distance",
        n_neighbors: int = 5,
        metric: Metric = "euclidean",
        recall: float = 0.95,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ) -> None:
        self.mode = mode
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.recall = recall
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep the samples among which neighbours are looked for."""
        check_choice(self.mode, name="mode", choices=("distance", "connectivity"))
        check_choice(self.metric, name="metric", choices=("euclidean", "cosine"))
        self._points: FloatArray = validate_data(self, X, dtype=(np.float64, np.float32))
        self.n_samples_fit_ = len(self._points)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:
        """Return the graph of the samples with themselves, shape ``(n_samples, n_samples)``."""
        self.fit(X)
        distances, indices = neighbor_graph(
            self._points, n_neighbors=self._width(), recall=self.recall, metric=self.metric, n_jobs=self.n_jobs,
            random_state=self.random_state,
        )  # fmt: skip
        return self._matrix(distances, indices)

    def transform(self, X: Any) -> csr_matrix:
        """Return the graph from samples to those fitted, shape ``(n_samples, n_samples_fit)``; it is exact."""
        check_is_fitted(self)
        queries = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        if self.metric == "euclidean":
            return self._matrix(*nearest(self._points, queries, self._width()))
        distances, indices = nearest(unit_rows(self._points, "X"), unit_rows(queries, "X"), self._width())
        return self._matrix(0.5 * np.square(distances), indices)

    def _width(self) -> int:
        width = int(check_count(self.n_neighbors, name="n_neighbors")) + (self.mode == "distance")
        if width > self.n_samples_fit_:
            raise InputError(
                f"n_neighbors={self.n_neighbors} requires at least {width} samples, but X has {self.n_samples_fit_}; "
                "lower n_neighbors or pass more data"
            )
        return width

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    def _matrix(self, distances: FloatArray, indices: IntArray) -> csr_matrix:
        n_samples, width = indices.shape
        values = distances.astype(np.float64, copy=False) if self.mode == "distance" else np.ones(indices.shape)
        starts = np.arange(0, n_samples * width + 1, width)
        flat = values.ravel(), np.ascontiguousarray(indices).ravel(), starts
        return csr_matrix(flat, shape=(n_samples, self.n_samples_fit_))
