"""The k-nearest-neighbour graph of a data set with itself: choose an engine and run it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import csr_matrix

from steep._progress import Stopwatch
from steep._validation import (
    FloatArray,
    IntArray,
    Seed,
    check_choice,
    check_count,
    check_generator,
    check_jobs,
    check_points,
    check_real,
)
from steep.exceptions import InputError
from steep.neighbors.frame import Frame, as_float32, ordinary, unit_rows
from steep.neighbors.query import join_tree, lengths_to, nearest_others

SMALL = 1_000  # up to here plain NumPy is done before anything could be imported
# Up to these numbers of features and points SciPy's tree takes less time than loading what is compiled.
TREES = ((4, 20_000), (10, 5_000))
MEDIUM = 8_000  # up to here exact search is as quick as any other

Metric = Literal["euclidean", "cosine"]


@dataclass(frozen=True)
class GraphInfo:
    """What :func:`steep.neighbors.neighbor_graph` did.

    Attributes
    ----------
    algorithm : str
        "brute" (NumPy, up to 1,000 points), "tree" (SciPy's KD-tree, up to 20,000 points of at most 4 features and
        5,000 of at most 10), "exact" (up to 8,000 points, for ``recall=1``, where ties abound and where the promise
        could not be kept) or "partitioned", the only one that is approximate.
    estimated_recall : float
        Share of true neighbours found, estimated on ``n_estimated`` sampled points; 1 when exact.
    n_estimated : int
        Number of points searched exactly to estimate the recall; 0 when the search itself is exact.
    n_coordinates : int
        Coordinates the points were searched in, fewer than there are features where these are many; 0 when exact.
    seconds : dict of str to float
        Wall-clock time of each stage.

    Examples
    --------
    >>> from steep.neighbors import neighbor_graph
    >>> _, _, info = neighbor_graph(np.eye(50), n_neighbors=3, return_info=True)
    >>> info.algorithm, info.estimated_recall
    ('brute', 1.0)
    """

    algorithm: str
    estimated_recall: float = 1.0
    n_estimated: int = 0
    n_coordinates: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def neighbor_graph(
    X: Any,
    *,
    n_neighbors: int = 20,
    include_self: bool = True,
    recall: float = 0.95,
    metric: Metric = "euclidean",
    n_jobs: int | None = None,
    random_state: Seed = None,
    return_info: bool = False,
) -> Any:
    """Find the nearest neighbours of every point among the points themselves.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, of any real dtype and memory layout.
    n_neighbors : int, default=20
        Neighbours per point, the point itself among them when ``include_self``.
    include_self : bool, default=True
        Whether each point is its own first neighbour, at distance 0, equal points or not. If False a
        point is never among its own neighbours.
    recall : float in (0, 1], default=0.95
        Share of the true neighbours to find among more than 8,000 points (more than 20,000 with at most 4 features);
        among fewer all are found. 1 finds all.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" is 1 − cos of the angle and rejects rows of zeros.
    n_jobs : int or None, default=None
        Threads; None is 1, −1 all processors. The result does not depend on it.
    random_state : int, Generator or None, default=None
        Seed of approximate search; exact search draws nothing.
    return_info : bool, default=False
        Whether to return also what was done.

    Returns
    -------
    distances : ndarray of float32, shape (n_samples, n_neighbors)
        Sorted along each row; equal distances are sorted by index.
    indices : ndarray of int32, shape (n_samples, n_neighbors)
        Rows of ``X``; int32, half the memory of the default integer.
    info : GraphInfo
        The engine, the recall estimated, the time of each stage; only if ``return_info``.

    Notes
    -----
    Exact search returns the neighbours by float64 distance of the data as given, whatever its scale;
    distances that agree in float32's 24 digits count as ties. Distances beyond float32 (above 3.4·10³⁸,
    below 10⁻⁴⁵) are returned as its largest number or 0 but are sorted by their true value.

    Approximate search looks for pairs in float32 and measures those it returns in float64. Its recall is
    estimated by exact float64 search of sampled points, two standard errors above the promise, and the
    result is held against them. If it falls short because the data do not cluster, all points are searched
    exactly if that takes about a minute; otherwise a :class:`~steep.exceptions.SteepWarning` says so.

    Examples
    --------
    >>> from steep.neighbors import neighbor_graph
    >>> distances, indices = neighbor_graph([[0.0], [1.0], [3.0]], n_neighbors=2)
    >>> indices
    array([[0, 1],
           [1, 0],
           [2, 1]], dtype=int32)
    >>> distances
    array([[0., 1.],
           [0., 1.],
           [0., 2.]], dtype=float32)
    """
    distances, indices, info = search_graph(
        check_points(X), n_neighbors=n_neighbors, include_self=include_self, recall=recall, metric=metric,
        n_jobs=n_jobs, random_state=random_state,
    )  # fmt: skip
    return (distances, indices, info) if return_info else (distances, indices)


def search_graph(
    points: FloatArray,
    *,
    n_neighbors: int,
    include_self: bool = True,
    recall: float = 0.95,
    algorithm: str = "auto",
    metric: str = "euclidean",
    n_jobs: int | None = None,
    random_state: Seed = None,
) -> tuple[FloatArray, IntArray, GraphInfo]:
    """:func:`neighbor_graph` for points that are checked already; ``algorithm`` names the engine for tests of it."""
    points = np.asarray(points)
    n_others = _check_neighbors(n_neighbors, include_self, len(points))
    check_real(recall, name="recall", above=0.0, maximum=1.0)
    check_choice(metric, name="metric", choices=("euclidean", "cosine"))
    check_jobs(n_jobs)
    rng = check_generator(random_state)
    if metric == "cosine":
        points = unit_rows(points, "X")
    if n_others == 0:
        alone = np.arange(len(points), dtype=np.int32)[:, None]
        return np.zeros((len(points), 1), np.float32), alone, GraphInfo("brute")
    points, frame, exponent = ordinary(points)
    used = _choose(algorithm, points.shape[0], points.shape[1], recall)
    distances, indices, done = _run(used, points, frame, n_others, include_self, recall, n_jobs, rng)
    if exponent:  # float32 may not have held those of the points as searched
        distances = as_float32(np.ldexp(lengths_to(points, points, indices), exponent))
    if metric == "cosine":
        distances *= distances * np.float32(0.5)
    return distances, indices, GraphInfo(**{"algorithm": used, **done})


def _run(
    used: str,
    points: FloatArray,
    frame: Frame,
    n_others: int,
    include_self: bool,
    recall: float,
    n_jobs: int | None,
    rng: np.random.Generator,
) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Run one engine; the compiled ones are imported only here."""
    watch, found = Stopwatch(), None
    if used == "brute":
        found = nearest_others(points, np.arange(len(points)), n_others)
    elif used == "tree":
        found = join_tree(points, n_others, effective_n_jobs(n_jobs))
    if found is not None:
        distances, indices = as_float32(found[0]), found[1]
        if include_self:
            own = np.arange(len(indices), dtype=np.int32)[:, None]
            distances, indices = np.hstack([np.zeros_like(distances[:, :1]), distances]), np.hstack([own, indices])
        watch.lap("search")
        return distances, indices, {"seconds": watch.seconds}
    from steep.neighbors.exact import join_exact
    from steep.neighbors.lists import Join, threads
    from steep.neighbors.partitioned import join_partitioned

    with threads(n_jobs) as team:
        job = Join(np.ascontiguousarray(points), frame, n_others, include_self, team)
        if used == "partitioned":
            return join_partitioned(job, recall, rng)
        distances, indices, done = join_exact(job)
        return distances, indices, {"algorithm": "exact", **done}


