"""Brute force in float64, written to be read: the oracle of the neighbour engines."""

import numpy as np


def brute_force(X, n_neighbors, include_self=False, metric="euclidean", rows=None):
    """Distances rounded to float32, sorted by (distance, index); of the first ``rows`` points if given."""
    X = np.asarray(X, dtype=np.float64)
    if metric == "cosine":
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    rows = len(X) if rows is None else rows
    distances = np.empty((rows, n_neighbors), np.float32)
    indices = np.empty((rows, n_neighbors), np.int64)
    for q in range(rows):
        d = np.sqrt(((X - X[q]) ** 2).sum(axis=1))
        d = (d**2 / 2 if metric == "cosine" else d).astype(np.float32)
        d[q] = -1.0 if include_self else np.inf
        best = np.argsort(d, kind="stable")[:n_neighbors]
        distances[q], indices[q] = np.maximum(d[best], 0.0), best
    return distances, indices


def recall(found, true):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, true, strict=True)])
