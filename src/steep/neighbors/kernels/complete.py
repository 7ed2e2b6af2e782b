# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled search that misses nothing: every point within its own reach along the centre line.

A point q of cell A, whose k-th neighbour so far is r away, can still gain only points m of cell B with
t_m − t_q ≤ r (see sweep.py for u and t). So q is compared with those alone, B by B, the nearest cells
first since each neighbour found shortens r. What the sweep has looked at is passed over, and what
rounding may do to t is allowed for on both sides.

Cells of wide data hold a few coordinates in which no two points are farther apart than in all (narrow.py). Then
what is near there is measured in all features, and the lists keep those scores.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.lists import knows, sort_pairs
from steep.neighbors.kernels.panels import (
    copy_rows,
    gather,
    insert,
    meet_rows,
    panels_of,
    room_for_tile,
    set_limits,
    side_of,
    tile_at,
    turn_over,
)
from steep.neighbors.kernels.proof import square
from steep.neighbors.kernels.sweep import LEVELS, ROWS, direction, directions, nearest_first
from steep.neighbors.kernels.vectors import PANEL, TILE_PANELS, TILE_ROWS, TOGETHER, first_bit

MET_FIRST = 4  # nearest cells of a sampled point's own: they bring its list close to the truth
FAR = np.float32(1e30)  # a reach beyond all data, for points whose list is not full


@compiled()
def limits(along, far, swept, doubt):
    """Return how far along u each point still has to look; −∞ where the sweep went as ``far``."""
    return np.where(far + doubt > swept, np.minimum(along + far + doubt, FAR), np.float32(-np.inf))


@compiled()
def complete(
    X, extra, start, centers, size, near_start, near, behind, swept, rounding, cells, score, index, top, stop,
    whole, order, wide, error, slack
):  # fmt: skip
    """Find all that the lists of the points of some ``cells`` miss.

    Of the cell ``near[p]``, ``behind[p]`` is the least t, and all pairs with t_m − t_q ≤ ``swept[p]`` have
    met. ``size`` is the largest |x| of each cell and ``rounding`` what t may be off per unit of length. If
    ``wide`` the rows ``order`` of ``whole`` are the points in all their features; a score of a few coordinates may be
    too large by ``error`` of both half norms, and a distance by ``slack``.
    """
    longest = np.max(start[1:] - start[:-1])
    still = np.zeros(X.shape[1], np.float32)
    rows, row_levels, near_a, half_a, row_limit = side_of(longest, X.shape[1])
    cols, col_levels, near_b, half_b, nobody = side_of(longest, X.shape[1])
    row_along = np.empty(longest, np.float32)
    panels, (room, bits) = panels_of(near_b), room_for_tile()
    nobody[:] = -np.inf
    rest = np.float32(1.0) - error
    for a in cells:
        if stop[0]:
            return
        mine = slice(start[a], start[a + 1])
        first, last = near_start[a], near_start[a + 1]
        others = near[first:last]
        u_of = directions(centers, a, others)
        along_of = np.dot(u_of, X[mine].T)
        if wide:  # the own cell was joined by the few coordinates alone
            for i in range(start[a + 1] - start[a]):
                rows[i] = start[a] + i
            n_mine = start[a + 1] - start[a]
            gather(X, extra, rows, n_mine, still, near_a, half_a)
            half_a *= rest
            turn_over(near_a, n_mine, panels)
            for begin in range(0, n_mine, ROWS):
                measure_rows(
                    X.shape[1], near_a, half_a, row_limit, begin, n_mine - begin, panels, half_a, nobody, 0, n_mine,
                    rows, rows, room, bits, score, index, top, whole, order, slack,
                )  # fmt: skip
        for p in np.argsort(behind[first:last]):
            b, least = others[p], behind[first + p]
            length = direction(centers, a, b)[1]
            doubt = rounding * (length + size[a] + size[b]) + slack
            far = np.sqrt(2 * top[mine]) * np.float32(1 + 1e-6)
            limit = limits(along_of[p], far, swept[first + p] - doubt, doubt)
            farthest = np.max(limit)
            if farthest < least:
                continue
            n_rows = nearest_first(-limit, -least, 0, rows, row_levels)
            along_b = np.dot(X[start[b] : start[b + 1]], u_of[p]) + length
            n_cols = nearest_first(along_b, farthest, start[b], cols, col_levels)
            level = (farthest - np.min(along_b)) / LEVELS
            for i in range(n_rows):
                row_along[i], rows[i] = along_of[p, rows[i]], start[a] + rows[i]
            gather(X, extra, rows, n_rows, (centers[a] - centers[b]).astype(np.float32), near_a, half_a)
            gather(X, extra, cols, n_cols, still, near_b, half_b)
            turn_over(near_b, n_cols, panels)
            if wide:
                half_a *= rest
                half_b *= rest
            else:
                set_limits(half_a, top, rows, n_rows, row_limit)
            for begin in range(0, n_rows, ROWS):
                end = min(begin + ROWS, n_rows)
                n_near = np.searchsorted(col_levels[:n_cols], -row_levels[begin], side="right")
                # A level holds what lies below the next: only whole levels count as met.
                met = np.min(row_along[begin:end]) + swept[first + p] - doubt - level
                n_met = np.searchsorted(col_levels[:n_cols], met)
                if n_met >= n_near:
                    continue
                if wide:
                    measure_rows(
                        X.shape[1], near_a, half_a, row_limit, begin, n_rows - begin, panels, half_b, nobody, n_met,
                        n_near, rows, cols, room, bits, score, index, top, whole, order, slack,
                    )  # fmt: skip
                else:
                    meet_rows(
                        X.shape[1], near_a, half_a, row_limit, begin, n_rows - begin, panels, half_b, nobody, n_met,
                        n_near, rows, rows, cols, room, bits, score, index, top,
                    )  # fmt: skip


