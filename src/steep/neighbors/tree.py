"""Exact self-join in few dimensions: a KD-tree whose leaves search together."""

from __future__ import annotations

from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.neighbors.info import Stopwatch
from steep.neighbors.join import empty_lists
from steep.neighbors.points import center_of
from steep.neighbors.threads import Workers

LEAF = 16  # points per leaf, at most


def join_tree(
    X: FloatArray, n_others: int, *, include_self: bool, team: Workers
) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Return distances and indices of the ``n_others`` nearest others of each point, exactly."""
    from steep.neighbors.tree_kernels import build, finish_tree, search_leaves

    watch = Stopwatch()
    n_points, n_features = X.shape
    depth = max(0, int(np.ceil(np.log2(n_points / LEAF))))
    n_nodes, n_leaves = 2 ** (depth + 1) - 1, 2**depth
    points = np.ascontiguousarray(X - center_of(X), dtype=np.float64)
    order = np.arange(n_points, dtype=np.int32)
    start = np.empty((n_nodes, 2), dtype=np.int64)
    start[0] = 0, n_points
    lower, upper = np.empty((n_nodes, n_features)), np.empty((n_nodes, n_features))
    lowest = np.empty(n_nodes, dtype=np.int32)
    build(points, order, start, lower, upper, lowest)
    columns = np.ascontiguousarray(points.T)
    del points
    watch.lap("build")
    lists = empty_lists(n_points, n_others)
    leaves = np.arange(n_nodes - n_leaves, n_nodes)

    def look(some: IntArray) -> None:
        search_leaves(
            columns, order, start, lower, upper, lowest, some, lists.score, lists.index, team.stop
        )  # fmt: skip

    team.each(look, np.array_split(leaves, -(-n_leaves // 1000)))
    watch.lap("search")
    place = np.empty_like(order)
    place[order] = np.arange(n_points, dtype=np.int32)
    team.each(
        lambda first: finish_tree(
            columns, place, lists.score, lists.index, first, min(first + 50_000, n_points)
        ),
        range(0, n_points, 50_000),
    )
    distances, indices = lists.in_rows_of(order, include_self)
    watch.lap("sort")
    return distances, indices, {"seconds": watch.seconds}
