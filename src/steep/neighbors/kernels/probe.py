# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled search on for a few chosen points: all that probe one cell meet it in one product.

A chosen point q probes cell B when B comes within reach of it along the centre line (see sweep.py) and
the sweep has not gone as far. Chosen points are too few in each cell to pick points from B for them.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.lists import scan_rows
from steep.neighbors.kernels.sweep import directions, gather
from steep.neighbors.kernels.tiles import STRIP


@compiled()
def list_probes(
    X, start, centers, near_start, near, behind, swept, chosen, reach, cells, top, places, probing
):
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
def meet_cell(
    X, half, extra, start, centers, b, rows, slots, home, room, queries, row_half, score, index, top
):
    """Offer every point of cell ``b`` to some ``rows`` of other cells, strip by strip."""
    begin, end = start[b], start[b + 1]
    cols = np.arange(begin, end)
    for first in range(0, rows.shape[0], STRIP):
        last = min(first + STRIP, rows.shape[0])
        for i in range(first, last):
            shift = (centers[home[i]] - centers[b]).astype(np.float32)
            one = slice(i - first, i - first + 1)
            gather(X, extra, rows[i : i + 1], 1, shift, queries[one], row_half[one])
        products = room[: (last - first) * (end - begin)].reshape(last - first, end - begin)
        np.dot(queries[: last - first], X[begin:end].T, products)
        scan_rows(
            products, rows[first:last], slots[first:last], row_half, cols, half[begin:end], score, index, top
        )


@compiled()
def probe(
    X, half, extra, start, centers, home, near_start, near, behind, swept, chosen, reach, cells, score, index, top, stop
):  # fmt: skip
    """Offer the ``chosen`` points of some ``cells`` every point of each cell they probe."""
    n_cells, longest = start.shape[0] - 1, np.max(start[1:] - start[:-1])
    begin = np.zeros(n_cells + 1, np.int64)
    none = np.empty(0, np.int64)
    list_probes(
        X, start, centers, near_start, near, behind, swept, chosen, reach, cells, top, begin[1:], none
    )
    begin = np.cumsum(begin)
    probing = np.empty(begin[-1], np.int64)
    if probing.shape[0] == 0:
        return
    list_probes(
        X, start, centers, near_start, near, behind, swept, chosen, reach, cells, top, begin[:-1].copy(), probing
    )  # fmt: skip
    room = np.empty(STRIP * longest, np.float32)
    queries, query_half = np.empty((STRIP, X.shape[1]), np.float32), np.empty(STRIP, np.float32)
    for b in range(n_cells):
        if stop[0]:
            return
        rows = probing[begin[b] : begin[b + 1]]
        meet_cell(
            X, half, extra, start, centers, b, rows, rows, home[rows], room, queries, query_half, score, index, top
        )  # fmt: skip