@compiled()
def visit_of(longest, n_features):
    """Return room for meeting cells: the panels of a cell and of those who visit it, and what a tile needs."""
    cols, _, others, other_half, nobody = side_of(longest, n_features)
    _, _, mine, my_half, my_limit = side_of(PANEL, n_features)
    nobody[:] = -np.inf
    return cols, others, panels_of(others), other_half, nobody, mine, my_half, my_limit, *room_for_tile()


@compiled()
def meet_cell(X, half, extra, start, centers, b, rows, slots, home, visit, score, index, top):
    """Offer every point of cell ``b`` to some ``rows`` of other cells, panel by panel."""
    cols, others, panels, other_half, nobody, mine, my_half, my_limit, room, bits = visit
    n_cols = start[b + 1] - start[b]
    for j in range(n_cols):
        cols[j] = start[b] + j
    copy_rows(X, half, start[b], n_cols, others, other_half)
    turn_over(others, n_cols, panels)
    for first in range(0, rows.shape[0], PANEL):
        some = slice(first, min(first + PANEL, rows.shape[0]))
        n_rows = some.stop - first
        for i in range(n_rows):
            shift = (centers[home[first + i]] - centers[b]).astype(np.float32)
            one = slice(i, i + 1)
            gather(X, extra, rows[first + i : first + i + 1], 1, shift, mine[one], my_half[one])
        set_limits(my_half, top, slots[some], n_rows, my_limit)
        meet_rows(
            X.shape[1], mine, my_half, my_limit, 0, n_rows, panels, other_half, nobody, 0, n_cols, rows[some],
            slots[some], cols, room, bits, score, index, top,
        )  # fmt: skip