def _choose(algorithm: str, n_points: int, n_features: int, recall: float) -> str:
    if n_points <= SMALL:
        return "brute"
    if algorithm != "auto":
        return algorithm
    if any(n_features <= features and n_points <= points for features, points in TREES):
        return "tree"
    return "exact" if n_points <= MEDIUM or recall == 1.0 else "partitioned"


# ---------------------------------------------------------------------------------------- arguments


def _check_neighbors(n_neighbors: int, include_self: bool, n_samples: int) -> int:
    n_neighbors = check_count(n_neighbors, name="n_neighbors")
    check_choice(include_self, name="include_self", choices=(True, False))
    needed = n_neighbors if include_self else n_neighbors + 1
    if n_samples < needed:
        raise InputError(
            f"n_neighbors={n_neighbors} needs at least {needed} samples, got {n_samples}; "
            "lower n_neighbors or pass more data"
        )
    return needed - 1


# ------------------------------------------------------------------------------------ sparse matrix


def sparse_graph(distances: Any, indices: Any) -> csr_matrix:
    """Return a graph of :func:`neighbor_graph` as a sparse matrix of distances, ``(n_samples, n_samples)``.

    Row i holds the distances to the neighbours of sample i, nearest first and without the sample itself;
    equal samples have an explicit zero. This is the form of scikit-learn's ``metric="precomputed"`` and of
    ``Datalab.find_issues(knn_graph=...)`` of cleanlab, which needs at least 10 neighbours.

    Parameters
    ----------
    distances, indices : array-like of shape (n_samples, n_neighbors)
        What :func:`neighbor_graph` returns; samples that are their own first neighbour are left out.

    Returns
    -------
    scipy.sparse.csr_matrix

    Examples
    --------
    >>> from steep.neighbors import neighbor_graph
    >>> sparse_graph(*neighbor_graph([[0.0], [1.0], [3.0]], n_neighbors=2)).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 2., 0.]])
    """
    lengths, others = np.asarray(distances), np.asarray(indices)
    if others.ndim != 2 or others.dtype.kind not in "iu" or lengths.shape != others.shape:
        raise InputError(
            f"distances of shape {lengths.shape} and indices of shape {others.shape} ({others.dtype}) are not a "
            "graph; expected two arrays of shape (n_samples, n_neighbors), as neighbor_graph returns them"
        )
    if others.size and not (others.min() >= 0 and others.max() < len(others)):
        raise InputError(
            f"indices goes from {others.min()} to {others.max()}; expected rows from 0 to {len(others) - 1}; build "
            "it with neighbor_graph"
        )
    own = others == np.arange(len(others))[:, None]
    if own.any():
        if not own[:, 0].all() or own[:, 1:].any():
            raise InputError(
                "indices holds some samples as neighbours of themselves; expected all of them, as the first, or none; "
                "build it with neighbor_graph"
            )
        lengths, others = lengths[:, 1:], others[:, 1:]
    n_samples, n_others = others.shape
    starts = np.arange(0, n_samples * n_others + 1, n_others) if n_others else np.zeros(n_samples + 1, int)
    flat = lengths.astype(np.float64).ravel(), np.ascontiguousarray(others).ravel(), starts
    return csr_matrix(flat, shape=(n_samples, n_samples))
