"""Exact self-join of small data in plain NumPy: nothing to compile, nothing to import."""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray, IntArray


def join_brute(X: FloatArray, n_others: int) -> tuple[FloatArray, IntArray]:
    """Return distances (float32) and indices (int32) of the ``n_others`` nearest others of each point."""
    points = X - X.mean(axis=0, dtype=np.float64)
    n_points = len(points)
    norms = np.einsum("ij,ij->i", points, points)
    squared = points @ points.T
    squared *= -2.0
    squared += norms[:, None]
    squared += norms
    np.fill_diagonal(squared, np.inf)
    # Products shortlist, differences decide: equal points are exactly 0 apart and ties are seen as ties.
    width = min(n_others + 4, n_points - 1)
    short = np.argpartition(squared, width - 1, axis=1)[:, :width]
    short.sort(axis=1)
    distances = _distances(points, np.arange(n_points), short)
    order = np.argsort(distances, axis=1, kind="stable")[:, :n_others]
    indices = np.take_along_axis(short, order, axis=1).astype(np.int32)
    distances = np.take_along_axis(distances, order, axis=1)
    if width < n_points - 1:
        _settle_ties(points, squared, short, distances, indices)
    return distances, indices


def _distances(points: FloatArray, rows: IntArray, others: IntArray) -> FloatArray:
    steps = points[others] - points[rows][:, None, :]
    return np.asarray(np.sqrt(np.einsum("ijk,ijk->ij", steps, steps)), dtype=np.float32)


def _settle_ties(
    points: FloatArray, squared: FloatArray, short: IntArray, distances: FloatArray, indices: IntArray
) -> None:
    """Search in full, in place, the rows whose k-th distance may be tied with one not shortlisted."""
    edge = np.take_along_axis(squared, short, axis=1).max(axis=1)
    noise = 1e-12 * np.einsum("ij,ij->i", points, points).max()
    last = distances[:, -1].astype(np.float64)
    for q in np.flatnonzero(edge - noise <= last * last * (1 + 1e-6)):
        everyone = np.delete(np.arange(len(points)), q)
        found = _distances(points, np.array([q]), everyone[None])[0]
        best = np.argsort(found, kind="stable")[: distances.shape[1]]
        distances[q], indices[q] = found[best], everyone[best]
