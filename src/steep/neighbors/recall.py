"""How far to reach: the least reach that keeps the promised recall, from sampled points.

For sampled points the true neighbours are found by exact search. Each true neighbour m of q, in another
cell than q, is found exactly when reach ≥ (t_m − t_q)/radius (see sweep.py). So the recall of every
reach is known at once, and no search is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.neighbors.join import Lists, empty_lists
from steep.neighbors.partition import Cells
from steep.neighbors.points import Float32Array
from steep.neighbors.threads import Workers

SAMPLE = 320  # points searched exactly
CAUTION = 2.0  # standard errors by which the estimate must exceed the promise
REACHES = np.concatenate([np.linspace(0.0, 1.0, 101), [1.25, 1.5, 2.0, 4.0, 8.0, np.inf]])


@dataclass(frozen=True)
class Truth:
    """Exact neighbours of sampled points; all are positions in the cells."""

    rows: IntArray
    index: IntArray
    score: Float32Array


def exact_rows(cells: Cells, half: Float32Array, rows: IntArray, width: int, team: Workers) -> Lists:
    """Search some points exactly, by their positions."""
    from steep.neighbors.sweep import search

    lists, home = empty_lists(len(rows), width), cells.home[rows]

    def look(part: IntArray) -> None:
        some = slice(part[0], part[-1] + 1)
        for first in range(0, len(cells), 500):
            last = min(first + 500, len(cells))
            search(
                cells.points, half, cells.start, cells.centers, rows[some], home[some], first, last,
                lists.score[some], lists.index[some], lists.top[some],
            )  # fmt: skip

    team.each(look, np.array_split(np.arange(len(rows)), max(min(len(rows), 4), -(-len(rows) // 500))))
    return lists


def exact_sample(
    cells: Cells, half: Float32Array, width: int, rng: np.random.Generator, team: Workers
) -> Truth:
    """Search a sample of points exactly."""
    n_points = len(cells.points)
    rows = np.sort(rng.choice(n_points, min(SAMPLE, n_points), replace=False))
    lists = exact_rows(cells, half, rows, width, team)
    return Truth(rows, lists.index.astype(np.int64), lists.score)


def needed_reach(
    cells: Cells, lists: Lists, radius: FloatArray, near_keys: IntArray, truth: Truth
) -> FloatArray:
    """Return the reach from which each true neighbour is found, shape (n_sampled, width)."""
    home = cells.home
    a, b = np.broadcast_arrays(home[truth.rows][:, None], home[truth.index])
    needed = np.full(a.shape, -np.inf)
    # A neighbour no nearer than the k-th one already found in the own cell (equal points) is not missed.
    i, j = np.nonzero((a != b) & (truth.score < lists.top[truth.rows][:, None]))
    a, b = a[i, j].astype(np.int64), b[i, j].astype(np.int64)
    between = cells.centers[b] - cells.centers[a]
    step = between + cells.points[truth.index[i, j]] - cells.points[truth.rows[i]]
    length = np.sqrt(np.einsum("ij,ij->i", between, between))
    gap = np.einsum("ij,ij->i", step, between) / np.maximum(length, 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(gap <= 0, -np.inf, gap / np.maximum(radius[a], radius[b]))
    key = a * len(cells) + b
    listed = near_keys[np.minimum(np.searchsorted(near_keys, key), len(near_keys) - 1)] == key
    needed[i, j] = np.where(
        listed, ratio, np.nan
    )  # NaN: in a cell that is not looked at, however far we reach
    return needed


def choose_reach(needed: FloatArray, recall: float) -> tuple[float, float, bool]:
    """Return the least reach that keeps ``recall``, its estimated recall, and whether the promise holds."""
    found = (needed[:, :, None] <= REACHES).mean(axis=1)
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(len(found))
    kept = np.minimum(mean - CAUTION * error, 1.0) >= recall - 1e-9  # sums of rounded shares
    at = int(np.argmax(kept)) if kept.any() else len(REACHES) - 1
    return float(REACHES[at]), float(mean[at]), bool(kept.any())
