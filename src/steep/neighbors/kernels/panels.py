# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""Products of points in registers, and the lists of best neighbours that pairs of points are offered to.

**Lists of best neighbours.** Points are rows of ``X`` (float32, centred), ``half`` is |x|²/2, and what is kept for each
point is its ``width`` best ``score`` = |x − y|²/2 = half_x + half_y − x·y, ascending: ``insert`` moves 16 at a
time, ``put`` also compares indices. ``top`` repeats the worst side by side, so that a scan reads them as vectors. Every
product x·y serves both points. The first of several ties with the worst stays: with many equal points all else would be
ties. The order of work is the same for any number of threads, so is the result; exact engines settle ties later.

**Products.** A panel holds 16 points, feature by feature: ``panel[f, i]`` is feature f of point i. A tile multiplies a
few rows with the points of panels, never leaves the processor, and says at once, as bits, which pairs may match:

    a = x·y − half_y,   score = |x − y|²/2 = half_x − a,   hit when a > min(half_x − top_x, half_x − top_y),

that is when the score is below the worst either point has kept so far. Nearly all pairs are ruled out there, 16 at a
time, without a product being written to memory. Tiles with hits are then looked at one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from steep.neighbors.kernels import NO_NAN, compiled
from steep.neighbors.kernels.vectors import PANEL, TILE_PANELS, TILE_ROWS, TOGETHER, first_bit, shift_in, tile, turn


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


NOWHERE = np.float32(np.inf)  # half the squared length of a place in a panel that no point has taken


class Side(NamedTuple):
    """One side of a meeting: where points and their lists are, levels along the centre line, half norms, thresholds.

    A threshold is half_x − top_x of a row and top_y of a column.
    """

    place: Any
    slot: Any
    level: Any
    points: Any
    half: Any
    limit: Any


class Room(NamedTuple):
    """Room for the panels of the columns, and for the products and bits of one tile.

    ``fresh`` is whether two points meet once; else rows may meet themselves and points they already know.
    """

    panels: Any
    products: Any
    bits: Any
    n_features: int
    fresh: bool


@compiled()
def panels_for(n_points):
    """Return how many panels hold this many points, and what the last tile of them reads besides."""
    return -(-n_points // TOGETHER) * TILE_PANELS


@compiled()
def side_of(longest, n_features):
    """Return room for one side of a meeting."""
    places = panels_for(longest) * PANEL
    points = np.zeros((places, -(-n_features // PANEL) * PANEL), np.float32)
    half, limit = np.empty(places, np.float32), np.empty(places, np.float32)
    place = np.zeros(places, np.int64)
    return Side(place, place, np.empty(places, np.float32), points, half, limit)


@compiled()
def room_for(side, n_features, fresh):
    """Return room for the panels of a side, and for a tile."""
    panels = np.zeros((side.points.shape[0] // PANEL, side.points.shape[1], PANEL), np.float32)
    products = np.empty((TILE_ROWS, TOGETHER), np.float32)
    return Room(panels, products, np.zeros(TILE_ROWS * TILE_PANELS, np.uint16), n_features, fresh)


@compiled()
def fill(values, n_taken, value):
    """Write a value to the places of the last tile that no point has taken, as far as there are any."""
    for i in range(n_taken, min(panels_for(n_taken) * PANEL, values.shape[0])):
        values[i] = value


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
def meet(mine, first, n_mine, others, begin, end, room, best):
    """Offer each other up to 16 rows, from ``first`` on, and the points ``begin`` to ``end`` of some panels.

    Thresholds of both sides are kept up to date; those that want no point are −∞. ``begin`` is rounded down to a whole
    tile.
    """
    fresh, places = room.fresh, (
        4 * mine.points.shape[1], mine.points.ctypes.data, mine.half.ctypes.data, mine.limit.ctypes.data,
        room.panels.ctypes.data, others.half.ctypes.data, others.limit.ctypes.data, room.products.ctypes.data,
        room.bits.ctypes.data, room.n_features,
    )  # fmt: skip
    score, index, top, products, bits = best.score, best.index, best.top, room.products, room.bits
    half, limit, other_limit, slots = mine.half, mine.limit, others.limit, mine.slot
    for low in range(first, first + min(n_mine, PANEL), TILE_ROWS):
        high = min(low + TILE_ROWS, first + n_mine)
        for col in range(begin - begin % TOGETHER, end, TOGETHER):
            if not tile(places, low, col):
                continue
            for i in range(low, high):
                for c in range(TILE_PANELS):
                    hits = np.uint32(bits[(i - low) * TILE_PANELS + c])
                    while hits:
                        at = c * PANEL + first_bit(hits)
                        hits &= hits - np.uint32(1)
                        j = col + at
                        found = max(half[i] - products[i - low, at], np.float32(0.0))
                        q, m = slots[i], others.place[j]
                        if found < top[q] and (fresh or (mine.place[i] != m and not knows(index[q], m))):
                            top[q] = insert(score, index, q, found, m)
                            limit[i] = half[i] - top[q]
                        if found < other_limit[j]:
                            top[m] = insert(score, index, m, found, q)
                            other_limit[j] = top[m]


@compiled()
def set_limits(side, top, n_rows):
    """Write half_x − top_x of some rows; what no point has taken never hits."""
    for i in range(n_rows):
        side.limit[i] = side.half[i] - top[side.slot[i]]
    fill(side.limit, n_rows, NOWHERE)


@compiled()
def set_tops(side, top, n_cols):
    """Write top_y of some columns; what no point has taken wants no point."""
    for j in range(n_cols):
        side.limit[j] = top[side.place[j]]
    fill(side.limit, n_cols, -NOWHERE)
