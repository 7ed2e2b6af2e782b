# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled lists of best neighbours that pairs of points are offered to.

Notation: points are rows of ``X`` (float32, centred), ``half`` is |x|²/2, and what is kept for each
point is its ``width`` best ``score`` = |x − y|²/2 = half_x + half_y − x·y, ascending: ``insert`` moves 16 at a
time, ``put`` also compares indices. ``top`` repeats the worst side by side, so that a scan reads them as vectors. Every
product x·y serves both points. The first of several ties with the worst stays: with many equal points all else would be
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
def put(scores, indices, new_score, new_index):
    """Put an entry where it belongs in a row sorted by (score, index), instead of its last."""
    at = scores.shape[0] - 1
    while at > 0 and (scores[at - 1] > new_score or (scores[at - 1] == new_score and indices[at - 1] > new_index)):
        scores[at], indices[at] = scores[at - 1], indices[at - 1]
        at -= 1
    scores[at], indices[at] = new_score, new_index


@compiled()
def sort_pairs(values, indices, gap):
    """Sort one row by (value, index), in place: Shell's sort from a gap on; 1 is quickest if it is nearly sorted."""
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
