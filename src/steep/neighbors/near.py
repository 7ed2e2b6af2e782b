"""Which cells lie near each cell, and how far apart two cells are along the line of their centres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steep._validation import IntArray
from steep.neighbors.join import batches
from steep.neighbors.partition import Cells
from steep.neighbors.points import Float32Array
from steep.neighbors.threads import Workers
from steep.neighbors.tiles import join_tiles


@dataclass
class Near:
    """The cells near each cell, symmetric: those of cell c are ``cell[start[c]:start[c + 1]]``."""

    start: IntArray
    cell: IntArray
    length: Float32Array  # distance of the centres
    behind: Float32Array  # least x·u of that cell, x from the centre of c, u from c to it
    gap: Float32Array  # least distance of the two cells along u

    @property
    def owner(self) -> IntArray:
        """The cell c of each entry."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    @property
    def keys(self) -> IntArray:
        """One number for each entry's two cells, ascending."""
        return self.owner.astype(np.int64) * (len(self.start) - 1) + self.cell


def near_cells(cells: Cells, n_near: int, team: Workers) -> Near:
    """Return the ``n_near`` cells whose centres are nearest to each cell's, and those it is near to."""
    from steep.neighbors.sweep import extents

    n_cells = len(cells)
    keys = _all_keys(n_cells) if n_near >= n_cells - 1 else _nearest_keys(cells, n_near, team)
    owner, cell = (keys // n_cells).astype(np.int32), (keys % n_cells).astype(np.int32)
    start = np.searchsorted(owner, np.arange(n_cells + 1))
    extent, length = np.empty(len(cell), dtype=np.float32), np.empty(len(cell), dtype=np.float32)
    team.each(
        lambda some: extents(cells.points, cells.start, cells.centers, start, cell, some, extent, length),
        batches(n_cells, 200),
    )
    behind = length - extent[np.searchsorted(keys, cell.astype(np.int64) * n_cells + owner)]
    return Near(start, cell, length, behind, behind - extent)


def _all_keys(n_cells: int) -> IntArray:
    everyone = np.arange(n_cells * n_cells)
    return np.asarray(everyone[everyone % (n_cells + 1) != 0])  # all but a cell with itself


def _nearest_keys(cells: Cells, n_near: int, team: Workers) -> IntArray:
    n_cells = len(cells)
    one_way = join_tiles(cells.centers, n_near, include_self=False, team=team)[1].astype(np.int64).ravel()
    owner = np.repeat(np.arange(n_cells), n_near)
    return np.unique(np.concatenate([owner * n_cells + one_way, one_way * n_cells + owner]))
