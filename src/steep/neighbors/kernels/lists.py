# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled lists of best neighbours: heaps that pairs of points are offered to.

Notation: points are rows of ``X`` (float32, centred), ``half`` is |x|²/2, and what is kept for each
point is its ``width`` best ``score`` = |x − y|²/2 = half_x + half_y − x·y in a max-heap whose root is
the worst. ``top`` repeats the roots side by side, so that a scan reads them as vectors. Every product
x·y serves both points. Of ties with the worst the first to come stays: with many equal points all else would be
ties. The order of work is the same for any number of threads, so is the result; exact engines settle ties later.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled

BLOCK = 16  # products compared at once with the thresholds


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
            scores[right] > scores[child]
            or (scores[right] == scores[child] and indices[right] > indices[child])
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
    gap = values.shape[0] // 2
    while gap > 0:
        for i in range(gap, values.shape[0]):
            value, index, at = values[i], indices[i], i
            while at >= gap and (
                values[at - gap] > value or (values[at - gap] == value and indices[at - gap] > index)
            ):
                values[at], indices[at] = values[at - gap], indices[at - gap]
                at -= gap
            values[at], indices[at] = value, index
        gap //= 2


@compiled()
def scan(products, rows, cols, row_half, col_half, score, index, top, col_top):
    """Offer every pair of a strip of products to both its points.

    A block of 16 is compared with both thresholds first, without a branch; hits are rare and are
    looked at one by one.
    """
    n_cols = cols.shape[0]
    for j in range(n_cols):
        col_top[j] = top[cols[j]]
    for i in range(rows.shape[0]):
        q, line, my_half = rows[i], products[i], row_half[i]
        for begin in range(0, n_cols, BLOCK):
            end = min(begin + BLOCK, n_cols)
            my_top = top[q]
            hits = 0
            for j in range(begin, end):
                hits += (my_half + col_half[j]) - line[j] < max(my_top, col_top[j])
            if hits == 0:
                continue
            for j in range(begin, end):
                found = max((my_half + col_half[j]) - line[j], np.float32(0.0))
                if found < top[q]:
                    push(score, index, q, found, cols[j])
                    top[q] = score[q, 0]
                if found < col_top[j]:
                    m = cols[j]
                    push(score, index, m, found, q)
                    top[m] = score[m, 0]
                    col_top[j] = top[m]


@compiled()
def knows(indices, m):
    """Return whether ``m`` is already among a point's neighbours."""
    for j in range(indices.shape[0]):  # noqa: SIM110  a loop compiles to less than a generator
        if indices[j] == m:
            return True
    return False


@compiled()
def scan_rows(products, rows, slots, row_half, cols, col_half, score, index, top):
    """Offer every column to the rows only; ``rows[i]`` keeps its neighbours in ``slots[i]``.

    Rows may meet themselves and points they already know: both are passed over.
    """
    n_cols = cols.shape[0]
    for i in range(rows.shape[0]):
        slot, line, my_half = slots[i], products[i], row_half[i]
        for begin in range(0, n_cols, BLOCK):
            end = min(begin + BLOCK, n_cols)
            worst = top[slot]
            hits = 0
            for j in range(begin, end):
                hits += (my_half + col_half[j]) - line[j] < worst
            if hits == 0:
                continue
            for j in range(begin, end):
                found = max((my_half + col_half[j]) - line[j], np.float32(0.0))
                if found < top[slot] and rows[i] != cols[j] and not knows(index[slot], cols[j]):
                    push(score, index, slot, found, cols[j])
                    top[slot] = score[slot, 0]


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
