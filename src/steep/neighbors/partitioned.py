"""Approximate self-join of large data: points in cells, nearby cells swept along their centre line.

1. Cut the data into cells (partition.py) and join each cell with itself.
2. The mean distance of the k-th neighbour found so far is the cell's radius.
3. For cells near each other look at the pairs of points within reach × radius of each other along the
   line of their centres (sweep.py); the reach follows from the recall promised (recall.py).
4. Given labels, search on where they vary (refine.py).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.exceptions import SteepWarning
from steep.neighbors.exact import join_exact
from steep.neighbors.info import Stopwatch
from steep.neighbors.join import Lists, Rounds, empty_lists
from steep.neighbors.parallel import Workers
from steep.neighbors.partition import Cells, partition
from steep.neighbors.points import Float32Array, center_of, half_norms
from steep.neighbors.recall import choose_reach, exact_rows, exact_sample, needed_reach
from steep.neighbors.refine import contested

CELL = 400  # points per cell: fewer make more pairs of cells, more make longer joins within
NEAR = 128  # cells looked at around a cell; four times as many when the recall asks for it
NEAR_MOST = 1024
NEAR_DEEP = 384  # cells looked at where labels vary: such points lie between clusters, among many far cells
DEEP = 0.8  # reach, in k-th distances of the point itself, where labels vary: 1 could miss nothing


@dataclass
class Near:
    """The cells near each cell, symmetric: those of cell c are ``cell[start[c]:start[c + 1]]``."""

    start: IntArray
    cell: IntArray
    behind: Float32Array  # least x·u of that cell, x from the centre of c, u from c to it
    gap: Float32Array  # least distance of the two cells along u

    @property
    def owner(self) -> IntArray:
        """The cell c of each entry."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    @property
    def keys(self) -> IntArray:
        """One number for each entry's two cells, ascending."""
        return self.owner * (len(self.start) - 1) + self.cell


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
    _join_within(cells, half, lists, team)
    radius = _radius(cells, lists)
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
    n_pairs = _sweep(cells, near, reach, radius, lists, team)
    _fill(cells, half, lists, team)
    watch.lap("across cells")
    if labels is not None:
        _refine(cells, half, contested(lists.index, labels[cells.order]), lists, team)
        watch.lap("where labels vary")
    distances, indices = _finish(cells, lists, include_self, team)
    watch.lap("sort")
    done = {
        "n_probes": 1 + 2 * n_pairs / len(cells),
        "reach": reach,
        "estimated_recall": estimate,
        "n_estimated": len(truth.rows),
        "seconds": watch.seconds,
    }
    return distances, indices, done


def _join_within(cells: Cells, half: Float32Array, lists: Lists, team: Workers) -> None:
    from steep.neighbors.kernels import join_within

    def task(some: IntArray) -> None:
        join_within(cells.points, half, cells.start, some, lists.score, lists.index, lists.top, team.stop)

    team.each(task, _batches(len(cells), 200))


def _radius(cells: Cells, lists: Lists) -> FloatArray:
    """Mean distance of the k-th neighbour within each cell; infinite where a cell has too few points."""
    distance = np.sqrt(2.0 * lists.top.astype(np.float64))
    return np.asarray(np.add.reduceat(distance, cells.start[:-1]) / np.diff(cells.start))


def _plan(
    cells: Cells, lists: Lists, radius: FloatArray, truth: Any, recall: float, team: Workers
) -> tuple[Near, float, float, bool]:
    n_near = NEAR
    while True:
        near = _near_cells(cells, min(n_near, len(cells) - 1), team)
        needed = needed_reach(cells, lists, radius, near.keys, truth)
        reach, estimate, kept = choose_reach(needed, recall)
        if kept or n_near >= min(NEAR_MOST, len(cells) - 1):
            return near, reach, estimate, kept
        n_near *= 4


def _near_cells(cells: Cells, n_near: int, team: Workers) -> Near:
    from steep.neighbors.sweep import extents

    n_cells = len(cells)
    one_way = join_exact(cells.centers, n_near, include_self=False, team=team)[1].astype(np.int64)
    owner = np.repeat(np.arange(n_cells), n_near)
    keys = np.unique(np.concatenate([owner * n_cells + one_way.ravel(), one_way.ravel() * n_cells + owner]))
    owner, cell = keys // n_cells, keys % n_cells
    start = np.searchsorted(owner, np.arange(n_cells + 1))
    extent, length = np.empty(len(cell), dtype=np.float32), np.empty(len(cell), dtype=np.float32)
    team.each(
        lambda some: extents(cells.points, cells.start, cells.centers, start, cell, some, extent, length),
        _batches(n_cells, 200),
    )
    behind = length - extent[np.searchsorted(keys, cell * n_cells + owner)]
    return Near(start, cell, behind, behind - extent)


def _fill(cells: Cells, half: Float32Array, lists: Lists, team: Workers) -> None:
    """Search exactly the points that met too few others to fill their list (tiny, lonely cells)."""
    rows = np.flatnonzero(np.isinf(lists.top))
    if rows.size:
        exact = exact_rows(cells, half, rows, lists.score.shape[1], team)
        lists.score[rows], lists.index[rows], lists.top[rows] = exact.score, exact.index, exact.top


def _sweep(
    cells: Cells, near: Near, reach_in_radii: float, radius: FloatArray, lists: Lists, team: Workers
) -> int:
    """Join nearby cells; return how many pairs of cells met."""
    from steep.neighbors.sweep import sweep_across

    owner, cell = near.owner, near.cell
    larger = np.maximum(radius[owner], radius[cell])
    with np.errstate(invalid="ignore"):  # 0 × ∞: a cell without a radius is swept whole, a radius of 0 never
        reach = np.where(np.isinf(larger), np.inf, np.where(larger == 0, 0.0, reach_in_radii * larger))
    keep = (owner < cell) & (near.gap <= reach) & (reach > 0)
    reach = reach[keep].astype(np.float32)
    rounds = Rounds(np.column_stack([owner[keep], cell[keep]]), len(cells))
    reach = reach[rounds.order]

    def task(some: slice) -> None:
        sweep_across(
            cells.points, cells.start, cells.centers, rounds.pairs[some], reach[some],
            lists.score, lists.index, lists.top, team.stop,
        )  # fmt: skip

    rounds.run(task, team, at_once=1000)
    return len(rounds.pairs)


def _refine(cells: Cells, half: Float32Array, chosen: Any, lists: Lists, team: Workers) -> None:
    from steep.neighbors.sweep import deepen

    near = _near_cells(cells, min(NEAR_DEEP, len(cells) - 1), team)

    def task(some: IntArray) -> None:
        deepen(
            cells.points, half, cells.start, cells.centers, near.start, near.cell, near.behind, chosen,
            np.float32(DEEP), some,
            lists.score, lists.index, lists.top, team.stop,
        )  # fmt: skip

    team.each(task, _batches(len(cells), 50))


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


def _batches(n: int, size: int) -> list[IntArray]:
    return [np.arange(first, min(first + size, n)) for first in range(0, n, size)]
