# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled joins of cells: each with itself, which starts the lists, and with those around it, by a sweep.

Let u be the unit vector from the centre of cell A to that of cell B, and t = x·u. Two points q in A and m in B are at
least t_m − t_q apart, whatever the cells look like. So of all |A|·|B| pairs only those with t_m − t_q ≤ reach are
looked at, and each product serves both points. With ``reach`` the distance of the k-th neighbour nothing is lost;
neighbours in high dimension differ little along any one direction, so that a fraction of it keeps nearly all.

Points are stored in float32 less the float64 centre of their cell, and two cells meet in coordinates
about a point between them: digits are lost to the size of the cells, not to that of the data.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import NO_NAN, compiled
from steep.neighbors.kernels.panels import (
    copy_rows,
    gather,
    insert,
    meet,
    room_for,
    set_limits,
    set_tops,
    side_of,
    turn_over,
)
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
def join_within(X, half, start, cells, best, stop):
    """Start every point's list, empty so far, with the best of its own cell, for each of ``cells``."""
    longest, width = np.max(start[1:] - start[:-1]), best.score.shape[1]
    side = side_of(longest, X.shape[1])
    mine, my_half, panels = side.points, side.half, room_for(side, X.shape[1], True).panels
    lanes, step = np.empty((-(-3 * width // LANES), LANES), np.float32), 4 * mine.shape[1]
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
            for low in range(0, PANEL, TILE_ROWS):
                for col in range(0, n_points, TOGETHER):
                    multiply_tile(
                        mine.ctypes.data + (first + low) * step, step, panels.ctypes.data + col * step, X.shape[1],
                        my_half.ctypes.data + 4 * col, lines.ctypes.data + 4 * (low * lines.shape[1] + col),
                        4 * lines.shape[1],
                    )  # fmt: skip
            for i in range(min(PANEL, n_points - first)):
                line, q = lines[i, :n_places], begin + first + i
                line[first + i] = -np.inf  # a point is not its own neighbour
                to_scores(line, my_half[first + i], lanes)
                bound = min(bound_of_best(lanes, width), FINITE)
                choose(line, bound, begin, q, best, picked, picked_index)


LEVELS = 256
ROWS = PANEL  # rows that meet the same points: fewer follow the staircase t_m − t_q ≤ reach more closely


@compiled()
def place_cells(X, middle, order, start, centers, points):
    """Write the mean of each cell, less ``middle``, to ``centers``, and the rows ``order`` less it to ``points``.

    Both are found in float64; points are kept in float32.
    """
    total = np.empty(X.shape[1], np.float64)
    for cell in range(start.shape[0] - 1):
        first, last = start[cell], start[cell + 1]
        total[:] = 0.0
        for i in range(first, last):
            row = X[order[i]]
            for f in range(X.shape[1]):
                total[f] += np.float64(row[f]) - middle[f]
        for f in range(X.shape[1]):
            centers[cell, f] = total[f] / (last - first)
        for i in range(first, last):
            row = X[order[i]]
            for f in range(X.shape[1]):
                points[i, f] = np.float32((np.float64(row[f]) - middle[f]) - centers[cell, f])


@compiled()
def direction(centers, a, b):
    """Return the unit vector from the centre of cell ``a`` to that of ``b``, and their distance."""
    u = centers[b] - centers[a]
    length = np.sqrt(np.sum(u * u))
    return (u / max(length, 1e-300)).astype(np.float32), np.float32(length)


@compiled()
def nearest_first(along, limit, first, positions, levels):
    """List the points of a cell with ``along`` ≤ ``limit``, nearest first; return how many.

    Levels are rounded down to one of 256, which a counting sort orders in one pass; rounding down only
    lets in a few pairs more.
    """
    low = along.min()
    step = (limit - low) / LEVELS
    if not 0 < step < np.inf:
        step = np.float32(np.inf)  # one level for all
    ends = np.zeros(LEVELS + 1, np.int64)
    for i in range(along.shape[0]):
        if along[i] <= limit:
            ends[min(int((along[i] - low) / step), LEVELS - 1) + 1] += 1
    for level in range(LEVELS):
        ends[level + 1] += ends[level]
    kept = ends[LEVELS]
    for i in range(along.shape[0]):
        if along[i] <= limit:
            level = min(int((along[i] - low) / step), LEVELS - 1)
            positions[ends[level]] = first + i
            levels[ends[level]] = low + level * step if level > 0 else low
            ends[level] += 1
    return kept


@compiled()
def sweep_across(cells, pairs, reach, best, stop):
    """Offer the points within ``reach`` along the centre line, for each of the ``pairs`` of cells."""
    X, extra, start, centers = cells.points, cells.extra, cells.start, cells.centers
    longest = np.max(start[1:] - start[:-1])
    rows, cols = side_of(longest, X.shape[1]), side_of(longest, X.shape[1])
    room = room_for(cols, X.shape[1], True)
    for p in range(pairs.shape[0]):
        if stop[0]:
            return
        a, b = pairs[p]
        u, length = direction(centers, a, b)
        left = reach[p] - length
        along_a = -np.dot(X[start[a] : start[a + 1]], u)
        along_b = np.dot(X[start[b] : start[b + 1]], u)
        n_rows = nearest_first(along_a, left - along_b.min(), start[a], rows.place, rows.level)
        n_cols = nearest_first(along_b, left - along_a.min(), start[b], cols.place, cols.level)
        middle = (0.5 * (centers[b] - centers[a])).astype(np.float32)
        gather(X, extra, rows.place, n_rows, -middle, rows.points, rows.half)
        gather(X, extra, cols.place, n_cols, middle, cols.points, cols.half)
        turn_over(cols.points, n_cols, room.panels)
        set_limits(rows, best.top, n_rows)
        set_tops(cols, best.top, n_cols)
        for first in range(0, n_rows, ROWS):
            n_near = np.searchsorted(cols.level[:n_cols], left - rows.level[first], side="right")
            meet(rows, first, n_rows - first, cols, 0, n_near, room, best)


@compiled()
def group_starts(along, size, group, starts):
    """Sort points along u into groups of ``size``, nearest first; write how near the nearest of each point's group is.

    Points are distinguished to a 512th of the cell, as the sweep does to a 256th of what it reaches.
    """
    low = along.min()
    step = max((along.max() - low) / np.float32(512), np.float32(1e-37))
    ends = np.zeros(514, np.int64)
    for i in range(along.shape[0]):
        group[i] = int((along[i] - low) / step)
        ends[group[i] + 1] += 1
    for level in range(513):
        ends[level + 1] += ends[level]
    starts[:] = np.inf
    for i in range(along.shape[0]):
        group[i], at = ends[group[i]] // size, group[i]
        ends[at] += 1
        starts[group[i]] = min(starts[group[i]], along[i])


@compiled()
def meeting_gaps(cells, cell_q, cell_m, q, m, gaps):
    """Find the least reach at which the sweep lets each point ``q`` meet ``m`` of another cell.

    It is less than t_m − t_q: a tile takes rows and columns together, as far as the nearest of them go. Meetings
    of the same two cells had better follow each other: what they share is found once.
    """
    X, start, centers = cells.points, cells.start, cells.centers
    longest = np.max(start[1:] - start[:-1])
    group_a, group_b = np.empty(longest, np.int64), np.empty(longest, np.int64)
    first_a, first_b = np.empty(longest, np.float32), np.empty(longest, np.float32)
    along_a, along_b = np.empty(0, np.float32), np.empty(0, np.float32)
    last_a, last_b, length, least_a, least_b = -1, -1, np.float32(0), np.float32(0), np.float32(0)
    for i in range(q.shape[0]):
        a, b, row, col = cell_q[i], cell_m[i], q[i], m[i]
        if a > b:
            a, b, row, col = b, a, col, row
        if a != last_a or b != last_b:
            u, length = direction(centers, a, b)
            along_a = -np.dot(X[start[a] : start[a + 1]], u)
            along_b = np.dot(X[start[b] : start[b + 1]], u)
            group_starts(along_a, ROWS, group_a, first_a)
            group_starts(along_b, TOGETHER, group_b, first_b)
            least_a, least_b = along_a.min(), along_b.min()
            last_a, last_b = a, b
        row, col = row - start[a], col - start[b]
        together = first_a[group_a[row]] + first_b[group_b[col]]
        gaps[i] = max(together, along_a[row] + least_b, along_b[col] + least_a) + length


@compiled()
def directions(centers, a, others):
    """Return the unit vectors from the centre of cell ``a`` to those of ``others``."""
    u = np.empty((others.shape[0], centers.shape[1]), np.float32)
    for p in range(others.shape[0]):
        u[p] = direction(centers, a, others[p])[0]
    return u


@compiled()
def extents(cells, near_start, near, some, extent, length):
    """Find how far ``some`` cells reach towards each cell near them, max of x·u, and how far that cell is."""
    X, start, centers = cells.points, cells.start, cells.centers
    for a in some:
        first, last = near_start[a], near_start[a + 1]
        along = np.dot(directions(centers, a, near[first:last]), X[start[a] : start[a + 1]].T)
        for p in range(first, last):
            extent[p] = np.max(along[p - first])
            length[p] = direction(centers, a, near[p])[1]
