"""Approximate self-join of large data: points in cells, nearby cells swept along their centre line.

1. Cut the data into cells (partition.py) and join each cell with itself.
2. The mean distance of the k-th neighbour found so far is the cell's radius.
3. For cells near each other look at the pairs of points within reach × radius of each other along the
   line of their centres (sweep.py); the reach follows from the recall promised (recall.py).
4. Given labels, search on where they vary (refine.py).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.exceptions import SteepWarning
from steep.neighbors.info import Stopwatch
from steep.neighbors.join import Lists, empty_lists
from steep.neighbors.near import Near, near_cells
from steep.neighbors.partition import Cells, partition
from steep.neighbors.points import Float32Array, center_of, half_norms
from steep.neighbors.recall import choose_reach, exact_rows, exact_sample, needed_reach
from steep.neighbors.refine import contested
from steep.neighbors.stages import join_cells, probe_cells, radius_of, sweep
from steep.neighbors.threads import Workers

CELL = 600  # points per cell: fewer make more pairs of cells, more make longer joins within
NEAR = (
    200  # cells looked at around a cell, as many as meet it; four times as many when the recall asks for it
)
NEAR_MOST = 1024
DEEP = 0.6  # reach, in k-th distances of the point itself, where labels vary: 1 could miss nothing


def join_partitioned(
    X: FloatArray,
    n_others: int,
    *,
    recall: float,
    include_self: bool,
    rng: np.random.Generator,
    team: Workers,
    labels: Any = None,
) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Return distances and indices of ``n_others`` neighbours, and what was done."""
    watch = Stopwatch()
    cells = partition(X, center_of(X), max(CELL, 4 * n_others), rng, team)
    half = half_norms(cells.points)
    watch.lap("partition")
    lists = empty_lists(len(X), n_others)
    join_cells(cells, half, lists, team)
    radius = radius_of(cells, lists)
    watch.lap("within cells")
    truth = exact_sample(cells, half, n_others, rng, team)
    near, reach, estimate, kept = _plan(cells, lists, radius, truth, recall, team)
    watch.lap("recall estimate")
    if not kept:
        warnings.warn(
            f"recall={recall:g} is out of reach of the partitioned search, estimated {estimate:.3f}; "
            "use algorithm='exact' to be sure",
            SteepWarning,
            stacklevel=4,
        )
    swept = sweep(cells, near, reach, radius, lists, team)
    n_met = np.isfinite(swept).sum()
    _fill(cells, half, lists, team)
    watch.lap("across cells")
    if labels is not None:
        chosen = contested(lists.index, labels[cells.order])
        probe_cells(cells, half, near, swept, chosen, DEEP, lists, team)
        watch.lap("where labels vary")
    distances, indices = _finish(cells, lists, include_self, team)
    watch.lap("sort")
    done = {
        "n_probes": 1 + n_met / len(cells),
        "reach": reach,
        "estimated_recall": estimate,
        "n_estimated": len(truth.rows),
        "seconds": watch.seconds,
    }
    return distances, indices, done


def _plan(
    cells: Cells, lists: Lists, radius: FloatArray, truth: Any, recall: float, team: Workers
) -> tuple[Near, float, float, bool]:
    n_near = NEAR
    while True:
        near = near_cells(cells, min(n_near, len(cells) - 1), team)
        needed = needed_reach(cells, lists, radius, near.keys, truth)
        reach, estimate, kept = choose_reach(needed, recall)
        if kept or n_near >= min(NEAR_MOST, len(cells) - 1):
            return near, reach, estimate, kept
        n_near *= 4


def _fill(cells: Cells, half: Float32Array, lists: Lists, team: Workers) -> None:
    """Search exactly the points that met too few others to fill their list (tiny, lonely cells)."""
    rows = np.flatnonzero(np.isinf(lists.top))
    if rows.size:
        exact = exact_rows(cells, half, rows, lists.score.shape[1], team)
        lists.score[rows], lists.index[rows], lists.top[rows] = exact.score, exact.index, exact.top


def _finish(cells: Cells, lists: Lists, include_self: bool, team: Workers) -> tuple[FloatArray, IntArray]:
    """Sort each list and bring the lists back into the caller's order."""
    from steep.neighbors.sweep import finish

    home = cells.home

    def task(first: int) -> None:
        last = min(first + 20_000, len(lists.top))
        finish(cells.points, cells.centers, home, cells.order, lists.score, lists.index, first, last)

    team.each(task, range(0, len(lists.top), 20_000))
    cells.points = np.empty((0, 0), np.float32)  # no longer needed; the memory is, for the copies
    return lists.in_rows_of(cells.order, include_self)
