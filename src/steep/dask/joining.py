"""A group meets the cells around it: its own, then those of other groups, read in blocks that fit in memory.

Neighbours so far stay with the group's own points; a cell of another group answers and is let go. So a product of
two cells of different groups is made twice, once for each group, and nothing is merged or waited for: every group
is one task that depends on files alone.

Positions below ``n_own`` are the group's own points. Those of a block follow, and once the block is done they become
``away`` + the position among all points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray
from steep.dask.atlas import Atlas
from steep.dask.groups import read_group
from steep.dask.partition import frame_of
from steep.dask.plan import Plan
from steep.dask.store import Store, Summary
from steep.exceptions import SteepError
from steep.labels import Labels
from steep.measures.variance import prefix_variances
from steep.neighbors.cells import Cells, Near, listed_near, sweep
from steep.neighbors.distances import as_float32
from steep.neighbors.frame import half_norms
from steep.neighbors.graph import search_graph
from steep.neighbors.lists import NO_POINT, Lists, empty_lists
from steep.neighbors.threads import Team, threads

_PAIRS = 2**20  # pairs measured at a time


def join_group(plan: Plan, group: int, partition: Summary, found: Summary) -> dict[str, Any]:
    """Find the neighbours of one group's points, and write what is wanted of them in the order of the rows."""
    atlas = Atlas.read(found)
    splits = np.zeros(plan.n_chunks + 1, np.int64)
    if atlas.first_cell[group] == atlas.first_cell[group + 1]:
        return {"splits": splits, "found": np.empty(0), "low": np.inf, "high": -np.inf, "size": 0.0}
    with threads(plan.n_jobs) as team:
        meeting = Meeting(plan, group, atlas, found, team)
        meeting.sweep()
    rows = plan.store.read(f"cell-rows-{group}")
    order = np.argsort(rows)
    plan.store.write(f"out-rows-{group}", rows[order])
    unit = frame_of(partition).unit
    low = high = size = 0.0
    if plan.wanted == "variation":
        low, high, size = _write_variation(plan, meeting, order)
    else:
        _write_graph(plan, meeting, order, unit)
    shares = _shares_found(meeting, found, unit)
    splits[:] = np.searchsorted(rows[order], plan.bounds)
    return {"splits": splits, "found": shares, "low": low, "high": high, "size": size}


