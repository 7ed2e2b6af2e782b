"""Exact self-join in few dimensions: a KD-tree whose leaves search together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steep._progress import Stopwatch
from steep._validation import FloatArray, IntArray
from steep.neighbors.kernels.leaves import Tree, build, finish_tree, search_leaves
from steep.neighbors.lists import Join, Lists, empty_lists
from steep.neighbors.proof import settled

LEAF = 16  # points per leaf, at most


def join_tree(job: Join) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Return distances and indices of the nearest others of each point, exactly."""
    watch, (X, frame, n_others, _, team) = Stopwatch(), job
    n_points, n_features = X.shape
    depth = max(0, int(np.ceil(np.log2(n_points / LEAF))))
    n_nodes, n_leaves = 2 ** (depth + 1) - 1, 2**depth
    points = np.array(frame.scale(X), dtype=np.float64, order="C")  # a copy: it is sorted in place
    order = np.arange(n_points, dtype=np.int32)
    start = np.empty((n_nodes, 2), dtype=np.int64)
    start[0] = 0, n_points
    lower, upper = np.empty((n_nodes, n_features)), np.empty((n_nodes, n_features))
    lowest = np.empty(n_nodes, dtype=np.int32)
    build(points, order, start, lower, upper, lowest)
    tree = Tree(np.ascontiguousarray(points.T), order, start, lower, upper, lowest)
    del points
    watch.lap("build")
    lists = empty_lists(n_points, n_others)
    leaves = np.arange(n_nodes - n_leaves, n_nodes)

    def look(some: IntArray) -> None:
        search_leaves(tree, some, lists.score, lists.index, team.stop)

    team.each(look, np.array_split(leaves, -(-n_leaves // 1000)))
    watch.lap("search")
    distances, indices = _finish(job, order, lists)
    watch.lap("sort")
    return distances, indices, {"seconds": watch.seconds}


def _finish(job: Join, order: npt.NDArray[np.int32], lists: Lists) -> tuple[FloatArray, IntArray]:
    """Rank every list by distances of the data as given; search again where squares could not decide."""
    n_points = len(job.X)
    unsure = np.zeros(n_points, dtype=np.bool_)

    def work(first: int) -> None:
        finish_tree(job.X, order, lists.score, lists.index, unsure, first, min(first + 50_000, n_points))

    job.team.each(work, range(0, n_points, 50_000))
    return settled(job, unsure, *lists.in_rows_of(order, job.include_self))
