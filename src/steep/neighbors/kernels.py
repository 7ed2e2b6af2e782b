# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled loops of the neighbour engines; imported only when data are large enough to need them.

Notation: points are rows of ``X`` (float32, centred), ``half`` is |x|²/2, and what is kept for each
point is its ``width`` best ``score`` = |x − y|²/2 = half_x + half_y − x·y in a max-heap whose root is
the worst. ``top`` repeats the roots side by side, so that a scan reads them as vectors. Every product
x·y serves both points. Ties go to the lower index, so the result is the same for every order of work.
"""

from __future__ import annotations

import numpy as np
from numba import njit

STRIP = 128  # rows per product: a strip of products stays in the cache until it is scanned
BLOCK = 16  # products compared at once with the thresholds
LANES = 64
HALVINGS = 8
NO_NAN = {"nnan", "nsz", "reassoc", "contract"}  # infinities are met, NaN never: it is refused
FINITE = np.float32(3e38)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def push(score, index, q, new_score, new_index):
    """Replace the worst of point ``q``'s neighbours when (new_score, new_index) comes before it."""
    if new_score == score[q, 0] and new_index > index[q, 0]:
        return
    sift(score[q], index[q], 0, new_score, new_index)


@njit(cache=True, nogil=True)
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
                hits += (my_half + col_half[j]) - line[j] <= max(my_top, col_top[j])
            if hits == 0:
                continue
            for j in range(begin, end):
                found = max((my_half + col_half[j]) - line[j], np.float32(0.0))
                if found <= top[q]:
                    push(score, index, q, found, cols[j])
                    top[q] = score[q, 0]
                if found <= col_top[j]:
                    m = cols[j]
                    push(score, index, m, found, q)
                    top[m] = score[m, 0]
                    col_top[j] = top[m]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True, fastmath=NO_NAN)
def to_scores(line, half, my_half, lanes):
    """Turn one point's products into scores, in place, and deal them out to 64 lanes, keeping each minimum."""
    lanes[:] = np.inf
    whole = line.shape[0] - line.shape[0] % LANES
    for begin in range(0, whole, LANES):
        for j in range(LANES):  # a fixed count: compiled to vectors
            line[begin + j] = max((my_half + half[begin + j]) - line[begin + j], np.float32(0.0))
            lanes[j] = min(lanes[j], line[begin + j])
    for j in range(line.shape[0] - whole):
        line[whole + j] = max((my_half + half[whole + j]) - line[whole + j], np.float32(0.0))
        lanes[j] = min(lanes[j], line[whole + j])


@njit(cache=True, nogil=True, fastmath=NO_NAN)
def bound_of_best(lanes, width):
    """Return a score that at least ``width`` points do not exceed, and not many more.

    The ``width`` lowest of the lanes' minima are such points' scores. A few halvings find their bound
    closely enough, without sorting.
    """
    low, high = lanes[0], lanes[0]
    for j in range(LANES):
        low, high = min(low, lanes[j]), max(high, lanes[j])
    if width > LANES or high == np.inf:
        return np.float32(np.inf)
    for _ in range(HALVINGS):
        middle = np.float32(0.5) * (low + high)
        n_below = np.float32(0.0)
        for j in range(LANES):
            n_below += np.float32(1.0) if lanes[j] <= middle else np.float32(0.0)
        if n_below >= width:
            high = middle
        else:
            low = middle
    return high


@njit(cache=True, nogil=True)
def choose(line, bound, first, q, score, index, top, picked, picked_index):
    """Start the list of point ``q`` with the best of ``line``, the scores of points from ``first`` on."""
    n_picked = 0
    for j in range(line.shape[0]):  # without a branch: what is not picked is written over
        picked[n_picked], picked_index[n_picked] = line[j], first + j
        n_picked += line[j] <= bound
    scores, indices = score[q], index[q]
    n_first = min(n_picked, scores.shape[0])
    scores[:n_first], indices[:n_first] = picked[:n_first], picked_index[:n_first]
    for at in range(scores.shape[0] // 2 - 1, -1, -1):
        sift(scores, indices, at, scores[at], indices[at])
    for j in range(n_first, n_picked):
        if picked[j] <= scores[0]:
            push(score, index, q, picked[j], picked_index[j])
    top[q] = scores[0]


@njit(cache=True, nogil=True)
def join_within(X, half, start, cells, score, index, top, stop):
    """Start every point's list, empty so far, with the best of its own cell, for each of ``cells``."""
    longest, width = np.max(start[1:] - start[:-1]), score.shape[1]
    room, lanes = np.empty(STRIP * longest, np.float32), np.empty(LANES, np.float32)
    picked, picked_index = np.empty(longest + 1, np.float32), np.empty(longest + 1, np.int32)
    for cell in cells:
        if stop[0]:
            return
        begin, end = start[cell], start[cell + 1]
        for first in range(begin, end, STRIP):
            n_rows, n_cols = min(STRIP, end - first), end - begin
            products = room[: n_rows * n_cols].reshape(n_rows, n_cols)
            np.dot(X[first : first + n_rows], X[begin:end].T, products)
            for i in range(n_rows):
                line, q = products[i], first + i
                line[q - begin] = -np.inf  # a point is not its own neighbour
                to_scores(line, half[begin:end], half[q], lanes)
                bound = min(bound_of_best(lanes, width), FINITE)
                choose(line, bound, begin, q, score, index, top, picked, picked_index)


@njit(cache=True, nogil=True)
def join_across(X, half, start, pairs, score, index, top, stop):
    """Offer every pair of points of two different tiles, for each of the ``pairs`` of tiles."""
    longest = np.max(start[1:] - start[:-1])
    room, col_top = np.empty(STRIP * longest, np.float32), np.empty(longest, np.float32)
    for p in range(pairs.shape[0]):
        if stop[0]:
            return
        a, b = pairs[p]
        begin, end = start[b], start[b + 1]
        cols = np.arange(begin, end)
        for first in range(start[a], start[a + 1], STRIP):
            last = min(first + STRIP, start[a + 1])
            products = room[: (last - first) * (end - begin)].reshape(last - first, end - begin)
            np.dot(X[first:last], X[begin:end].T, products)
            rows = np.arange(first, last)
            scan(products, rows, cols, half[first:last], half[begin:end], score, index, top, col_top)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def prove(X, score, index, certain, best, best_index, unsure, rows):
    """Take the shortlisted distances anew in float64, keep the best, and say where that proves nothing."""
    width, wanted = score.shape[1], best.shape[1]
    for q in rows:
        for j in range(width):
            score[q, j] = distance(X, q, index[q, j])
        sort_pairs(score[q], index[q])
        best[q], best_index[q] = score[q, :wanted], index[q, :wanted]
        reached = np.float64(best[q, wanted - 1])
        unsure[q] = not 0.5 * reached * reached * (1 + 1e-6) < certain[q]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def distance(X, q, m):
    """Distance of two rows, computed in float64, rounded to float32."""
    total = 0.0
    for f in range(X.shape[1]):
        step = np.float64(X[q, f]) - np.float64(X[m, f])
        total += step * step
    return np.float32(np.sqrt(total))


@njit(cache=True, nogil=True)
def compare_all(X, rows, score, index, stop):
    """Find the neighbours of ``rows`` by comparing with every point in float64."""
    for q in rows:
        if stop[0]:
            return
        score[q], index[q] = np.inf, X.shape[0]
        for m in range(X.shape[0]):
            found = distance(X, q, m)
            if found <= score[q, 0] and m != q:
                push(score, index, q, found, m)
        sort_pairs(score[q], index[q])
