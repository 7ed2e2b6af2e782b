"""Exact self-join: by cells where they spare most of the work, else by tiles of products.

1. Cut the data into cells and join each with itself, as the approximate engine does (partitioned.py).
2. Count on sampled cells how many pairs of points could still be neighbours: those within the k-th
   distance so far along the line of their cells' centres. Where that is a large share, as in high
   dimension without structure, the tiles are quicker.
3. Sweep nearby cells, which brings the lists close to the truth, then complete every list (complete.py).
4. Prove the lists in float64, as the tiles do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.neighbors.info import Stopwatch
from steep.neighbors.join import Lists, empty_lists
from steep.neighbors.near import Near, near_cells
from steep.neighbors.partition import Cells, partition
from steep.neighbors.points import Float32Array, center_of, half_norms
from steep.neighbors.stages import cell_sizes, complete_lists, join_cells, radius_of, sweep
from steep.neighbors.threads import Workers
from steep.neighbors.tiles import SLACK, join_tiles, proven, score_error

CELL = 400  # points per cell
MOST_CELLS = 8_000  # every cell is measured against every other
WORTHWHILE = 8_000  # points below which tiles are done before the cells are cut
LARGE_SHARE = 0.15  # of all pairs: looking at so many one by one takes as long as all of them in tiles
SAMPLE = 8  # cells on which that share is estimated
REACH = 0.4  # of the sweep; any is right, this one is quick


def join_exact(
    X: FloatArray, n_others: int, *, include_self: bool, team: Workers
) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Return distances and indices of the ``n_others`` nearest others of each point, exactly."""
    width = n_others + SLACK
    cell_size = max(CELL, 4 * width, len(X) // MOST_CELLS)
    if len(X) < max(WORTHWHILE, 4 * cell_size):
        return join_tiles(X, n_others, include_self=include_self, team=team)
    watch = Stopwatch()
    # The seed decides how long it takes, never what is found.
    cells = partition(X, center_of(X), cell_size, np.random.default_rng(0), team)
    half, lists = half_norms(cells.points), empty_lists(len(X), width)
    join_cells(cells, half, lists, team)
    if _share_left(cells, lists) > LARGE_SHARE:
        del cells, half, lists
        return join_tiles(X, n_others, include_self=include_self, team=team)
    watch.lap("within cells")
    near, reach = near_cells(cells, len(cells) - 1, team), _reach(cells, lists)
    swept = sweep(cells, near, REACH, radius_of(cells, lists), lists, team)
    watch.lap("across cells")
    complete_lists(cells, half, near, swept, lists, team)
    watch.lap("complete")
    bound = lists.top - _error(cells, half, near, reach)[cells.home]
    lists, certain = _in_order(cells, lists, bound)
    del cells, half, near, swept
    distances, indices = proven(X, lists, certain, n_others, include_self=include_self, team=team)
    watch.lap("proof")
    return distances, indices, {"seconds": watch.seconds}


def _share_left(cells: Cells, lists: Lists) -> float:
    """Estimate which share of all pairs of points completing the lists would look at."""
    from steep.neighbors.complete import count_left

    some = np.random.default_rng(0).choice(len(cells), min(SAMPLE, len(cells)), replace=False)
    looked_at, of = count_left(cells.points, cells.start, cells.centers, lists.top, some)
    return float(looked_at / of)


def _reach(cells: Cells, lists: Lists) -> FloatArray:
    """Return the farthest that any point of each cell may look along a centre line."""
    return np.sqrt(2.0 * np.maximum.reduceat(lists.top, cells.start[:-1]).astype(np.float64))


def _error(cells: Cells, half: Float32Array, near: Near, reach: FloatArray) -> FloatArray:
    """Return how far the scores of each cell's points may be off: it grows with the cells they met."""
    size, owner = cell_sizes(cells, half), near.owner
    met = near.gap <= 1.01 * np.maximum(reach[owner], reach[near.cell])
    span = np.where(met, near.length, 0) + size[owner] + size[near.cell]
    longest = np.maximum.reduceat(span, near.start[:-1])
    return score_error(longest.astype(np.float64), cells.points.shape[1])


def _in_order(cells: Cells, lists: Lists, certain: FloatArray) -> tuple[Lists, FloatArray]:
    """Return lists and bounds in the caller's order of points."""
    back = np.empty_like(cells.order)
    back[cells.order] = np.arange(len(back), dtype=back.dtype)
    index = cells.order[lists.index]
    return Lists(lists.score[back], index[back], lists.top[back]), certain[back]
