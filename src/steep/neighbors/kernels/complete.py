# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled search that misses nothing: every point within its own reach along the centre line.

A point q of cell A, whose k-th neighbour so far is r away, can still gain only points m of cell B with
t_m − t_q ≤ r (see sweep.py for u and t). So q is compared with those alone, B by B, the nearest cells
first since each neighbour found shortens r. What the sweep has looked at is passed over, and what
rounding may do to t is allowed for on both sides.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.lists import scan_rows
from steep.neighbors.kernels.sweep import (
    LEVELS,
    ROWS,
    direction,
    directions,
    gather,
    nearest_first,
    side_of,
)

FAR = np.float32(1e30)  # a reach beyond all data, for points whose list is not full


@compiled()
def limits(along, far, swept, doubt):
    """Return how far along u each point still has to look; −∞ where the sweep went as ``far``."""
    return np.where(far + doubt > swept, np.minimum(along + far + doubt, FAR), np.float32(-np.inf))


@compiled()
def complete(
    X, extra, start, centers, size, near_start, near, behind, swept, rounding, cells, score, index, top, stop
):
    """Find all that the lists of the points of some ``cells`` miss.

    Of the cell ``near[p]``, ``behind[p]`` is the least t, and all pairs with t_m − t_q ≤ ``swept[p]`` have
    met. ``size`` is the largest |x| of each cell and ``rounding`` what t may be off per unit of length.
    """
    longest = np.max(start[1:] - start[:-1])
    room, still = np.empty(ROWS * longest, np.float32), np.zeros(X.shape[1], np.float32)
    rows, row_levels, near_a, half_a = side_of(longest, X.shape[1])
    cols, col_levels, near_b, half_b = side_of(longest, X.shape[1])
    row_along = np.empty(longest, np.float32)
    for a in cells:
        if stop[0]:
            return
        mine = slice(start[a], start[a + 1])
        first, last = near_start[a], near_start[a + 1]
        others = near[first:last]
        u_of = directions(centers, a, others)
        along_of = np.dot(u_of, X[mine].T)
        for p in np.argsort(behind[first:last]):
            b, least = others[p], behind[first + p]
            length = direction(centers, a, b)[1]
            doubt = rounding * (length + size[a] + size[b])
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
            for begin in range(0, n_rows, ROWS):
                end = min(begin + ROWS, n_rows)
                n_near = np.searchsorted(col_levels[:n_cols], -row_levels[begin], side="right")
                # A level holds what lies below the next: only whole levels count as met.
                met = np.min(row_along[begin:end]) + swept[first + p] - doubt - level
                n_met = np.searchsorted(col_levels[:n_cols], met)
                if n_met >= n_near:
                    continue
                products = room[: (end - begin) * (n_near - n_met)].reshape(end - begin, n_near - n_met)
                np.dot(near_a[begin:end], near_b[n_met:n_near].T, products)
                few, others_near = rows[begin:end], cols[n_met:n_near]
                scan_rows(
                    products, few, few, half_a[begin:end], others_near, half_b[n_met:], score, index, top
                )


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