@compiled()
def complete_some(
    X, half, extra, start, centers, size, near_start, near, length, behind, rounding, rows, slots, home, score, index,
    top, longest_way
):  # fmt: skip
    """Fill the empty lists ``slots`` of some ``rows``, each by its own reach, so that nobody is missing.

    ``home`` is the cell of each row, ascending. The rows of a cell meet it and the ``MET_FIRST`` next to it; then all
    that still have to look at a cell meet it in one product. ``longest_way`` is how far the centre is of the farthest
    cell that each row has met.
    """
    n_cells, longest = start.shape[0] - 1, np.max(start[1:] - start[:-1])
    visit, wanted = visit_of(longest, X.shape[1]), np.zeros((n_cells, rows.shape[0]), np.bool_)
    first = 0
    while first < rows.shape[0]:
        a, last = home[first], np.searchsorted(home, home[first], side="right")
        mine, begin, end = slice(first, last), near_start[a], near_start[a + 1]
        order = begin + np.argsort(behind[begin:end])
        cells = np.append(near[order[:MET_FIRST]], a)[::-1]
        for b in cells:
            meet_cell(
                X, half, extra, start, centers, b, rows[mine], slots[mine], home[mine], visit, score, index, top
            )  # fmt: skip
        along = np.dot(directions(centers, a, near[begin:end]), X[rows[mine]].T)
        for i in range(first, last):
            far, way = np.sqrt(2 * top[slots[i]]) * np.float32(1 + 1e-6), np.float32(0)
            for at in range(order.shape[0]):
                p = order[at]
                doubt = rounding * (length[p] + size[a] + size[near[p]])
                if at < MET_FIRST:
                    way = max(way, length[p])
                elif along[p - begin, i - first] + far + doubt >= behind[p]:
                    way, wanted[near[p], i] = max(way, length[p]), True
            longest_way[slots[i]] = way
        first = last
    for b in range(n_cells):
        some = np.flatnonzero(wanted[b])
        if some.shape[0] > 0:
            meet_cell(
                X, half, extra, start, centers, b, rows[some], slots[some], home[some], visit, score, index, top
            )  # fmt: skip


@compiled()
def widened(score, slack):
    """Return the score of a distance that is longer by ``slack``."""
    length = np.sqrt(2 * score) + slack
    return np.float32(0.5) * length * length * np.float32(1 + 1e-6)


@compiled()
def measure_rows(
    n_features, mine, my_half, my_limit, first, n_mine, others, other_half, nobody, begin, end, rows, cols, room,
    bits, score, index, top, whole, order, slack
):  # fmt: skip
    """Offer the rows what may be near of the points ``begin`` to ``end`` of some panels, by its score in all features.

    Half norms are less what a score may be too large by, of both.
    """
    for i in range(first, first + min(n_mine, PANEL)):
        my_limit[i] = my_half[i] - widened(top[rows[i]], slack)
    for low in range(first, first + min(n_mine, PANEL), TILE_ROWS):
        high = min(low + TILE_ROWS, first + n_mine)
        for col in range(begin - begin % TOGETHER, end, TOGETHER):
            if not tile_at(n_features, mine, my_half, my_limit, low, others, other_half, nobody, col, room, bits):
                continue
            for i in range(low, high):
                q = rows[i]
                for c in range(TILE_PANELS):
                    hits = np.uint32(bits[(i - low) * TILE_PANELS + c])
                    while hits:
                        at = c * PANEL + first_bit(hits)
                        hits &= hits - np.uint32(1)
                        m = cols[col + at]
                        if q == m or room[i - low, at] <= my_limit[i]:
                            continue
                        found = np.float32(0.5 * square(whole, order[q], order[m]))
                        if found < top[q] and not knows(index[q], m):
                            top[q] = insert(score, index, q, found, m)
                            my_limit[i] = my_half[i] - widened(top[q], slack)


@compiled()
def measure_lists(whole, order, score, index, top, first, last):
    """Replace the scores of lists, from few coordinates, by those in all features."""
    for q in range(first, last):
        for j in range(score.shape[1]):
            if index[q, j] < order.shape[0]:
                score[q, j] = np.float32(0.5 * square(whole, order[q], order[index[q, j]]))
        sort_pairs(score[q], index[q])
        top[q] = score[q, -1]


@compiled()
def count_left(X, start, centers, top, cells):
    """Count the pairs of points that completing some ``cells`` would look at, of all their pairs."""
    looked_at, all_pairs = 0, 0
    for a in cells:
        mine = X[start[a] : start[a + 1]]
        far = np.sqrt(2 * top[start[a] : start[a + 1]])
        all_pairs += mine.shape[0] * X.shape[0]
        for b in range(centers.shape[0]):
            u, length = direction(centers, a, b)
            along_b = np.sort(np.dot(X[start[b] : start[b + 1]], u)) + length
            looked_at += np.searchsorted(along_b, np.dot(mine, u) + far, side="right").sum()
    return looked_at, all_pairs
