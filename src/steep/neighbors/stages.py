"""The stages of a search in cells, each one pass over the data by compiled kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray
from steep.neighbors.join import Lists, Rounds, batches
from steep.neighbors.near import Near
from steep.neighbors.partition import Cells
from steep.neighbors.points import Float32Array
from steep.neighbors.threads import Workers


def join_cells(cells: Cells, half: Float32Array, lists: Lists, team: Workers) -> None:
    """Join each cell with itself."""
    from steep.neighbors.kernels import join_within

    def task(some: IntArray) -> None:
        join_within(cells.points, half, cells.start, some, lists.score, lists.index, lists.top, team.stop)

    team.each(task, batches(len(cells), 200))


def radius_of(cells: Cells, lists: Lists) -> FloatArray:
    """Return the mean distance of the last neighbour so far; infinite where a cell has too few points."""
    distance = np.sqrt(2.0 * lists.top.astype(np.float64))
    return np.asarray(np.add.reduceat(distance, cells.start[:-1]) / np.diff(cells.start))


def sweep(
    cells: Cells, near: Near, reach_in_radii: float, radius: FloatArray, lists: Lists, team: Workers
) -> Float32Array:
    """Join nearby cells within reach along their centre line; return each pair's reach, −∞ if they never met."""
    from steep.neighbors.sweep import sweep_across

    owner, cell = near.owner, near.cell
    larger = np.maximum(radius[owner], radius[cell])
    with np.errstate(invalid="ignore"):  # 0 × ∞: a cell without a radius is swept whole, a radius of 0 never
        reach = np.where(np.isinf(larger), np.inf, np.where(larger == 0, 0.0, reach_in_radii * larger))
    meet = (near.gap <= reach) & (reach > 0)
    swept = np.where(meet, reach, -np.inf).astype(np.float32)
    keep = meet & (owner < cell)
    rounds = Rounds(np.column_stack([owner[keep], cell[keep]]), len(cells))
    reach = swept[keep][rounds.order]

    def task(some: slice) -> None:
        sweep_across(
            cells.points, cells.start, cells.centers, rounds.pairs[some], reach[some],
            lists.score, lists.index, lists.top, team.stop,
        )  # fmt: skip

    rounds.run(task, team, at_once=1000)
    return swept


def complete_lists(
    cells: Cells, half: Float32Array, near: Near, swept: Float32Array, lists: Lists, team: Workers
) -> None:
    """Find all that the lists still miss."""
    from steep.neighbors.complete import complete

    size, rounding = cell_sizes(cells, half), np.float32((cells.points.shape[1] + 8) * 2.0**-23)

    def task(some: IntArray) -> None:
        complete(
            cells.points, cells.start, cells.centers, size, near.start, near.cell, near.behind, swept,
            rounding, some, lists.score, lists.index, lists.top, team.stop,
        )  # fmt: skip

    team.each(task, batches(len(cells), 20))


def probe_cells(
    cells: Cells,
    half: Float32Array,
    near: Near,
    swept: Float32Array,
    chosen: npt.NDArray[np.bool_],
    reach: float,
    lists: Lists,
    team: Workers,
) -> None:
    """Search on for the ``chosen`` points, to ``reach`` times their own last distance along the centre line."""
    from steep.neighbors.probe import probe

    home = cells.home

    def task(some: IntArray) -> None:
        probe(
            cells.points, half, cells.start, cells.centers, home, near.start, near.cell, near.behind, swept,
            chosen, np.float32(reach), some, lists.score, lists.index, lists.top, team.stop,
        )  # fmt: skip

    team.each(task, batches(len(cells), 250))


def cell_sizes(cells: Cells, half: Float32Array) -> Float32Array:
    """Return the largest |x| of each cell, from its centre."""
    return np.sqrt(np.float32(2) * np.maximum.reduceat(half, cells.start[:-1]))
