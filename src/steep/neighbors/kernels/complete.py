# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled search that misses nothing: every point within its own reach along the centre line.

A point q of cell A, whose k-th neighbour so far is r away, can still gain only points m of cell B with
t_m − t_q ≤ r (see joins.py for u and t). So q is compared with those alone, B by B, the nearest cells
first since each neighbour found shortens r. What the sweep has looked at is passed over, and what
rounding may do to t is allowed for on both sides.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.joins import LEVELS, ROWS, direction, directions, nearest_first
from steep.neighbors.kernels.panels import Side, copy_rows, gather, meet, room_for, set_limits, side_of, turn_over
from steep.neighbors.kernels.vectors import PANEL

MET_FIRST = 4  # nearest cells of a sampled point's own: they bring its list close to the truth
FAR = np.float32(1e30)  # a reach beyond all data, for points whose list is not full


@compiled()
def limits(along, far, swept, doubt):
    """Return how far along u each point still has to look; −∞ where the sweep went as ``far``."""
    return np.where(far + doubt > swept, np.minimum(along + far + doubt, FAR), np.float32(-np.inf))


@compiled()
def complete(cells, near, size, swept, rounding, some, best, stop):
    """Find all that the lists of the points of ``some`` cells miss.

    All pairs with t_m − t_q ≤ ``swept[p]`` have met. ``size`` is the largest |x| of each cell and ``rounding`` what t
    may be off per unit of length.
    """
    X, start, centers = cells.points, cells.start, cells.centers
    longest = np.max(start[1:] - start[:-1])
    rows, cols = side_of(longest, X.shape[1]), side_of(longest, X.shape[1])
    cols.limit[:] = -np.inf
    visit = cols, rows, room_for(cols, X.shape[1], False)
    for a in some:
        if stop[0]:
            return
        mine = slice(start[a], start[a + 1])
        first, last = near.start[a], near.start[a + 1]
        others = near.cell[first:last]
        u_of = directions(centers, a, others)
        along_of = np.dot(u_of, X[mine].T)
        for p in np.argsort(near.behind[first:last]):
            b = others[p]
            length = direction(centers, a, b)[1]
            doubt = rounding * (length + size[a] + size[b])
            far = np.sqrt(2 * best.top[mine]) * np.float32(1 + 1e-6)
            limit = limits(along_of[p], far, swept[first + p] - doubt, doubt)
            farthest = np.max(limit)
            if farthest < near.behind[first + p]:
                continue
            n_rows = nearest_first(-limit, -near.behind[first + p], 0, rows.place, rows.level)
            along_b = np.dot(X[start[b] : start[b + 1]], u_of[p]) + length
            n_cols = nearest_first(along_b, farthest, start[b], cols.place, cols.level)
            # A level holds what lies below the next: only whole levels count as met.
            met = swept[first + p] - doubt - (farthest - np.min(along_b)) / LEVELS
            look_at(cells, (a, b), met, along_of[p], n_rows, n_cols, visit, best)


@compiled()
def look_at(cells, pair, met, along, n_rows, n_cols, visit, best):
    """Offer the points gathered of a cell to those of another that look so far; pairs with t_m − t_q < ``met`` met."""
    (a, b), (cols, rows, room) = pair, visit
    row_along = np.empty(n_rows, np.float32)
    for i in range(n_rows):
        row_along[i], rows.place[i] = along[rows.place[i]], cells.start[a] + rows.place[i]
    shift = (cells.centers[a] - cells.centers[b]).astype(np.float32)
    gather(cells.points, cells.extra, rows.place, n_rows, shift, rows.points, rows.half)
    gather(cells.points, cells.extra, cols.place, n_cols, np.zeros_like(shift), cols.points, cols.half)
    turn_over(cols.points, n_cols, room.panels)
    set_limits(rows, best.top, n_rows)
    for begin in range(0, n_rows, ROWS):
        end = min(begin + ROWS, n_rows)
        n_near = np.searchsorted(cols.level[:n_cols], -rows.level[begin], side="right")
        n_met = np.searchsorted(cols.level[:n_cols], np.min(row_along[begin:end]) + met)
        if n_met < n_near:
            meet(rows, begin, n_rows - begin, cols, n_met, n_near, room, best)


