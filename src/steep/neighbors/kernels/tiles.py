# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled joins of tiles and of cells: each with itself, which starts the lists, then with others."""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import NO_NAN, compiled
from steep.neighbors.kernels.lists import push, scan, sift

STRIP = 128  # rows per product: a strip of products stays in the cache until it is scanned
LANES = 64
HALVINGS = 8
FINITE = np.float32(3e38)


@compiled(fastmath=NO_NAN)
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


@compiled(fastmath=NO_NAN)
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


@compiled()
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


@compiled()
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


@compiled()
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