class Meeting:
    """The lists of one group's points, and the cells they meet."""

    def __init__(self, plan: Plan, group: int, atlas: Atlas, found: Summary, team: Team) -> None:
        self.plan, self.group, self.atlas, self.team = plan, group, atlas, team
        self.reach = float(found["reach"])
        self.first, self.last = atlas.first_cell[group : group + 2]
        self.shift = int(atlas.first_point[group])
        self.n_own = int(atlas.first_point[group + 1] - self.shift)
        near_start = found["near_start"][self.first : self.last + 1]
        self.near_cell = plan.store.read("near", int(near_start[0]), int(near_start[-1])).astype(np.int64)
        self.near_owner = np.repeat(np.arange(self.last - self.first), np.diff(near_start))
        self.blocks = [np.empty(0, np.int64), *self._cut_blocks()]  # the first stands for the own cells
        self.room = max(int(self._sizes(block).sum()) for block in self.blocks)
        self.points = np.empty((self.n_own + self.room, plan.n_features), np.float32)
        self.points[: self.n_own] = plan.store.read(f"cells-{group}")
        self.lists = self._lists()
        self.away = self.n_own + self.room

    def _lists(self) -> Lists:
        """The lists as the group left them; no point from elsewhere keeps one here."""
        lists = empty_lists(self.n_own, self.plan.n_others)
        lists.score[:] = self.plan.store.read(f"scores-{self.group}")
        lists.index[:] = self.plan.store.read(f"lists-{self.group}")
        top = np.full(self.n_own + self.room, -np.inf, np.float32)
        top[: self.n_own] = lists.score[:, -1]
        return Lists(lists.score, lists.index, top)

    def _sizes(self, cells: IntArray) -> IntArray:
        return np.asarray(self.atlas.start[cells + 1] - self.atlas.start[cells])

    def _cut_blocks(self) -> list[IntArray]:
        """Cells of other groups that are near, in blocks of half as many points as the group has."""
        away = np.unique(self.near_cell[(self.near_cell < self.first) | (self.near_cell >= self.last)])
        block = np.cumsum(self._sizes(away)) // max(1, self.n_own // 2)
        return np.split(away, np.flatnonzero(np.diff(block)) + 1) if len(away) else []

    def _own_and(self, block: IntArray) -> Cells:
        """Own cells, and those of a block after them."""
        mine = np.arange(self.first, self.last)
        both = np.concatenate([mine, block])
        start = np.append(0, np.cumsum(self._sizes(both)))
        if len(block):
            self.points[self.n_own : start[-1]] = self.atlas.points_of(self.plan.store, block)
        points = self.points[: start[-1]]
        no_order = np.empty(0, np.int32)
        extra = np.zeros(len(points), np.float32)
        return Cells(points, half_norms(points), extra, no_order, start, self.atlas.centers[both])

    def _near(self, cells: Cells, block: IntArray) -> Near:
        """Which of them lie near each other: own with own, or own with those of the block."""
        n_own_cells = self.last - self.first
        if len(block):
            at = np.minimum(np.searchsorted(block, self.near_cell), len(block) - 1)
            met = block[at] == self.near_cell
            owner, cell = self.near_owner[met], n_own_cells + at[met]
            keys = np.concatenate([owner * cells.n_cells + cell, cell * cells.n_cells + owner])
        else:
            met = (self.near_cell >= self.first) & (self.near_cell < self.last)
            keys = self.near_owner[met] * cells.n_cells + self.near_cell[met] - self.first
        return listed_near(cells, np.sort(keys), self.team)

    def sweep(self) -> None:
        """Meet the cells nearby, as far as the promise asks for."""
        for block in self.blocks:
            cells = self._own_and(block)
            near = self._near(cells, block)
            radius = self.atlas.radius[np.concatenate([np.arange(self.first, self.last), block])]
            sweep(cells, near, self.reach, radius, self.lists, self.team)
            self._let_go(block)

    def _let_go(self, block: IntArray) -> None:
        """Call the points of a block that made it into a list by their position among all."""
        if not len(block):
            return
        sizes = self._sizes(block)
        first = self.atlas.start[block] - np.append(0, np.cumsum(sizes[:-1]))
        names = np.repeat(first, sizes) + np.arange(sizes.sum()) + self.away
        index = self.lists.index
        visits = (index >= self.n_own) & (index < self.n_own + len(names))
        index[visits] = names[index[visits] - self.n_own]

    # -------------------------------------------------------------------------------- what was found

    def positions(self, part: slice = slice(None)) -> IntArray:
        """Neighbours of some points, by their position among all points."""
        index = self.lists.index[part]
        if (index == NO_POINT).any():
            raise SteepError(
                "the groups that are searched together are too small for n_neighbors; lower n_neighbors or raise "
                "steep.task-memory"
            )
        return np.where(index < self.n_own, index + np.int64(self.shift), index.astype(np.int64) - self.away)

    def looked_up(self, kind: str, rows: Any = slice(None)) -> tuple[npt.NDArray[Any], IntArray]:
        """What is known of the neighbours of some points, ``kind-{group}``, all own points first; and who follows."""
        index = self.lists.index[rows]
        away = _distinct(index[(index >= self.away) & (index != NO_POINT)]).astype(np.int64) - self.away
        return _table_of(self.plan.store, kind, self.group, self.atlas.first_point, away), away

    def places(self, away: IntArray, rows: Any = slice(None)) -> IntArray:
        """Places of the neighbours of some points in such a table; a place not taken is the point's own."""
        index = self.lists.index[rows].astype(np.int64)
        own = np.arange(self.n_own)[rows][:, None]
        far = self.n_own + np.searchsorted(away, index - self.away)
        return np.asarray(np.where(index == NO_POINT, own, np.where(index < self.n_own, index, far)))

    def variation_of(self, rows: IntArray) -> FloatArray:
        """Eq. Dhat2 of some points, over the neighbours so far."""
        table, away = self.looked_up("cell-labels", rows)
        labels = Labels(codes=table) if table.ndim == 1 else Labels(values=table)
        out = np.empty(len(rows))
        for first in range(0, len(rows), 8_192):
            some = rows[first : first + 8_192]
            around = self.places(away, some)
            if self.plan.include_self:
                around = np.hstack([some[:, None], around])
            out[first : first + 8_192] = prefix_variances(labels, around, [around.shape[1]])[0]
        return out

    def distances(self) -> FloatArray:
        """Distances of the lists in the frame, measured in float64 from the cells' points and centres."""
        out = np.empty(self.lists.index.shape)
        step = max(1, _PAIRS // self.points.shape[1])
        for block in self.blocks:
            cells = self._own_and(block)
            home = cells.home
            q, j, other = self._pairs_with(block, cells)
            for at in range(0, len(q), step):
                mine, theirs = q[at : at + step], other[at : at + step]
                between = cells.points[mine].astype(np.float64) - cells.points[theirs]
                between += cells.centers[home[mine]] - cells.centers[home[theirs]]
                out[mine, j[at : at + step]] = np.sqrt(np.einsum("ij,ij->i", between, between))
        return out

    def _pairs_with(self, block: IntArray, cells: Cells) -> tuple[IntArray, IntArray, IntArray]:
        """Points, places in their lists, and neighbours (among ``cells``) that are in a block; or own ones."""
        index = self.lists.index.astype(np.int64)
        if not len(block):
            q, j = np.nonzero(index < self.n_own)
            return q, j, index[q, j]
        position = index - self.away
        cell = np.clip(np.searchsorted(self.atlas.start[block], position, side="right") - 1, 0, None)
        inside = position - self.atlas.start[block][cell]
        q, j = np.nonzero((position >= 0) & (inside >= 0) & (inside < self._sizes(block)[cell]))
        return q, j, cells.start[self.last - self.first + cell[q, j]] + inside[q, j]


def _distinct(values: IntArray) -> IntArray:
    """The different ones of ``values``, ascending; they are sorted in place: a hash table takes ten times as much."""
    values.sort()
    return np.asarray(values[np.append(True, values[1:] != values[:-1])] if len(values) else values)


def _table_of(store: Store, kind: str, group: int, first_point: IntArray, away: IntArray) -> npt.NDArray[Any]:
    """``kind-{group}``, and after it what is known of the positions ``away``, ascending, of other groups."""
    table = [store.read(f"{kind}-{group}")]
    groups = np.searchsorted(first_point, away, side="right") - 1
    for other in np.unique(groups):
        theirs = store.read(f"{kind}-{other}")
        table.append(theirs[away[groups == other] - first_point[other]])
    return np.concatenate(table)


def _write_variation(plan: Plan, meeting: Meeting, order: IntArray) -> tuple[float, float, float]:
    """Write the variation; return the least, the largest, and the size of the labels behind it."""
    variation = meeting.variation_of(np.arange(meeting.n_own))
    plan.store.write(f"out-variation-{meeting.group}", variation[order])
    labels = plan.store.read(f"cell-labels-{meeting.group}")
    size = 0.0 if labels.ndim == 1 else Labels(values=labels).size
    return float(variation.min()), float(variation.max()), size


def _write_graph(plan: Plan, meeting: Meeting, order: IntArray, unit: float) -> None:
    """Distances and rows of the neighbours, sorted; the point itself first where it is wanted."""
    distances = meeting.distances()
    meeting.positions(slice(0, meeting.n_own))
    rows, away = meeting.looked_up("cell-rows")
    indices = rows[meeting.places(away)]
    best = np.lexsort([indices, distances], axis=1)
    distances = np.take_along_axis(distances, best, 1)[order] / unit
    indices = np.take_along_axis(indices, best, 1)[order]
    if plan.metric == "cosine":
        distances = 0.5 * np.square(distances)
    if plan.include_self:
        own = rows[: meeting.n_own][order][:, None]
        distances, indices = np.hstack([np.zeros(own.shape), distances]), np.hstack([own, indices])
    plan.store.write(f"out-distances-{meeting.group}", as_float32(distances))
    plan.store.write(f"out-indices-{meeting.group}", indices.astype(np.int32))


def _shares_found(meeting: Meeting, found: Summary, unit: float) -> FloatArray:
    """Share of the true neighbours in the lists of those of our points that judge."""
    judged = found["judged"] - meeting.shift
    mine = (judged >= 0) & (judged < meeting.n_own)
    lengths = np.sqrt(2 * meeting.lists.score[judged[mine]].astype(np.float64)) / unit
    return np.asarray((lengths <= found["truth"][mine][:, None] * (1 + 1e-4)).mean(axis=1))


# ------------------------------------------------------------------------- data that one task can hold


def join_whole(plan: Plan, partition: Summary, sorted_: list[Summary]) -> dict[str, Any]:
    """Find the neighbours of all points; what is written is what one group would write."""
    counts = np.stack([part["counts"] for part in sorted_])
    own = read_group(plan, 0, {"counts": counts, "group": np.zeros(counts.shape, np.int64)})
    points, rows, found = own["points"], own["rows"], own["labels"]
    labels = None
    if plan.wanted == "variation":
        labels = Labels(codes=found, classes=partition["classes"]) if found.ndim == 1 else Labels(values=found)
    distances, indices, info = search_graph(
        points, n_neighbors=plan.n_neighbors, include_self=plan.include_self, recall=plan.recall,
        n_jobs=plan.n_jobs, random_state=plan.seed,
    )  # fmt: skip
    low = high = size = 0.0
    plan.store.write("out-rows-0", rows)
    if labels is not None:
        variation = prefix_variances(labels, indices, [plan.n_neighbors])[0]
        plan.store.write("out-variation-0", variation)
        low, high, size = float(variation.min()), float(variation.max()), labels.size
    else:
        if plan.metric == "cosine":
            distances = distances * distances * np.float32(0.5)
        plan.store.write("out-distances-0", distances)
        plan.store.write("out-indices-0", indices)
    plan.store.drop(*(f"{kind}-{chunk}" for kind in "xy" for chunk in range(plan.n_chunks)))
    splits = np.asarray(plan.bounds, np.int64)
    return {"splits": splits, "found": [info.estimated_recall], "low": low, "high": high, "size": size}
