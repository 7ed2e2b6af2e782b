# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled search on for a few chosen points: all that probe one cell meet it in one product.

A chosen point q probes cell B when B comes within reach of it along the centre line (see sweep.py) and
the sweep has not gone as far. Chosen points are too few in each cell to pick points from B for them.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.panels import (
    copy_rows,
    gather,
    meet_rows,
    panels_of,
    room_for_tile,
    set_limits,
    side_of,
    turn_over,
)
from steep.neighbors.kernels.sweep import directions
from steep.neighbors.kernels.vectors import PANEL


@compiled()
def list_probes(X, start, centers, near_start, near, behind, swept, chosen, reach, cells, top, places, probing):
    """Write the points of ``cells`` that probe cell b to ``probing`` from ``places[b]`` on, and move that on.

    With no room in ``probing`` they are only counted.
    """
    for a in cells:
        mine = start[a] + np.flatnonzero(chosen[start[a] : start[a + 1]])
        first, last = near_start[a], near_start[a + 1]
        along = np.dot(directions(centers, a, near[first:last]), X[mine].T)
        far = reach * np.sqrt(2 * top[mine])
        for p in range(first, last):
            for i in range(mine.shape[0]):
                if far[i] > swept[p] and along[p - first, i] + far[i] >= behind[p]:
                    b = near[p]
                    if probing.shape[0] > 0:
                        probing[places[b]] = mine[i]
                    places[b] += 1


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
def probe(
    X, half, extra, start, centers, home, near_start, near, behind, swept, chosen, reach, cells, score, index, top, stop
):  # fmt: skip
    """Offer the ``chosen`` points of some ``cells`` every point of each cell they probe."""
    n_cells, longest = start.shape[0] - 1, np.max(start[1:] - start[:-1])
    begin = np.zeros(n_cells + 1, np.int64)
    none = np.empty(0, np.int64)
    list_probes(X, start, centers, near_start, near, behind, swept, chosen, reach, cells, top, begin[1:], none)
    begin = np.cumsum(begin)
    probing = np.empty(begin[-1], np.int64)
    if probing.shape[0] == 0:
        return
    list_probes(
        X, start, centers, near_start, near, behind, swept, chosen, reach, cells, top, begin[:-1].copy(), probing
    )  # fmt: skip
    visit = visit_of(longest, X.shape[1])
    for b in range(n_cells):
        if stop[0]:
            return
        rows = probing[begin[b] : begin[b + 1]]
        if rows.shape[0] > 0:
            meet_cell(X, half, extra, start, centers, b, rows, rows, home[rows], visit, score, index, top)
