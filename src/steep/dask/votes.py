"""The neighbours of one group's points, as positions among all points, and what is known of them.

Neighbours are mostly of the same group, and else of a few others: what is known of those is read from their files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from steep._validation import FloatArray, IntArray
from steep.dask.plan import Plan
from steep.dask.store import Store, Summary

_ROWS = 8_192  # points whose neighbours are asked at a time


def distinct(values: IntArray) -> IntArray:
    """The different ones of ``values``, ascending; they are sorted in place: a hash table takes ten times as much."""
    values.sort()
    return np.asarray(values[np.append(True, values[1:] != values[:-1])] if len(values) else values)


def table_of(store: Store, kind: str, group: int, first_point: IntArray, away: IntArray) -> npt.NDArray[Any]:
    """``kind-{group}``, and after it what is known of the positions ``away``, ascending, of other groups."""
    table = [store.read(f"{kind}-{group}")]
    groups = np.searchsorted(first_point, away, side="right") - 1
    for other in np.unique(groups):
        theirs = store.read(f"{kind}-{other}")
        table.append(theirs[away[groups == other] - first_point[other]])
    return np.concatenate(table)


def write_around(plan: Plan, group: int, positions: IntArray, order: IntArray) -> None:
    """Write what the judgement of labels needs: who the neighbours are, and the predictions as they are returned."""
    plan.store.write(f"around-{group}", positions.astype(np.int32))
    plan.store.write(f"out-predicted-{group}", plan.store.read(f"cell-predicted-{group}")[order])
    plan.store.write(f"out-label-{group}", plan.store.read(f"cell-labels-{group}")[order])


def first_points(plan: Plan, atlas: Summary | None) -> IntArray:
    """The first position of each group, and their number last."""
    return np.array([0, plan.n_rows]) if atlas is None else atlas["first_point"]


class Around:
    """The neighbours of one group's points."""

    def __init__(self, plan: Plan, group: int, atlas: Summary | None) -> None:
        self.store, self.group = plan.store, group
        self.first_point = first_points(plan, atlas)
        first, last = self.first_point[group : group + 2]
        self.index = plan.store.read(f"around-{group}")
        is_away = (self.index < first) | (self.index >= last)
        self.away = distinct(self.index[is_away]).astype(np.int64)
        self.first, self.n_own = int(first), int(last - first)

    def table(self, kind: str) -> npt.NDArray[Any]:
        """What is known of the group's own points and of those of others that are neighbours."""
        return table_of(self.store, kind, self.group, self.first_point, self.away)

    def places(self) -> Iterator[tuple[slice, IntArray]]:
        """Some of the points, and where their neighbours are in such a table."""
        for begin in range(0, self.n_own, _ROWS):
            part = slice(begin, min(begin + _ROWS, self.n_own))
            index = self.index[part].astype(np.int64) - self.first
            far = self.n_own + np.searchsorted(self.away, index + self.first)
            yield part, np.where((index >= 0) & (index < self.n_own), index, far)

    def votes(self, opinions: FloatArray, on_average: Any) -> FloatArray:
        """What the neighbours say, and one vote for what all say on average (``count_votes``)."""
        out = np.empty((self.n_own, opinions.shape[1]))
        for part, places in self.places():
            n, k = places.shape
            asked = csr_matrix(
                (np.ones(n * k, opinions.dtype), places.ravel(), np.arange(0, n * k + 1, k)),
                shape=(n, len(opinions)),
            )
            out[part] = (asked @ opinions + on_average) / (k + 1)
        return out
