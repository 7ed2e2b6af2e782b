"""The compiled sweep between two neighbouring cells.

Let u be the unit vector from the centre of cell A to that of cell B, and t = x·u. Two points q in A
and m in B are at least t_m − t_q apart, whatever the cells look like. So of all |A|·|B| pairs only
those with t_m − t_q ≤ reach are looked at, and each product serves both points. With ``reach`` the
distance of the k-th neighbour nothing is lost; neighbours in high dimension differ little along any
one direction, so that a fraction of it keeps nearly all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from steep.neighbors.kernels import scan, scan_rows

ROWS = 32  # rows per product: fewer follow the staircase t_m − t_q ≤ reach more closely


@njit(cache=True, nogil=True)
def direction(centers, a, b):
    """Return the unit vector from the centre of cell ``a`` to that of ``b`` (0 when they coincide)."""
    u = centers[b] - centers[a]
    length = np.sqrt(np.sum(u * u))
    return u / length if length > 0 else u


@njit(cache=True, nogil=True)
def nearest_first(along, limit, first, positions, levels):
    """List the points of a cell with ``along`` ≤ ``limit``, sorted; return how many."""
    kept = 0
    for i in range(along.shape[0]):
        if along[i] <= limit:
            levels[kept] = along[i]
            positions[kept] = i
            kept += 1
    order = np.argsort(levels[:kept])
    levels[:kept] = levels[:kept][order]
    positions[:kept] = positions[:kept][order] + first
    return kept


@njit(cache=True, nogil=True)
def sweep_across(X, half, start, centers, pairs, reach, score, index, top, stop):
    """Offer the pairs of points within ``reach`` along the centre line, for each of the ``pairs`` of cells."""
    longest = np.max(start[1:] - start[:-1])
    n_features = X.shape[1]
    room = np.empty(ROWS * longest, np.float32)
    near_a, near_b = np.empty((longest, n_features), np.float32), np.empty((longest, n_features), np.float32)
    rows, cols = np.empty(longest, np.int64), np.empty(longest, np.int64)
    row_levels, col_levels = np.empty(longest, np.float32), np.empty(longest, np.float32)
    col_half, col_top = np.empty(longest, np.float32), np.empty(longest, np.float32)
    for p in range(pairs.shape[0]):
        if stop[0]:
            return
        a, b = pairs[p]
        u = direction(centers, a, b)
        along_a = -np.dot(X[start[a] : start[a + 1]], u)
        along_b = np.dot(X[start[b] : start[b + 1]], u)
        n_rows = nearest_first(along_a, reach[p] - along_b.min(), start[a], rows, row_levels)
        n_cols = nearest_first(along_b, reach[p] - along_a.min(), start[b], cols, col_levels)
        for i in range(n_rows):
            near_a[i] = X[rows[i]]
        for j in range(n_cols):
            near_b[j] = X[cols[j]]
        for first in range(0, n_rows, ROWS):
            last = min(first + ROWS, n_rows)
            n_near = np.searchsorted(col_levels[:n_cols], reach[p] - row_levels[first], side="right")
            products = room[: (last - first) * n_near].reshape(last - first, n_near)
            np.dot(near_a[first:last], near_b[:n_near].T, products)
            scan(products, rows[first:last], cols[:n_near], half, top, score, index, col_half, col_top)


@njit(cache=True, nogil=True)
def directions(centers, a, others):
    """Return the unit vectors from the centre of cell ``a`` to those of ``others``."""
    u = np.empty((others.shape[0], centers.shape[1]), np.float32)
    for p in range(others.shape[0]):
        u[p] = direction(centers, a, others[p])
    return u


@njit(cache=True, nogil=True)
def extents(X, start, centers, near_start, near, cells, extent):
    """Find how far each cell reaches towards each cell near it: max of x·u over the cell's points."""
    for a in cells:
        first, last = near_start[a], near_start[a + 1]
        along = np.dot(directions(centers, a, near[first:last]), X[start[a] : start[a + 1]].T)
        for p in range(first, last):
            extent[p] = np.max(along[p - first])


@njit(cache=True, nogil=True)
def deepen(X, half, start, centers, near_start, near, behind, chosen, reach, cells, score, index, top, stop):
    """Search on for the ``chosen`` points of some cells, to ``reach`` times their own k-th distance along u.

    ``behind[p]`` is the least x·u of the cell ``near[p]``. Only the chosen points' own lists change.
    """
    for a in cells:
        if stop[0]:
            return
        mine = start[a] + np.flatnonzero(chosen[start[a] : start[a + 1]])
        if mine.shape[0] == 0:
            continue
        others = near[near_start[a] : near_start[a + 1]]
        u, queries = directions(centers, a, others), X[mine]
        along = np.dot(u, queries.T)
        for p in range(others.shape[0]):
            first, last = start[others[p]], start[others[p] + 1]
            limit = along[p] + reach * np.sqrt(2 * top[mine])
            wanting = np.flatnonzero(limit >= behind[near_start[a] + p])
            if wanting.shape[0] == 0:
                continue
            cols = first + np.flatnonzero(np.dot(X[first:last], u[p]) <= limit.max())
            rows = mine[wanting]
            scan_rows(np.dot(queries[wanting], X[cols].T), rows, rows, half[rows], cols, half, score, index, top)