@compiled()
def visit_of(longest, n_features):
    """Return room for meeting cells, a panel of visitors at a time."""
    others, mine = side_of(longest, n_features), side_of(PANEL, n_features)
    others.limit[:] = -np.inf
    mine = Side(mine.place, np.zeros_like(mine.place), mine.level, mine.points, mine.half, mine.limit)
    return others, mine, room_for(others, n_features, False)


@compiled()
def meet_cell(cells, b, rows, slots, home, visit, best):
    """Offer every point of cell ``b`` to some ``rows`` of other cells, panel by panel."""
    X, start, centers = cells.points, cells.start, cells.centers
    others, mine, room = visit
    n_cols = start[b + 1] - start[b]
    for j in range(n_cols):
        others.place[j] = start[b] + j
    copy_rows(X, cells.half, start[b], n_cols, others.points, others.half)
    turn_over(others.points, n_cols, room.panels)
    for first in range(0, rows.shape[0], PANEL):
        n_rows = min(PANEL, rows.shape[0] - first)
        for i in range(n_rows):
            mine.place[i], mine.slot[i] = rows[first + i], slots[first + i]
            shift = (centers[home[first + i]] - centers[b]).astype(np.float32)
            one = slice(i, i + 1)
            gather(X, cells.extra, mine.place[one], 1, shift, mine.points[one], mine.half[one])
        set_limits(mine, best.top, n_rows)
        meet(mine, 0, n_rows, others, 0, n_cols, room, best)


@compiled()
def complete_some(cells, near, size, rounding, rows, slots, best, longest_way):
    """Fill the empty lists ``slots`` of some ``rows``, ascending, each by its own reach, so that no point is missing.

    The rows of a cell meet it and the ``MET_FIRST`` next to it; then all that still have to look at a cell meet it in
    one product. ``longest_way`` is how far the centre is of the farthest cell that each row has met.
    """
    X, start, top = cells.points, cells.start, best.top
    home = np.searchsorted(start, rows, side="right") - 1
    n_cells, longest = start.shape[0] - 1, np.max(start[1:] - start[:-1])
    visit, wanted = visit_of(longest, X.shape[1]), np.zeros((n_cells, rows.shape[0]), np.bool_)
    first = 0
    while first < rows.shape[0]:
        a, last = home[first], np.searchsorted(home, home[first], side="right")
        mine, begin, end = slice(first, last), near.start[a], near.start[a + 1]
        order = begin + np.argsort(near.behind[begin:end])
        nearest = np.append(near.cell[order[:MET_FIRST]], a)[::-1]
        for b in nearest:
            meet_cell(cells, b, rows[mine], slots[mine], home[mine], visit, best)
        along = np.dot(directions(cells.centers, a, near.cell[begin:end]), X[rows[mine]].T)
        for i in range(first, last):
            far, way = np.sqrt(2 * top[slots[i]]) * np.float32(1 + 1e-6), np.float32(0)
            for at in range(order.shape[0]):
                p = order[at]
                doubt = rounding * (near.length[p] + size[a] + size[near.cell[p]])
                if at < MET_FIRST:
                    way = max(way, near.length[p])
                elif along[p - begin, i - first] + far + doubt >= near.behind[p]:
                    way, wanted[near.cell[p], i] = max(way, near.length[p]), True
            longest_way[slots[i]] = way
        first = last
    for b in range(n_cells):
        some = np.flatnonzero(wanted[b])
        if some.shape[0] > 0:
            meet_cell(cells, b, rows[some], slots[some], home[some], visit, best)


@compiled()
def count_left(cells, top, some):
    """Count the pairs of points that completing ``some`` cells would look at, of all their pairs."""
    X, start, centers = cells.points, cells.start, cells.centers
    looked_at, all_pairs = 0, 0
    for a in some:
        mine = X[start[a] : start[a + 1]]
        far = np.sqrt(2 * top[start[a] : start[a + 1]])
        all_pairs += mine.shape[0] * X.shape[0]
        for b in range(centers.shape[0]):
            u, length = direction(centers, a, b)
            along_b = np.sort(np.dot(X[start[b] : start[b + 1]], u)) + length
            looked_at += np.searchsorted(along_b, np.dot(mine, u) + far, side="right").sum()
    return looked_at, all_pairs
