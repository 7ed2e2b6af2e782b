"""A group of points: cut into cells that are joined, then made to meet the cells of the groups around it.

What is written first is what other groups need to meet its cells (points, centres, radii) and what the group itself
goes on with (lists of neighbours so far). Positions count the points of all groups, cell by cell.

Then cells of other groups are read in blocks that fit in memory. A cell of another group answers and is let go: every
group is one task that depends on files alone.

Positions below ``n_own`` are the group's own points. Those of a block follow, and once the block is done a point p of
all points is called −1 − p.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray
from steep.dask.atlas import Atlas
from steep.dask.plan import Plan, frame_of
from steep.dask.store import Store, Summary
from steep.labels import Labels
from steep.measures.neighborhood import RECALL
from steep.measures.variance import prefix_variances
from steep.neighbors.cells import Cells, Near, cut, join_cells, listed_near, radius_of, sweep
from steep.neighbors.frame import half_norms, row_lengths
from steep.neighbors.graph import search_graph
from steep.neighbors.lists import NO_POINT, Lists, Team, empty_lists, threads
from steep.neighbors.partitioned import CELL

_COMPARED = 16_384  # points compared with those that judge at a time

_ROWS = 8_192  # points whose variation is taken at a time


def cut_group(plan: Plan, group: int, partition: Summary, groups: Summary) -> dict[str, Any]:
    """Gather the rows of a group, cut them into cells, and join each cell with itself."""
    points, rows = (gathered(plan, group, groups, kind) for kind in ("points", "rows"))
    if not len(points):
        return _nothing(plan)
    frame = frame_of(partition)
    near = _nearest_here(plan, partition, points, rows)
    with threads(plan.n_jobs) as team:
        cells = cut(points, frame, max(CELL, 4 * plan.n_others), plan.rng(3, group), team)
        del points
        lists = empty_lists(len(rows), plan.n_others)
        join_cells(cells, lists, team)
    place = np.empty(len(rows), np.int64)
    place[cells.order] = np.arange(len(rows))
    rows = rows[cells.order]
    plan.store.write(f"cells-{group}", cells.points)
    plan.store.write(f"cell-rows-{group}", rows)
    plan.store.write(f"cell-labels-{group}", gathered(plan, group, groups, "labels")[cells.order])
    plan.store.write(f"scores-{group}", lists.score)
    plan.store.write(f"lists-{group}", lists.index)
    judged = np.flatnonzero(np.isin(rows, partition["judged_rows"]))
    return {
        "n_points": len(rows), "sizes": np.diff(cells.start), "centers": cells.centers,
        "radius": radius_of(cells, lists), "near_distance": near[0],
        "near_place": np.where(near[1] >= 0, place[near[1]], -1), "judged_rows": rows[judged],
        "judged_place": judged, "judged_top": lists.top[judged],
    }  # fmt: skip


def gathered(plan: Plan, group: int, groups: Summary, kind: str) -> npt.NDArray[Any]:
    """Read the stretches of all sorted chunks that belong to a group, of one kind of array."""
    counts, mine = groups["counts"], groups["group"] == group
    out: npt.NDArray[Any] = np.empty((0, plan.n_features if kind == "points" else 0))
    at = 0
    for chunk in range(plan.n_chunks):
        ends = np.append(0, np.cumsum(counts[chunk]))
        for first, last in _stretches(mine[chunk], ends):
            part = plan.store.read(f"{kind}-{chunk}", first, last)
            if not at:
                out = np.empty((int(counts[mine].sum()), *part.shape[1:]), part.dtype)
            out[at : at + last - first] = part
            at += last - first
    return out


def _stretches(mine: npt.NDArray[np.bool_], ends: IntArray) -> list[tuple[int, int]]:
    """First and last of the rows of cells in a row that are mine, where there are any."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mine, [False]]).astype(np.int8)))
    found = [(int(ends[first]), int(ends[last])) for first, last in edges.reshape(-1, 2)]
    return [(first, last) for first, last in found if last > first]


def _nothing(plan: Plan) -> dict[str, Any]:
    none = np.empty(0, np.int64)
    return {
        "n_points": 0, "sizes": none, "centers": np.empty((0, plan.n_features)), "radius": np.empty(0),
        "near_distance": np.empty((0, plan.n_others)), "near_place": np.empty((0, plan.n_others), np.int64),
        "judged_rows": none, "judged_place": none, "judged_top": np.empty(0, np.float32),
    }  # fmt: skip


# ------------------------------------------------------------------------------ the points that judge


