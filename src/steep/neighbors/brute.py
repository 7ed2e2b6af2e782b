"""Exact self-join of small data in plain NumPy: nothing to compile, nothing to import."""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray, IntArray

BLOCK = 128  # rows at a time: what is computed stays in the cache and its memory is used again


def join_brute(X: FloatArray, n_others: int) -> tuple[FloatArray, IntArray]:
    """Return distances (float32) and indices (int32) of the ``n_others`` nearest others of each point."""
    points = X - X.mean(axis=0, dtype=np.float64)
    n_points = len(points)
    norms = np.einsum("ij,ij->i", points, points)
    distances, indices = np.empty((n_points, n_others), np.float32), np.empty((n_points, n_others), np.int32)
    for first in range(0, n_points, BLOCK):
        rows = np.arange(first, min(first + BLOCK, n_points))
        squared = points[rows] @ (-2.0 * points.T)
        squared += norms
        squared[rows - first, rows] = np.inf
        distances[rows], indices[rows] = _best(points, norms, rows, squared, n_others)
    return distances, indices


def _best(
    points: FloatArray, norms: FloatArray, rows: IntArray, squared: FloatArray, n_others: int
) -> tuple[FloatArray, IntArray]:
    """Return the nearest others of ``rows``, whose squared distances less their own norm are ``squared``.

    Products shortlist, differences decide: equal points are exactly 0 apart and ties are seen as ties.
    """
    width = min(n_others + 4, len(points) - 1)
    short = _shortlist(squared, width)
    distances = _distances(points, rows, short)
    order = np.argsort(distances, axis=1, kind="stable")[:, :n_others]
    indices = np.take_along_axis(short, order, axis=1)
    distances = np.take_along_axis(distances, order, axis=1)
    if width < len(points) - 1:
        edge = np.take_along_axis(squared, short, axis=1).max(axis=1) + norms[rows]
        last = distances[:, -1].astype(np.float64)
        for i in np.flatnonzero(edge - 1e-12 * norms.max() <= last * last * (1 + 1e-6)):
            # The last may be tied with one not shortlisted: compare with all.
            everyone = np.delete(np.arange(len(points)), rows[i])
            found = _distances(points, rows[i : i + 1], everyone[None])[0]
            best = np.argsort(found, kind="stable")[:n_others]
            distances[i], indices[i] = found[best], everyone[best]
    return distances, indices


def _shortlist(squared: FloatArray, width: int) -> IntArray:
    """Return the columns of the ``width`` least values of each row, ascending."""
    least = squared <= np.partition(squared, width - 1, axis=1)[:, width - 1 : width]
    columns = np.flatnonzero(least) % squared.shape[1]
    if len(columns) == width * len(squared):  # no ties: half the time of sorting out which is where
        return np.asarray(columns.reshape(-1, width))
    return np.sort(np.argpartition(squared, width - 1, axis=1)[:, :width], axis=1)


def _distances(points: FloatArray, rows: IntArray, others: IntArray) -> FloatArray:
    steps = points[others]
    steps -= points[rows][:, None, :]
    return np.asarray(np.sqrt(np.einsum("ijk,ijk->ij", steps, steps)), dtype=np.float32)
