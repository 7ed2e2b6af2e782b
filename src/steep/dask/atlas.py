"""All cells seen at once: which lie near each other, and how far to reach so that the promised recall is kept.

It is the estimate of the in-memory engine (steep/neighbors/recall.py). The sampled points' true neighbours were
found group by group and are merged here; each says from which reach on the sweep of its group would find it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.dask.plan import Plan
from steep.dask.store import Store, Summary
from steep.measures.neighborhood import RECALL
from steep.neighbors.cells import Cells, near_centers
from steep.neighbors.frame import half_norms
from steep.neighbors.lists import Lists
from steep.neighbors.partitioned import NEAR, NEAR_MOST
from steep.neighbors.recall import Truth, choose_reach, needed_reach


@dataclass(frozen=True)
class Atlas:
    """The cells of all groups."""

    start: IntArray  # first position of each cell, counted over all groups, and the number of points
    centers: FloatArray
    radius: FloatArray
    first_cell: IntArray  # where each group begins, (n_groups + 1,)
    first_point: IntArray

    @classmethod
    def of(cls, groups: Sequence[Summary]) -> Self:
        """Put the cells of all groups side by side."""
        return cls(
            np.append(0, np.cumsum(np.concatenate([group["sizes"] for group in groups]))),
            np.concatenate([group["centers"] for group in groups]),
            np.concatenate([group["radius"] for group in groups]),
            np.append(0, np.cumsum([len(group["sizes"]) for group in groups])),
            np.append(0, np.cumsum([int(group["n_points"]) for group in groups])),
        )

    @classmethod
    def read(cls, found: Summary) -> Self:
        """The atlas that :func:`draw_atlas` has drawn."""
        return cls(**{field.name: found[field.name] for field in fields(cls)})

    def __len__(self) -> int:
        return len(self.centers)

    def cell_of(self, positions: IntArray) -> IntArray:
        """The cell of each position."""
        return np.searchsorted(self.start, positions, side="right") - 1

    def points_of(self, store: Store, cells: IntArray) -> FloatArray:
        """Points of some cells, ascending, one after the other; those of neighbouring cells are read at once."""
        parts = np.split(cells, np.flatnonzero(np.diff(cells) > 1) + 1)
        found = []
        for part in parts:
            for group in range(self.group_of_cell(part[0]), self.group_of_cell(part[-1]) + 1):
                first = max(self.start[part[0]], self.first_point[group])
                last = min(self.start[part[-1] + 1], self.first_point[group + 1])
                if last > first:
                    shift = self.first_point[group]
                    found.append(store.read(f"cells-{group}", int(first - shift), int(last - shift)))
        return np.concatenate(found)

    def group_of_cell(self, cell: int) -> int:
        """The group of a cell."""
        return int(np.searchsorted(self.first_cell, cell, side="right") - 1)


def draw_atlas(plan: Plan, partition: Summary, groups: Sequence[Summary]) -> dict[str, Any]:
    """List the cells near each cell, and choose the reach."""
    atlas = Atlas.of(groups)
    truth = merge_truth(plan, partition, groups, atlas)
    n_near = NEAR
    while True:
        near = near_centers(atlas.centers, n_near)
        needed = np.vstack([_needed(plan, atlas, near, truth, q) for q in range(len(truth.rows))])
        reach, estimate = choose_reach(needed, RECALL)
        if estimate.kept or n_near >= min(NEAR_MOST, len(atlas) - 1):
            break
        n_near *= 2
        del near
    plan.store.write("near", near[1])
    kinds = ("points", "rows", "labels")
    plan.store.drop(*(f"{kind}-{chunk}" for kind in kinds for chunk in range(plan.n_chunks)))
    return {
        "near_start": near[0], "reach": reach,
        **{field.name: getattr(atlas, field.name) for field in fields(atlas)},
    }  # fmt: skip


def near_among(start: IntArray, near: IntArray, cells: IntArray) -> IntArray:
    """Which pairs of some cells are near, by their place in the table of all pairs of them; −1 where none is.

    The cells near cell c are ``near[start[c]:start[c + 1]]``.
    """
    found = np.flatnonzero([np.isin(cells, near[start[c] : start[c + 1]]) for c in cells])
    return found if len(found) else np.array([-1])


@dataclass(frozen=True)
class Judged(Truth):
    """Exact neighbours of sampled points, as positions."""

    top: FloatArray  # the k-th score that each had found in its own cell


def merge_truth(plan: Plan, partition: Summary, groups: Sequence[Summary], atlas: Atlas) -> Judged:
    """Merge what each group holds of the neighbours of the points that judge."""
    asked = partition["judged_rows"]
    has = [group for group in range(len(groups)) if int(groups[group]["n_points"])]
    distances = np.hstack([groups[g]["near_distance"] for g in has])
    places = np.hstack(
        [np.where(groups[g]["near_place"] >= 0, groups[g]["near_place"] + atlas.first_point[g], -1) for g in has]
    )
    best = np.lexsort([places, distances], axis=1)[:, : plan.n_others]
    rows = np.concatenate([groups[g]["judged_rows"] for g in has])
    place = np.concatenate([groups[g]["judged_place"] + atlas.first_point[g] for g in has])
    top = np.concatenate([groups[g]["judged_top"] for g in has])
    at = np.argsort(rows)[np.searchsorted(np.sort(rows), asked)]
    nearest, lengths = np.take_along_axis(places, best, 1), np.take_along_axis(distances, best, 1)
    return Judged(place[at], nearest, lengths, top[at])


def _needed(plan: Plan, atlas: Atlas, near: tuple[IntArray, IntArray], truth: Judged, q: int) -> FloatArray:
    """The reach from which each true neighbour of one point is found, as its group would sweep (groups.py)."""
    mine, others = int(truth.rows[q]), truth.indices[q]
    home = int(atlas.cell_of(np.array([mine]))[0])
    group = atlas.group_of_cell(home)
    cells = np.unique(np.append(atlas.cell_of(others), home))
    own = (cells >= atlas.first_cell[group]) & (cells < atlas.first_cell[group + 1])
    order = np.concatenate([cells[own], cells[~own]])
    sizes = np.diff(atlas.start)[order]
    start = np.append(0, np.cumsum(sizes))
    points = np.concatenate([atlas.points_of(plan.store, order[i : i + 1]) for i in range(len(order))])
    local = Cells(
        points, half_norms(points), np.zeros(len(points), np.float32), np.arange(len(points), dtype=np.int32),
        start, atlas.centers[order],
    )  # fmt: skip
    inverse = {int(cell): i for i, cell in enumerate(order)}

    def place(positions: IntArray) -> IntArray:
        at = atlas.cell_of(positions)
        return np.array([start[inverse[int(c)]] for c in at]) + positions - atlas.start[at]

    top = np.full(len(points), np.inf, np.float32)
    rows = place(np.array([mine]))
    top[rows] = truth.top[q]
    lists = Lists(np.empty((0, 0), np.float32), np.empty((0, 0), np.int32), top)
    scores = 0.5 * np.square(truth.distances[q : q + 1])
    one = Truth(rows, place(others)[None], truth.distances[q : q + 1])
    return needed_reach(local, lists, atlas.radius[order], near_among(*near, order), one, scores)
