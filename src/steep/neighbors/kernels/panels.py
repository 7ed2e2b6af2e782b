# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""Products of points in registers: points in panels of 16, and the tile of two panels that never leaves the processor.

A panel holds 16 points, feature by feature: ``panel[f, i]`` is feature f of point i. A tile multiplies a few rows
with the points of panels and says at once, as bits, which pairs may be neighbours:

    a = x·y − half_y,   score = |x − y|²/2 = half_x − a,   hit when a > min(half_x − top_x, half_x − top_y),

that is when the score is below the worst either point has kept so far (see lists.py). Nearly all pairs are ruled out
there, 16 at a time, without a product being written to memory and read again. The bits and products of a tile with
hits are then looked at one by one.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import NO_NAN, compiled
from steep.neighbors.kernels.lists import knows
from steep.neighbors.kernels.vectors import PANEL, TILE_PANELS, TILE_ROWS, TOGETHER, first_bit, shift_in, tile, turn

NOWHERE = np.float32(np.inf)  # half the squared length of a place in a panel that no point has taken


@compiled()
def panels_for(n_points):
    """Return how many panels hold so many points, and what the last tile of them reads besides."""
    return -(-n_points // TOGETHER) * TILE_PANELS


@compiled()
def side_of(longest, n_features):
    """Return room for one side of a meeting: places in the lists, levels, points, half norms, thresholds."""
    places = panels_for(longest) * PANEL
    points = np.zeros((places, -(-n_features // PANEL) * PANEL), np.float32)
    return (
        np.zeros(places, np.int64), np.empty(places, np.float32), points, np.empty(places, np.float32),
        np.empty(places, np.float32),
    )  # fmt: skip


@compiled()
def fill(values, n_taken, value):
    """Write a value to the places of the last tile that no point has taken, as far as there are any."""
    for i in range(n_taken, min(panels_for(n_taken) * PANEL, values.shape[0])):
        values[i] = value


@compiled()
def panels_of(points):
    """Return room for the panels of points, which :func:`side_of` has made room for."""
    return np.zeros((points.shape[0] // PANEL, points.shape[1], PANEL), np.float32)


@compiled(fastmath=NO_NAN)
def gather(X, extra, positions, n_wanted, shift, points, half):
    """Copy the points at ``positions``, moved by ``shift``, with half their squared length and their ``extra``."""
    for i in range(n_wanted):
        row, total = X[positions[i]], np.float32(0.0)
        for f in range(X.shape[1]):
            moved = row[f] + shift[f]
            points[i, f] = moved
            total += moved * moved
        half[i] = np.float32(0.5) * total + extra[positions[i]]
    fill(half, n_wanted, NOWHERE)


@compiled()
def copy_rows(X, half, first, n_wanted, points, point_half):
    """Copy ``n_wanted`` points from ``first`` on, as they are."""
    for i in range(n_wanted):
        point_half[i] = half[first + i]
        for f in range(X.shape[1]):
            points[i, f] = X[first + i, f]
    fill(point_half, n_wanted, NOWHERE)


@compiled()
def turn_over(points, n_wanted, panels):
    """Write points to panels."""
    step = 4 * points.shape[1]
    for first in range(0, n_wanted, PANEL):
        for f in range(0, points.shape[1], PANEL):
            turn(points.ctypes.data + first * step + 4 * f, step, panels.ctypes.data + first * step + 4 * PANEL * f)


@compiled()
def room_for_tile():
    """Return room for the products and bits of one tile."""
    return np.empty((TILE_ROWS, TOGETHER), np.float32), np.zeros(TILE_ROWS * TILE_PANELS, np.uint16)


@compiled()
def tile_at(n_features, mine, half, limit, low, others, other_half, other_top, col, room, bits):
    """Multiply the rows from ``low`` on with the panels from ``col`` on; see :func:`tile`."""
    step = 4 * mine.shape[1]  # of a row, and of a point in a panel
    return tile(
        mine.ctypes.data + low * step, step, others.ctypes.data + col * step, n_features, PANEL * step,
        half.ctypes.data + 4 * low, limit.ctypes.data + 4 * low, other_half.ctypes.data + 4 * col,
        other_top.ctypes.data + 4 * col, room.ctypes.data, 4 * room.shape[1], bits.ctypes.data,
    )  # fmt: skip


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
def meet(
    n_features, mine, my_half, my_limit, first, n_mine, others, other_half, other_top, begin, end, rows, cols, room,
    bits, score, index, top
):  # fmt: skip
    """Offer each other up to 16 rows, from ``first`` on, and the points ``begin`` to ``end`` of some panels.

    ``my_limit`` is half_x − top_x and ``other_top`` is top_y; both are kept up to date. ``rows`` and ``cols`` are
    the places of the points in the lists. ``begin`` is rounded down to a whole tile.
    """
    for low in range(first, first + min(n_mine, PANEL), TILE_ROWS):
        high = min(low + TILE_ROWS, first + n_mine)
        for col in range(begin - begin % TOGETHER, end, TOGETHER):
            if not tile_at(n_features, mine, my_half, my_limit, low, others, other_half, other_top, col, room, bits):
                continue
            for i in range(low, high):
                for c in range(TILE_PANELS):
                    hits = np.uint32(bits[(i - low) * TILE_PANELS + c])
                    while hits:
                        at = c * PANEL + first_bit(hits)
                        hits &= hits - np.uint32(1)
                        j = col + at
                        found = max(my_half[i] - room[i - low, at], np.float32(0.0))
                        q, m = rows[i], cols[j]
                        if found < top[q]:
                            top[q] = insert(score, index, q, found, m)
                            my_limit[i] = my_half[i] - top[q]
                        if found < other_top[j]:
                            top[m] = insert(score, index, m, found, q)
                            other_top[j] = top[m]


@compiled()
def meet_rows(
    n_features, mine, my_half, my_limit, first, n_mine, others, other_half, nobody, begin, end, rows, slots, cols,
    room, bits, score, index, top
):  # fmt: skip
    """Offer the points ``begin`` to ``end`` of some panels to the rows only; ``rows[i]`` has its list in ``slots[i]``.

    Rows may meet themselves and points they already know: both are passed over. ``nobody`` is −∞ everywhere.
    """
    for low in range(first, first + min(n_mine, PANEL), TILE_ROWS):
        high = min(low + TILE_ROWS, first + n_mine)
        for col in range(begin - begin % TOGETHER, end, TOGETHER):
            if not tile_at(n_features, mine, my_half, my_limit, low, others, other_half, nobody, col, room, bits):
                continue
            for i in range(low, high):
                for c in range(TILE_PANELS):
                    hits = np.uint32(bits[(i - low) * TILE_PANELS + c])
                    while hits:
                        at = c * PANEL + first_bit(hits)
                        hits &= hits - np.uint32(1)
                        found = max(my_half[i] - room[i - low, at], np.float32(0.0))
                        slot, m = slots[i], cols[col + at]
                        if found < top[slot] and rows[i] != m and not knows(index[slot], m):
                            top[slot] = insert(score, index, slot, found, m)
                            my_limit[i] = my_half[i] - top[slot]


@compiled()
def set_limits(half, top, slots, n_rows, limits):
    """Write half_x − top_x of some rows; what no point has taken never hits."""
    for i in range(n_rows):
        limits[i] = half[i] - top[slots[i]]
    fill(limits, n_rows, NOWHERE)


@compiled()
def set_tops(top, slots, n_cols, tops):
    """Write top_y of some columns; what no point has taken wants nobody."""
    for j in range(n_cols):
        tops[j] = top[slots[j]]
    fill(tops, n_cols, -NOWHERE)
