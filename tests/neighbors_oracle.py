"""Brute force in float64, written to be read: the oracle of the neighbour engines, and data to try them on."""

import numpy as np

from steep._validation import check_points
from steep.neighbors.graph import search_graph

FLOAT32_MAX = np.finfo(np.float32).max


def distances_from(X, q):
    """Distances of all rows to row ``q``, at any scale: divided by the largest step before squaring."""
    shrink = 2.0**-12 if np.abs(X).max() > 1e290 else 1.0  # so that no difference overflows
    steps = np.abs(X * shrink - X[q] * shrink)
    largest = steps.max(axis=1)
    with np.errstate(invalid="ignore", under="ignore"):
        lengths = largest * np.sqrt(np.square(steps / largest[:, None]).sum(axis=1))
    return np.where(largest > 0, lengths, 0.0), shrink


def ranked(distances):
    """Rounded to float32's 24 binary digits, but with float64's range."""
    mantissa, exponent = np.frexp(distances)
    return np.ldexp(mantissa.astype(np.float32).astype(np.float64), exponent)


def engine_graph(X, *, algorithm, return_info=False, **options):
    """``neighbor_graph`` by an engine of the caller's choice."""
    found = search_graph(check_points(X), algorithm=algorithm, **{"n_neighbors": 20, **options})
    return found if return_info else found[:2]


def brute_force(X, n_neighbors, include_self=False, metric="euclidean", rows=None):
    """Distances rounded to float32, sorted by (distance, index); of the first ``rows`` points if given."""
    X = np.asarray(X, dtype=np.float64)
    if metric == "cosine":
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    rows = range(len(X) if rows is None else rows) if rows is None or np.isscalar(rows) else rows
    distances = np.empty((len(rows), n_neighbors), np.float32)
    indices = np.empty((len(rows), n_neighbors), np.int64)
    for i, q in enumerate(rows):
        d, shrink = distances_from(X, q)
        d = ranked(d**2 / 2 if metric == "cosine" else d)
        d[q] = -1.0 if include_self else np.inf
        best = np.argsort(d, kind="stable")[:n_neighbors]
        with np.errstate(over="ignore"):
            distances[i], indices[i] = np.clip(d[best] / shrink, 0.0, FLOAT32_MAX), best
    return distances, indices


def shares_found(X, indices, rows=None):
    """Share of each point's neighbours that are no farther than its true last one: 1 if exact, up to ties."""
    X = np.asarray(X, dtype=np.float64)
    rows = np.arange(len(X)) if rows is None else np.asarray(rows)
    shares = np.empty(len(rows))
    for i, q in enumerate(rows):
        d, _ = distances_from(X, q)
        mine = d[indices[q]]
        d[q] = np.inf
        last = np.partition(d, indices.shape[1] - 1)[indices.shape[1] - 1]
        shares[i] = (mine <= last * (1 + 2e-7)).mean()
    return shares


def recall(found, true):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, true, strict=True)])


def nested(rng, n, d, ratio=100.0, levels=4, branches=6):
    """Clusters of clusters, each level ``ratio`` times smaller than the one above."""
    path = rng.integers(branches, size=(n, levels))
    X, code = np.zeros((n, d)), np.zeros(n, int)
    for level in range(levels):
        code = code * branches + path[:, level]
        X += ratio**-level * rng.normal(size=(branches ** (level + 1), d))[code]
    return X + ratio**-levels * rng.normal(size=(n, d))


NASTY = {
    "fill value": lambda r, n, d: _with(r.normal(size=(n, d)), 9.96921e36),
    "outlier 1e6": lambda r, n, d: _with(r.normal(size=(n, d)), 1e6, slice(None)),
    "outlier 3e6": lambda r, n, d: _with(r.normal(size=(n, d)), 3e6, slice(None)),
    "outlier 1e18": lambda r, n, d: _with(r.normal(size=(n, d)), 1e18),
    "outlier 1e99": lambda r, n, d: _with(r.normal(size=(n, d)), -1e99),
    "largest numbers": lambda r, n, d: 1e100 * r.uniform(-1, 1, size=(n, d)),
    "outlier of tiny data": lambda r, n, d: _with(1e-60 * r.normal(size=(n, d)), 1e99),
    "smallest numbers": lambda r, n, d: 5e-324 * r.integers(-40, 40, size=(n, d)),
    "any one scale": lambda r, n, d: 10.0 ** r.uniform(-300, 98) * r.normal(size=(n, d)),
    "float32's ends": lambda r, n, d: np.float32(10.0 ** r.choice([-42, -38, -22, 19, 36]) * r.normal(size=(n, d))),
    "a scale for each row": lambda r, n, d: 10.0 ** r.uniform(-70, 98, size=(n, 1)) * r.normal(size=(n, d)),
    "a scale for each column": lambda r, n, d: 10.0 ** r.uniform(-30, 30, size=d) * r.normal(size=(n, d)),
    "two scales": lambda r, n, d: np.where(r.random((n, 1)) < 0.4, 1e30, 1e-30) * r.normal(size=(n, d)),
    "Cauchy squared": lambda r, n, d: r.standard_cauchy((n, d)) ** 2,
    "Cauchy cubed": lambda r, n, d: r.standard_cauchy((n, d)) ** 3,
    "Cauchy cubed, standardised": lambda r, n, d: _standardised(r.standard_cauchy((n, d)) ** 3),
    "nested clusters": nested,
    "tight clusters far apart": lambda r, n, d: 1e5 * r.integers(3, size=(n, 1)) + 1e-4 * r.normal(size=(n, d)),
    "huge offset": lambda r, n, d: 1e12 + r.normal(size=(n, d)),
    "all equal": lambda r, n, d: np.full((n, d), r.normal()),
    "copies": lambda r, n, d: r.normal(size=(max(1, n // 15), d))[r.integers(max(1, n // 15), size=n)],
    "integers": lambda r, n, d: r.integers(-2, 3, size=(n, d)),
    "float16": lambda r, n, d: r.normal(size=(n, d)).astype(np.float16),
    "constant columns": lambda r, n, d: np.where(np.arange(d) % 2 == 0, r.normal(size=(n, d)), 1e9),
    "zeros of both signs": lambda r, n, d: np.where(r.random((n, d)) < 0.5, 0.0, -0.0),
    "lonely points": lambda r, n, d: np.where(r.random((n, 1)) < 0.02, 1e8, 1.0) * r.normal(size=(n, d)),
}  # fmt: skip


def _with(X, value, where=0):
    X[len(X) // 3, where] = value
    return X


def _standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)
