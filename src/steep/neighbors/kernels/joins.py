# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled join of cells, each with itself, which starts the lists."""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import NO_NAN, compiled
from steep.neighbors.kernels.panels import copy_rows, insert, room_for, side_of, turn_over
from steep.neighbors.kernels.vectors import (
    LANES,
    PANEL,
    TILE_ROWS,
    TOGETHER,
    at_most,
    first_bit,
    multiply_tile,
    n_before,
    n_bits,
)

HALVINGS = 8
FINITE = np.float32(3e38)
MANY = 8  # times the width: where more are picked most are ties, as among equal points


@compiled(fastmath=NO_NAN)
def to_scores(line, my_half, lanes):
    """Turn one point's products into scores, in place, and deal them out to lanes, keeping each minimum."""
    lanes[:] = np.inf
    for block in range(line.shape[0] // LANES):
        some, least = line[block * LANES : (block + 1) * LANES], lanes[block % lanes.shape[0]]
        for j in range(LANES):
            some[j] = max(my_half - some[j], np.float32(0.0))
            least[j] = min(least[j], some[j])


@compiled(fastmath=NO_NAN)
def bound_of_best(lanes, width):
    """Return a score that at least ``width`` points do not exceed, and not many more.

    The ``width`` lowest of the lanes' minima are such points' scores. A few halvings find their bound
    closely enough, without sorting. Lanes that no point has come to are infinite.
    """
    low, high = np.float32(np.inf), np.float32(0.0)
    for g in range(lanes.shape[0]):
        for j in range(LANES):
            value = lanes[g, j]
            low, high = min(low, value), max(high, value if value < FINITE else np.float32(0.0))
    if n_within(lanes, high) < width:
        return np.float32(np.inf)
    for _ in range(HALVINGS):
        middle = np.float32(0.5) * (low + high)
        if n_within(lanes, middle) >= width:
            high = middle
        else:
            low = middle
    return high


@compiled()
def n_within(lanes, bound):
    """Count the lanes whose minimum is at most ``bound``."""
    total = 0
    for first in range(0, lanes.size, PANEL):
        total += n_bits(at_most(lanes.ctypes.data + 4 * first, bound))
    return total


@compiled()
def choose(line, bound, first, q, best, picked, picked_index):
    """Start the list of point ``q`` with the best of ``line``, the scores of points from ``first`` on."""
    score, index, top = best
    n_picked = 0
    for begin in range(0, line.shape[0], PANEL):
        hits = at_most(line.ctypes.data + 4 * begin, bound)
        while hits:
            j = begin + first_bit(hits)
            hits &= hits - np.uint32(1)
            picked[n_picked], picked_index[n_picked] = line[j], first + j
            n_picked += 1
    if n_picked <= MANY * score.shape[1]:
        start_list(picked, picked_index, n_picked, score[q], index[q])
        top[q] = score[q, -1]
        return
    last = score[q, -1]  # the same list, one by one: placing each among all takes the square of their number
    for i in range(n_picked):
        if picked[i] < last:
            last = insert(score, index, q, picked[i], picked_index[i])
    top[q] = last


@compiled()
def start_list(picked, picked_index, n_picked, scores, indices):
    """Write the best of what was picked to an empty list, ascending: each to the place of as many as come before it."""
    n_blocks = -(-n_picked // PANEL)
    picked[n_picked : n_blocks * PANEL] = np.inf
    for i in range(n_picked):
        place = 0
        for block in range(0, n_blocks * PANEL, PANEL):
            place += n_before(picked.ctypes.data + 4 * block, picked[i], i - block)
        if place < scores.shape[0]:
            scores[place], indices[place] = picked[i], picked_index[i]


@compiled()
def multiply(n_features, mine, half, first, panels, n_points, lines):
    """Write the products of 16 rows, from ``first`` on, with all points of the panels to ``lines``."""
    step = 4 * mine.shape[1]
    for low in range(0, PANEL, TILE_ROWS):
        for col in range(0, n_points, TOGETHER):
            multiply_tile(
                mine.ctypes.data + (first + low) * step, step, panels.ctypes.data + col * step, n_features,
                half.ctypes.data + 4 * col, lines.ctypes.data + 4 * (low * lines.shape[1] + col),
                4 * lines.shape[1],
            )  # fmt: skip


@compiled()
def join_within(X, half, start, cells, best, stop):
    """Start every point's list, empty so far, with the best of its own cell, for each of ``cells``."""
    longest, width = np.max(start[1:] - start[:-1]), best.score.shape[1]
    side = side_of(longest, X.shape[1])
    mine, my_half, panels = side.points, side.half, room_for(side, X.shape[1], True).panels
    lanes = np.empty((-(-3 * width // LANES), LANES), np.float32)
    lines = np.empty((PANEL, -(-mine.shape[0] // LANES) * LANES), np.float32)
    picked, picked_index = np.empty(mine.shape[0], np.float32), np.empty(mine.shape[0], np.int32)
    for cell in cells:
        if stop[0]:
            return
        begin, n_points = start[cell], start[cell + 1] - start[cell]
        copy_rows(X, half, begin, n_points, mine, my_half)
        turn_over(mine, n_points, panels)
        n_places = -(-n_points // LANES) * LANES
        for first in range(0, n_points, PANEL):
            lines[:, -(-n_points // PANEL) * PANEL : n_places] = -np.inf
            multiply(X.shape[1], mine, my_half, first, panels, n_points, lines)
            for i in range(min(PANEL, n_points - first)):
                line, q = lines[i, :n_places], begin + first + i
                line[first + i] = -np.inf  # a point is not its own neighbour
                to_scores(line, my_half[first + i], lanes)
                bound = min(bound_of_best(lanes, width), FINITE)
                choose(line, bound, begin, q, best, picked, picked_index)
