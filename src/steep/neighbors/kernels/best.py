# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled lists of best neighbours that pairs of points are offered to.

Notation: points are rows of ``X`` (float32, centred), ``half`` is |x|²/2, and what is kept for each
point is its ``width`` best ``score`` = |x − y|²/2 = half_x + half_y − x·y. Cells and tiles keep them ascending
(``insert``, 16 at a time); the tree and exact search of single rows in a max-heap whose root is the worst
(``push``). ``top`` repeats the worst side by side, so that a scan reads them as vectors. Every product
x·y serves both points. The first of several ties with the worst stays: with many equal points all else would be
ties. The order of work is the same for any number of threads, so is the result; exact engines settle ties later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.vectors import PANEL, shift_in


class Best(NamedTuple):
    """What is kept for each point: the scores and places of its best neighbours so far, and the worst of those."""

    score: Any
    index: Any
    top: Any


@compiled()
def sift(scores, indices, at, new_score, new_index):
    """Put an entry at place ``at`` of a heap or, while a child is worse, below it."""
    width = scores.shape[0]
    while True:
        child = 2 * at + 1
        if child >= width:
            break
        right = child + 1
        if right < width and (
            scores[right] > scores[child] or (scores[right] == scores[child] and indices[right] > indices[child])
        ):
            child = right
        if scores[child] < new_score or (scores[child] == new_score and indices[child] < new_index):
            break
        scores[at], indices[at] = scores[child], indices[child]
        at = child
    scores[at], indices[at] = new_score, new_index


@compiled()
def push(score, index, q, new_score, new_index):
    """Replace the worst of point ``q``'s neighbours when (new_score, new_index) comes before it."""
    if new_score == score[q, 0] and new_index > index[q, 0]:
        return
    sift(score[q], index[q], 0, new_score, new_index)


@compiled()
def sort_pairs(values, indices):
    """Sort one row by (value, index), in place: Shell's sort, short for short rows."""
    sort_from_gap(values, indices, values.shape[0] // 2)


@compiled()
def sort_from_gap(values, indices, gap):
    """Sort one row by (value, index) from a gap on; 1 is quickest where the row is nearly sorted."""
    while gap > 0:
        for i in range(gap, values.shape[0]):
            value, index, at = values[i], indices[i], i
            while at >= gap and (values[at - gap] > value or (values[at - gap] == value and indices[at - gap] > index)):
                values[at], indices[at] = values[at - gap], indices[at - gap]
                at -= gap
            values[at], indices[at] = value, index
        gap //= 2


@compiled()
def knows(indices, m):
    """Return whether ``m`` is already among a point's neighbours."""
    for j in range(indices.shape[0]):  # noqa: SIM110  a loop compiles to less than a generator
        if indices[j] == m:
            return True
    return False


@compiled()
def insert(score, index, q, new_score, new_index):
    """Put an entry into the ascending list of point ``q`` instead of its last, behind its equals; return the new last.

    The column before the lists must hold −∞ (see ``empty_lists``).
    """
    width = score.shape[1]
    if width < PANEL:
        scores, indices, at = score[q], index[q], width - 1
        while at > 0 and scores[at - 1] > new_score:
            scores[at], indices[at] = scores[at - 1], indices[at - 1]
            at -= 1
        scores[at], indices[at] = new_score, new_index
        return scores[width - 1]
    scores, indices = score.ctypes.data + q * score.strides[0], index.ctypes.data + q * index.strides[0]
    at, n_lanes = width - PANEL, PANEL
    while shift_in(scores + 4 * at, indices + 4 * at, n_lanes, new_score, new_index) and at > 0:
        n_lanes = min(at, PANEL)
        at -= n_lanes
    return score[q, width - 1]


@compiled()
def color(pairs, n_cells):
    """Give each pair of cells a round, so that no cell appears twice in one round (greedy)."""
    degree = np.zeros(n_cells, np.int64)
    for p in range(pairs.shape[0]):
        degree[pairs[p, 0]] += 1
        degree[pairs[p, 1]] += 1
    taken = np.zeros((n_cells, 2 * max(degree.max(), 1)), np.bool_)
    rounds = np.empty(pairs.shape[0], np.int64)
    for p in range(pairs.shape[0]):
        a, b = pairs[p]
        free = 0
        while taken[a, free] or taken[b, free]:
            free += 1
        taken[a, free] = taken[b, free] = True
        rounds[p] = free
    return rounds