def _nearest_here(plan: Plan, partition: Summary, points: FloatArray, rows: IntArray) -> tuple[FloatArray, IntArray]:
    """Distances and places of the nearest points, in this group, of those that judge; −1 where there are no more."""
    asked, limit = partition["judged"], partition["farthest"].copy()
    frame = frame_of(partition)
    placed = frame.place_float32(asked)
    # A score half_q + half_x − q·x is too large by no more than a share of both halves.
    rest = np.float32(1 - 4 * (plan.n_features + 8) * 2.0**-23)
    half = rest * half_norms(placed)
    wide = np.column_stack([placed, np.ones(len(placed), np.float32)])
    distances = np.full((len(asked), plan.n_others), np.inf)
    places = np.full(distances.shape, -1, np.int64)
    for first in range(0, len(points), _COMPARED):
        some = frame.place_float32(points, slice(first, first + _COMPARED))
        some = np.column_stack([some, -rest * half_norms(some)])
        least = half - (0.5 * np.square(limit) * (1 + 1e-6)).astype(np.float32)
        near = wide @ some.T >= least[:, None]
        for q in np.flatnonzero(near.any(axis=1)):
            found = first + np.flatnonzero(near[q])
            found = found[rows[found] != partition["judged_rows"][q]]
            lengths = np.append(distances[q], row_lengths(points[found].astype(np.float64) - asked[q]))
            found = np.append(places[q], found)
            best = np.lexsort([found, lengths])[: plan.n_others]
            distances[q], places[q] = lengths[best], found[best]
        limit = np.minimum(limit, distances[:, -1])
    return distances, places


def join_group(plan: Plan, group: int, found: Summary) -> dict[str, Any]:
    """Find the neighbours of one group's points, and write the variation around them in the order of the rows."""
    atlas = Atlas.read(found)
    if atlas.first_cell[group] == atlas.first_cell[group + 1]:
        return {"splits": np.zeros(plan.n_chunks + 1, np.int64), "low": np.inf, "high": -np.inf, "size": 0.0}
    with threads(plan.n_jobs) as team:
        meeting = Meeting(plan, group, atlas, found, team)
        meeting.sweep()
    variation = meeting.variation()
    rows, labels = plan.store.read(f"cell-rows-{group}"), plan.store.read(f"cell-labels-{group}")
    order = np.argsort(rows)
    size = 0.0 if labels.ndim == 1 else Labels(values=labels).size
    splits = np.searchsorted(rows[order], plan.bounds)
    return _written(plan, group, rows[order], variation[order], size) | {"splits": splits}


def _written(plan: Plan, group: int, rows: IntArray, variation: FloatArray, size: float) -> dict[str, Any]:
    """Write the variation of some rows; say the least, the largest, and the size of the labels behind it."""
    plan.store.write(f"out-rows-{group}", rows)
    plan.store.write(f"out-variation-{group}", variation)
    return {"low": float(variation.min()), "high": float(variation.max()), "size": size}


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
        names = -1 - np.repeat(first, sizes) - np.arange(sizes.sum())
        index = self.lists.index
        visits = (index >= self.n_own) & (index < self.n_own + len(names))
        index[visits] = names[index[visits] - self.n_own]

    def variation(self) -> FloatArray:
        """Eq. Dhat2 of the own points, over the neighbours so far; a place not taken is the point's own."""
        index = self.lists.index
        away = _distinct(-1 - index[index < 0].astype(np.int64))
        table = _table_of(self.plan.store, "cell-labels", self.group, self.atlas.first_point, away)
        labels = Labels(codes=table) if table.ndim == 1 else Labels(values=table)
        out = np.empty(self.n_own)
        for first in range(0, self.n_own, _ROWS):
            own = np.arange(first, min(first + _ROWS, self.n_own))[:, None]
            some = index[first : first + _ROWS].astype(np.int64)
            far = self.n_own + np.searchsorted(away, -1 - some)
            around = np.where(some == NO_POINT, own, np.where(some < 0, far, some))
            if self.plan.include_self:
                around = np.hstack([own, around])
            out[first : first + _ROWS] = prefix_variances(labels, around, [around.shape[1]])[0]
        return out


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


# ------------------------------------------------------------------------- data that one task can hold


def join_whole(plan: Plan, partition: Summary, sorted_: list[Summary]) -> dict[str, Any]:
    """Find the neighbours of all points; what is written is what one group would write."""
    counts = np.stack([part["counts"] for part in sorted_])
    groups = {"counts": counts, "group": np.zeros(counts.shape, np.int64)}
    points, rows, found = (gathered(plan, 0, groups, kind) for kind in ("points", "rows", "labels"))
    order = np.argsort(rows)
    points, rows, found = points[order], rows[order], found[order]
    labels = Labels(codes=found, classes=partition["classes"]) if found.ndim == 1 else Labels(values=found)
    _, indices, _ = search_graph(
        points, n_neighbors=plan.n_neighbors, include_self=plan.include_self, recall=RECALL, n_jobs=plan.n_jobs,
        random_state=0,
    )  # fmt: skip
    size = 0.0 if labels.codes is not None else labels.size
    written = _written(plan, 0, rows, prefix_variances(labels, indices, [plan.n_neighbors])[0], size)
    plan.store.drop(*(f"{kind}-{chunk}" for kind in "xy" for chunk in range(plan.n_chunks)))
    return written | {"splits": np.asarray(plan.bounds, np.int64)}
