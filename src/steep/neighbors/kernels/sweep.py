# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled sweep between neighbouring cells.

Let u be the unit vector from the centre of cell A to that of cell B, and t = x·u. Two points q in A
and m in B are at least t_m − t_q apart, whatever the cells look like. So of all |A|·|B| pairs only
those with t_m − t_q ≤ reach are looked at, and each product serves both points. With ``reach`` the
distance of the k-th neighbour nothing is lost; neighbours in high dimension differ little along any
one direction, so that a fraction of it keeps nearly all.

Points are stored in float32 less the float64 centre of their cell, and two cells meet in coordinates
about a point between them: digits are lost to the size of the cells, not to that of the data.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.lists import scan

LEVELS = 64
ROWS = 32  # rows per product: fewer follow the staircase t_m − t_q ≤ reach more closely


@compiled()
def direction(centers, a, b):
    """Return the unit vector from the centre of cell ``a`` to that of ``b``, and their distance."""
    u = centers[b] - centers[a]
    length = np.sqrt(np.sum(u * u))
    return (u / max(length, 1e-300)).astype(np.float32), np.float32(length)


@compiled()
def nearest_first(along, limit, first, positions, levels):
    """List the points of a cell with ``along`` ≤ ``limit``, nearest first; return how many.

    Levels are rounded down to one of 64, which a counting sort orders in one pass; rounding down only
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


@compiled(fastmath=True)
def gather(X, extra, positions, n_wanted, shift, out, out_half):
    """Copy the points at ``positions``, moved by ``shift``, with half their squared length and their ``extra``."""
    for i in range(n_wanted):
        total = np.float32(0.0)
        for f in range(X.shape[1]):
            moved = X[positions[i], f] + shift[f]
            out[i, f] = moved
            total += moved * moved
        out_half[i] = np.float32(0.5) * total + extra[positions[i]]


@compiled()
def side_of(longest, n_features):
    """Return room for one side of a meeting: positions, levels, points and half their squared lengths."""
    points = np.empty((longest, n_features), np.float32)
    return np.empty(longest, np.int64), np.empty(longest, np.float32), points, np.empty(longest, np.float32)


@compiled()
def sweep_across(X, extra, start, centers, pairs, reach, score, index, top, stop):
    """Offer the points within ``reach`` along the centre line, for each of the ``pairs`` of cells."""
    longest = np.max(start[1:] - start[:-1])
    room, col_top = np.empty(ROWS * longest, np.float32), np.empty(longest, np.float32)
    rows, row_levels, near_a, half_a = side_of(longest, X.shape[1])
    cols, col_levels, near_b, half_b = side_of(longest, X.shape[1])
    for p in range(pairs.shape[0]):
        if stop[0]:
            return
        a, b = pairs[p]
        u, length = direction(centers, a, b)
        left = reach[p] - length
        along_a = -np.dot(X[start[a] : start[a + 1]], u)
        along_b = np.dot(X[start[b] : start[b + 1]], u)
        n_rows = nearest_first(along_a, left - along_b.min(), start[a], rows, row_levels)
        n_cols = nearest_first(along_b, left - along_a.min(), start[b], cols, col_levels)
        middle = (0.5 * (centers[b] - centers[a])).astype(np.float32)
        gather(X, extra, rows, n_rows, -middle, near_a, half_a)
        gather(X, extra, cols, n_cols, middle, near_b, half_b)
        for first in range(0, n_rows, ROWS):
            last = min(first + ROWS, n_rows)
            n_near = np.searchsorted(col_levels[:n_cols], left - row_levels[first], side="right")
            products = room[: (last - first) * n_near].reshape(last - first, n_near)
            np.dot(near_a[first:last], near_b[:n_near].T, products)
            scan(
                products,
                rows[first:last],
                cols[:n_near],
                half_a[first:last],
                half_b,
                score,
                index,
                top,
                col_top,
            )


@compiled()
def meeting_gaps(X, start, centers, cell_q, cell_m, q, m, gaps):
    """Find the least reach at which the sweep lets each point ``q`` meet ``m`` of another cell.

    It is less than t_m − t_q: rows are taken 32 at a time, all of them as far as the nearest of them goes. Meetings of
    the same two cells should follow each other: what they share is computed once.
    """
    last_a, last_b, length, least_b = -1, -1, np.float32(0.0), np.float32(0.0)
    along_a = along_b = sorted_a = np.empty(0, np.float32)
    for i in range(q.shape[0]):
        a, b, row, col = cell_q[i], cell_m[i], q[i], m[i]
        if a > b:
            a, b, row, col = b, a, col, row
        if a != last_a or b != last_b:
            u, length = direction(centers, a, b)
            along_a = -np.dot(X[start[a] : start[a + 1]], u)
            along_b = np.dot(X[start[b] : start[b + 1]], u)
            sorted_a, least_b = np.sort(along_a), along_b.min()
            last_a, last_b = a, b
        mine, other = along_a[row - start[a]], along_b[col - start[b]]
        place = np.searchsorted(sorted_a, mine)
        first = sorted_a[place - place % ROWS]
        gaps[i] = max(other + first, mine + least_b) + length


@compiled()
def directions(centers, a, others):
    """Return the unit vectors from the centre of cell ``a`` to those of ``others``."""
    u = np.empty((others.shape[0], centers.shape[1]), np.float32)
    for p in range(others.shape[0]):
        u[p] = direction(centers, a, others[p])[0]
    return u


@compiled()
def extents(X, start, centers, near_start, near, cells, extent, length):
    """Find how far each cell reaches towards each cell near it, max of x·u, and how far that cell is."""
    for a in cells:
        first, last = near_start[a], near_start[a + 1]
        along = np.dot(directions(centers, a, near[first:last]), X[start[a] : start[a + 1]].T)
        for p in range(first, last):
            extent[p] = np.max(along[p - first])
            length[p] = direction(centers, a, near[p])[1]
