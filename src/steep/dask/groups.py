"""One group of points, cut into cells and joined within them; and the neighbours it holds of the points that judge.

What is written is what the other groups need to meet its cells (points, centres, radii) and what the group itself
goes on with (lists of neighbours so far). Positions count the points of all groups, cell by cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray
from steep.dask.partition import frame_of
from steep.dask.plan import Plan
from steep.dask.store import Summary
from steep.neighbors.cells import cut, join_cells, radius_of
from steep.neighbors.frame import half_norms, row_lengths
from steep.neighbors.lists import empty_lists
from steep.neighbors.partitioned import CELL
from steep.neighbors.threads import threads

_ROWS = 16_384  # points compared with those that judge at a time


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


def read_group(plan: Plan, group: int, groups: Summary) -> dict[str, npt.NDArray[Any]]:
    """Points, rows and labels of a group, in the order of the rows."""
    found = {kind: gathered(plan, group, groups, kind) for kind in ("points", "rows", "labels")}
    order = np.argsort(found["rows"])
    return {kind: array[order] for kind, array in found.items()}


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
    """What an empty group says."""
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
    for first in range(0, len(points), _ROWS):
        some = frame.place_float32(points, slice(first, first + _ROWS))
        some = np.column_stack([some, -rest * half_norms(some)])
        least = half - (0.5 * np.square(limit) * (1 + 1e-6)).astype(np.float32)
        near = wide @ some.T >= least[:, None]
        for q in np.flatnonzero(near.any(axis=1)):
            found = first + np.flatnonzero(near[q])
            found = found[rows[found] != partition["judged_rows"][q]]
            lengths = row_lengths(points[found].astype(np.float64) - asked[q])
            _keep_nearest(int(q), lengths, found, distances, places)
        limit = np.minimum(limit, distances[:, -1])
    return distances, places


def _keep_nearest(q: int, lengths: FloatArray, found: IntArray, distances: FloatArray, places: IntArray) -> None:
    """Merge more points into the sorted list of one that judges."""
    lengths, found = np.append(distances[q], lengths), np.append(places[q], found)
    best = np.lexsort([found, lengths])[: distances.shape[1]]
    distances[q], places[q] = lengths[best], found[best]
