"""Exact self-join in few dimensions by SciPy's KD-tree: for data done before a compiler has started."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from steep._validation import FloatArray, IntArray
from steep.neighbors.brute import compare_all, first_equals, lengths_of_pairs
from steep.neighbors.distances import SLACK, as_float32, best_of
from steep.neighbors.frame import Frame

BLOCK = 4_096  # points searched at a time
FEW = 0.01  # share of points left in doubt that is still compared with all, one by one
LEAST, MOST = 2.0**-490, 2.0**490  # lengths in the frame between which the tree has lost no digits


def join_small_tree(X: FloatArray, frame: Frame, n_others: int) -> tuple[FloatArray, IntArray] | None:
    """Return distances (float32) and indices (int32) of each point's nearest others; None if ties abound."""
    n_points, width = len(X), min(n_others + 1 + SLACK, len(X))
    scaled = frame.scale(X)
    tree = KDTree(scaled)
    distances, indices = np.empty((n_points, n_others)), np.empty((n_points, n_others), np.int32)
    unsure = np.zeros(n_points, np.bool_)
    for first in range(0, n_points, BLOCK):
        rows = np.arange(first, min(first + BLOCK, n_points))
        reached, short = tree.query(scaled[rows], k=np.arange(1, width + 1))
        others = _others(short, rows)
        distances[rows], indices[rows] = best_of(lengths_of_pairs(X, rows, others), others, n_others)
        with np.errstate(over="ignore", under="ignore"):
            last = distances[rows, -1] * frame.unit * (1 + 1e-6)
        proven = (last < reached[:, -1]) & (last > LEAST) & (last < MOST)
        unsure[rows] = ~proven & (width < n_points)
    equal = unsure & (distances[:, -1] == 0)
    unsure &= ~equal
    if unsure.sum() > FEW * n_points:
        return None
    indices[equal] = first_equals(X, np.flatnonzero(equal), n_others)
    for q in np.flatnonzero(unsure):
        distances[q], indices[q] = compare_all(X, int(q), n_others)
    return as_float32(distances), indices


def _others(short: IntArray, rows: IntArray) -> IntArray:
    """Return each row's list without the row itself, ascending; without its last where it is not listed."""
    others = short != rows[:, None]
    others[others.all(axis=1), -1] = False
    return np.sort(short[others].reshape(len(rows), -1), axis=1)
