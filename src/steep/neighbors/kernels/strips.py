# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled walks along strips of products, 16 at a time: who is near enough, and how many are."""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.lists import knows
from steep.neighbors.kernels.panels import insert
from steep.neighbors.kernels.vectors import PANEL, first_bit, low_scores


@compiled()
def near_enough(line, half, my_half, bound, begin):
    """Return as bits which of the scores from ``begin`` on, 16 at most, do not exceed ``bound``."""
    if begin + PANEL <= line.shape[0]:
        return low_scores(line.ctypes.data + 4 * begin, half.ctypes.data + 4 * begin, my_half, bound)
    bits = np.uint32(0)
    for j in range(line.shape[0] - begin):
        if (my_half + half[begin + j]) - line[begin + j] <= bound:
            bits |= np.uint32(1) << np.uint32(j)
    return bits


@compiled()
def scan_rows(products, rows, slots, row_half, cols, col_half, score, index, top):
    """Offer every column to the rows only; ``rows[i]`` keeps its neighbours in ``slots[i]``.

    Rows may meet themselves and points they already know: both are passed over.
    """
    for i in range(rows.shape[0]):
        slot, line = slots[i], products[i]
        for begin in range(0, line.shape[0], PANEL):
            hits = near_enough(line, col_half, row_half[i], top[slot], begin)
            while hits:
                j = begin + first_bit(hits)
                hits &= hits - np.uint32(1)
                found = max((row_half[i] + col_half[j]) - line[j], np.float32(0.0))
                if found < top[slot] and rows[i] != cols[j] and not knows(index[slot], cols[j]):
                    top[slot] = insert(score, index, slot, found, cols[j])


@compiled()
def count_nearer(products, row_half, col_half, limits, counts):
    """Add to ``counts[i, j]`` the points whose score is above ``limits[i, j − 1]`` and at most ``limits[i, j]``.

    ``limits`` ascend along each row; a score is half_x + half_y − x·y. The point itself is counted too.
    """
    for i in range(products.shape[0]):
        line, my_half, last = products[i], row_half[i], limits[i, limits.shape[1] - 1]
        for begin in range(0, line.shape[0], PANEL):
            hits = near_enough(line, col_half, my_half, last, begin)
            while hits:
                j = begin + first_bit(hits)
                hits &= hits - np.uint32(1)
                score, place = (my_half + col_half[j]) - line[j], 0
                while place < limits.shape[1] - 1 and limits[i, place] < score:
                    place += 1
                counts[i, place] += 1
