# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled loops of the KD-tree: build by medians, then search leaf by leaf.

All points of a leaf are searched together, so that the way through the tree is paid once for them, in an
order in which near leaves come first. Nodes are numbered as in a heap: the children of v are 2v + 1 and
2v + 2. A node also knows the lowest row of its points, so that among equal distances a subtree that holds
no lower row is not entered; many equal points cost no more than others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.best import push, sort_pairs
from steep.neighbors.kernels.compare import distance, ranked, write

LEAST, MOST = np.float32(1e-30), np.float32(1e37)  # squares between them have kept their digits


class Tree(NamedTuple):
    """Points feature by feature and rows in the order of the tree; place, box and lowest row of each node."""

    columns: Any
    order: Any
    start: Any
    lower: Any
    upper: Any
    lowest: Any


@compiled()
def split_at(points, order, f, first, last, middle):
    """Swap points ``first`` … ``last`` until none before ``middle`` has a larger feature f (quickselect)."""
    while last - first > 1:
        pivot = points[(first + last) // 2, f]
        i, j = first, last - 1
        while i <= j:
            while points[i, f] < pivot:
                i += 1
            while points[j, f] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                for g in range(points.shape[1]):
                    points[i, g], points[j, g] = points[j, g], points[i, g]
                i += 1
                j -= 1
        if middle <= j:
            last = j + 1
        elif middle >= i:
            first = i
        else:
            return


@compiled()
def widest(points, first, last):
    """Return the feature that spreads most over the points ``first`` … ``last``, judged by some of them."""
    step = max(1, (last - first) // 256)
    best, best_spread = 0, -1.0
    for f in range(points.shape[1]):
        some = points[first:last:step, f]
        spread = some.max() - some.min()
        if spread > best_spread:
            best, best_spread = f, spread
    return best


@compiled()
def build(points, order, start, lower, upper, lowest):
    """Sort the points leaf by leaf, in place; fill in each node's place, bounding box and lowest row."""
    n_nodes = lowest.shape[0]
    n_inner = n_nodes // 2
    for v in range(n_inner):
        first, last = start[v]
        middle = (first + last) // 2
        split_at(points, order, widest(points, first, last), first, last, middle)
        start[2 * v + 1, 0], start[2 * v + 1, 1] = first, middle
        start[2 * v + 2, 0], start[2 * v + 2, 1] = middle, last
    for v in range(n_nodes - 1, -1, -1):
        if v < n_inner:
            near, far = 2 * v + 1, 2 * v + 2
            lowest[v] = min(lowest[near], lowest[far])
            lower[v] = np.minimum(lower[near], lower[far])
            upper[v] = np.maximum(upper[near], upper[far])
        else:
            lowest[v] = order[start[v, 0] : start[v, 1]].min()
            for f in range(points.shape[1]):
                lower[v, f] = points[start[v, 0] : start[v, 1], f].min()
                upper[v, f] = points[start[v, 0] : start[v, 1], f].max()


@compiled()
def box_gap(lower, upper, v, w):
    """Squared distance of two boxes; no pair of their points computes a smaller one."""
    total = 0.0
    for f in range(lower.shape[1]):
        step = max(lower[v, f] - upper[w, f], lower[w, f] - upper[v, f], 0.0)
        total += step * step
    return np.float32(total)


@compiled()
def point_gap(columns, q, lower, upper, v):
    """Squared distance of a point to a box."""
    total = 0.0
    for f in range(lower.shape[1]):
        step = max(lower[v, f] - columns[f, q], columns[f, q] - upper[v, f], 0.0)
        total += step * step
    return np.float32(total)


@compiled()
def meet_leaf(columns, order, q, begin, end, score, index, squares):
    """Offer the points ``begin`` … ``end`` to point ``q``."""
    squares[: end - begin] = 0.0
    for f in range(columns.shape[0]):
        here = columns[f, q]
        for p in range(begin, end):
            step = columns[f, p] - here
            squares[p - begin] += step * step
    worst = np.float64(score[q, 0]) * (1 + 1e-6)  # a little more, for what rounds down to it
    hits = 0
    for p in range(end - begin):
        hits += squares[p] <= worst
    if hits == 0:
        return
    for p in range(begin, end):
        found = np.float32(squares[p - begin])
        if found <= score[q, 0] and p != q:
            push(score, index, q, found, order[p])


@compiled()
def wants(v, gap, first, last, lowest, score, index):
    """Return whether a node ``gap`` away may hold a better neighbour of one of the points."""
    for q in range(first, last):
        worst = score[q, 0]
        if gap < worst or (gap == worst and lowest[v] < index[q, 0]):
            return True
    return False


@compiled()
def search_leaves(tree, leaves, score, index, stop):
    """Find the neighbours of all points of some leaves; the lists are in tree order."""
    columns, order, start, lower, upper, lowest = tree
    n_inner = lowest.shape[0] // 2
    todo, gaps = np.empty(128, np.int64), np.empty(128, np.float32)
    squares = np.empty(np.max(start[n_inner:, 1] - start[n_inner:, 0]), np.float64)
    for leaf in leaves:
        if stop[0]:
            return
        first, last = start[leaf]
        todo[0], gaps[0], waiting = 0, 0.0, 1
        while waiting > 0:
            waiting -= 1
            v = todo[waiting]
            if not wants(v, gaps[waiting], first, last, lowest, score, index):
                continue
            if v >= n_inner:
                begin, end = start[v]
                for q in range(first, last):
                    if wants(v, point_gap(columns, q, lower, upper, v), q, q + 1, lowest, score, index):
                        meet_leaf(columns, order, q, begin, end, score, index, squares)
                continue
            near, far = 2 * v + 1, 2 * v + 2
            near_gap, far_gap = box_gap(lower, upper, leaf, near), box_gap(lower, upper, leaf, far)
            if far_gap < near_gap or (far_gap == near_gap and lowest[far] < lowest[near]):
                near, far, near_gap, far_gap = far, near, far_gap, near_gap
            todo[waiting], gaps[waiting] = far, far_gap
            todo[waiting + 1], gaps[waiting + 1] = near, near_gap
            waiting += 2


@compiled()
def finish_tree(X, order, score, index, unsure, first, last):
    """Rank each list by distances of the data as given, and say where float32 squares could not decide.

    They cannot where the last square is beyond float32, nor where it vanishes and the distance does not.
    """
    width = score.shape[1]
    keys, indices = np.empty(width, np.float64), np.empty(width, np.int32)
    for q in range(first, last):
        row, farthest = order[q], score[q, 0]
        unsure[row] = not farthest < MOST
        if unsure[row]:
            continue
        for j in range(width):
            keys[j], indices[j] = ranked(distance(X, row, index[q, j])), index[q, j]
        sort_pairs(keys, indices)
        write(keys, indices, score[q], index[q])
        unsure[row] = farthest < LEAST and keys[width - 1] > 0
