"""Exact self-join: by cells where they spare most of the work, else by tiles of products.

1. Cut the data into cells and join each with itself, as the approximate engine does (partitioned.py).
2. Count on sampled cells how many pairs of points could still be neighbours: those within the k-th
   distance so far along the line of their cells' centres. If that is a large share, as in high
   dimension without structure, the tiles are quicker: cells of 1,024 points in the order given, all of which meet.
3. Sweep nearby cells, which brings the lists close to the truth, then complete every list.
4. Prove the lists in float64.

Lists hold a few more neighbours than wanted, by float32 scores. Below which score no point can be missing is known
(frame.py). If a list reaches farther than that (many equal points, tight clusters far apart) the point is compared with
all others, measuring in float64 those that float32 cannot rule out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._progress import Stopwatch
from steep._validation import FloatArray, IntArray
from steep.neighbors.cells import Cells, Near, cut, join_cells, join_pairs, near_cells, radius_of, rounding_of, sweep
from steep.neighbors.frame import CHUNK, SLACK, Float32Array, as_float32, certain_scores, half_norms, vanished
from steep.neighbors.kernels.compare import Block, Found, Rounding, compare, nearest_scores, rank, scan_rows
from steep.neighbors.kernels.complete import complete, count_left
from steep.neighbors.lists import NO_POINT, Join, Lists, Team, batches, empty_lists
from steep.neighbors.query import nearest_others

TILE = 1_024  # points per tile
CELL = 400  # points per cell
MOST_CELLS = 8_000  # every cell is measured against every other
WORTHWHILE = 8_000  # points below which tiles are done before the cells are cut
LARGE_SHARE = 0.15  # of all pairs: looking at this many one by one takes as long as all of them in tiles
SAMPLE = 8  # cells on which that share is estimated
REACH = 0.4  # of the sweep; any is right, this one is quick

ROWS = 1_024  # compared with all at a time: this many make placing the others in the frame cheap
BOUNDED_ROWS = 128  # the same in few coordinates, where nothing is placed
PILOT = 8  # rows on which is counted what bounds leave to be measured
LEFT = 0.02  # share of all points at which bounds spare nothing


def join_exact(job: Join) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Return distances and indices of the nearest others of each point, exactly."""
    X, frame, n_others, _, team = job
    width = n_others + SLACK
    cell_size = max(CELL, 4 * width, len(X) // MOST_CELLS)
    if len(X) < max(WORTHWHILE, 4 * cell_size):
        return join_tiles(job)
    watch = Stopwatch()
    # The seed decides how long it takes, never what is found.
    rng = np.random.default_rng(0)
    cells = cut(X, frame, cell_size, rng, team)
    lists = empty_lists(len(X), width)
    join_cells(cells, lists, team)
    looked_at, of = count_left(cells, lists.top, rng.choice(cells.n_cells, min(SAMPLE, cells.n_cells), replace=False))
    if looked_at > LARGE_SHARE * of:
        del cells, lists
        return join_tiles(job)
    watch.lap("within cells")
    near = near_cells(cells, cells.n_cells - 1, team)
    # The farthest that any point of each cell may look along a centre line.
    reach = np.sqrt(2.0 * np.maximum.reduceat(lists.top, cells.start[:-1]).astype(np.float64))
    swept = sweep(cells, near, REACH, radius_of(cells, lists), lists, team)
    watch.lap("across cells")
    arguments = cells, near, cells.sizes, swept, np.float32(rounding_of(cells))
    team.each(partial(_complete, arguments, lists, team), batches(cells.n_cells, 20))
    del arguments
    watch.lap("complete")
    order, certain = cells.order, _certain(cells, near, reach, lists)
    certain[frame.is_far(X)[order]] = -np.inf
    del cells, near, swept
    distances, indices = proven(job, order, lists, certain)
    watch.lap("proof")
    return distances, indices, {"seconds": watch.seconds}


def join_tiles(job: Join) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """:func:`join_exact` where cells spare nothing."""
    X, frame, n_others, _, team = job
    watch, n_points, width = Stopwatch(), len(X), min(n_others + SLACK, len(X) - 1)
    points, extra = frame.place_float32(X), np.zeros(n_points, np.float32)
    start = np.append(np.arange(0, n_points, TILE), n_points)
    n_tiles = len(start) - 1
    order, centers = np.arange(n_points, dtype=np.int32), np.zeros((n_tiles, X.shape[1]))
    tiles, lists = Cells(points, half_norms(points), extra, order, start, centers), empty_lists(n_points, width)
    join_cells(tiles, lists, team)
    pairs = np.column_stack(np.triu_indices(n_tiles, 1))
    join_pairs(tiles, pairs, np.full(len(pairs), np.inf, np.float32), lists, team, at_once=16)
    watch.lap("tiles")
    certain = certain_scores(lists.top, np.sqrt(2.0 * tiles.half.astype(np.float64)), X.shape[1])
    certain[frame.is_far(X)] = -np.inf
    if width == n_points - 1:  # every point is on the list
        certain[:] = np.inf
    del tiles, points
    distances, indices = proven(job, order, lists, certain)
    watch.lap("proof")
    return distances, indices, {"seconds": watch.seconds}


def _complete(arguments: Any, lists: Lists, team: Team, some: IntArray) -> None:
    complete(*arguments, some, lists.best, team.stop)


def _certain(cells: Cells, near: Near, reach: FloatArray, lists: Lists) -> FloatArray:
    """Return the score below which no point is missing from each list.

    Two points meet about the centre of one of their cells or between the two: no farther from a point
    than its own centre and the longest way from there to a cell it met.
    """
    size, owner = cells.sizes.astype(np.float64), near.owner
    doubt = rounding_of(cells) * (near.length + size[owner] + size[near.cell])
    met = near.gap <= 1.01 * np.maximum(reach[owner], reach[near.cell]) + doubt
    longest = np.maximum.reduceat(np.where(met, near.length, 0), near.start[:-1]).astype(np.float64)
    lengths = np.sqrt(2.0 * cells.half.astype(np.float64)) + longest[cells.home]
    return certain_scores(lists.top, lengths, cells.points.shape[1])


@dataclass(frozen=True)
class Bounds:
    """Coordinates in which no two points are farther apart than in all, but for ``slack`` by rounding."""

    points: Float32Array
    slack: float


def proven(job: Join, order: npt.NDArray[np.int32], lists: Lists, certain: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the best of lists of positions, in the caller's order, ``order[position]`` being the row.

    No point missing from the list at a position has a score below ``certain`` there, in the frame. Lists that this
    does not prove are replaced by exact neighbours.
    """
    X, n_others, n_points = job.X, job.n_others, len(job.X)
    unsure = np.zeros(n_points, dtype=np.bool_)
    best = lists if lists.index.shape[1] == n_others else empty_lists(n_points, n_others)

    def work(first: int) -> None:
        last = min(first + 5_000, n_points)
        rank(X, order, lists.index, certain, best.best, unsure, first, last)

    job.team.each(work, range(0, n_points, 5_000))
    distances, indices = best.in_rows_of(order, job.include_self)
    rows = np.flatnonzero(unsure)
    if len(rows):
        exact, indices[rows, -n_others:] = exact_rows(job, rows)
        distances[rows, -n_others:] = as_float32(exact)
    return distances, indices


def exact_rows(job: Join, rows: IntArray, bounds: Bounds | None = None) -> tuple[FloatArray, IntArray]:
    """Return ranked float64 distances and indices of the nearest others of some rows, sorted.

    With ``bounds`` what is too far in a few coordinates is not measured in all, unless that spares nothing.
    """
    X, frame, width, _, team = job
    scores = np.full((len(rows), width), np.inf)
    indices = np.full((len(rows), width), NO_POINT, np.int32)
    limit, far = np.full(len(rows), np.inf), frame.is_far(X[rows])
    near = np.flatnonzero(~far)

    def parts(size: int) -> list[IntArray]:
        return np.array_split(near, max(1, -(-len(near) // size), min(team.n_threads, len(near))))

    if bounds is not None:
        half, known = half_norms(bounds.points), bounds

        def foresee(part: IntArray) -> None:
            limit[part] = _limits(job, rows[part], known, half)

        team.each(foresee, parts(BOUNDED_ROWS))
        some = bounds.points[rows[:PILOT]]
        reached = half_norms(some)[:, None] + half - some @ bounds.points.T
        widened = 0.5 * np.square(np.sqrt(2 * limit[:PILOT]) + bounds.slack)
        if (reached <= widened[:, None]).mean() > LEFT:
            bounds = None
            limit[:] = np.inf

    def look(part: IntArray) -> None:
        scores[part], indices[part] = _compare(job, rows[part], bounds, limit[part])

    team.each(look, parts(ROWS if bounds is None else BOUNDED_ROWS))
    scores[far], indices[far] = nearest_others(X, rows[far], width) if far.any() else (np.inf, NO_POINT)
    return scores, indices


def _limits(job: Join, rows: IntArray, bounds: Bounds, half: Float32Array) -> FloatArray:
    """Return a score that the last neighbour of each row does not exceed: that of the nearest by bounds."""
    X, width = job.X, job.n_others
    lists, mine = empty_lists(len(rows), 2 * width), bounds.points[rows]
    for first in range(0, len(X), CHUNK // 2):
        others = np.arange(first, min(first + CHUNK // 2, len(X)))
        products = mine @ bounds.points[others[0] : others[-1] + 1].T
        scan_rows(products, rows, half[rows], others, half[first:], lists.best)
    return np.asarray(nearest_scores(X, rows, lists.index, width))


def _compare(job: Join, rows: IntArray, bounds: Bounds | None, limit: FloatArray) -> tuple[FloatArray, IntArray]:
    """Compare some rows with all, a block of them at a time; in few coordinates where ``bounds`` are given."""
    X, frame, width, _, team = job
    found = Found(np.full((len(rows), width), np.inf), np.full((len(rows), width), NO_POINT, np.int32), limit)
    points = frame.place_float32(X, rows) if bounds is None else bounds.points[rows]
    mine = Block(0, points, half_norms(points))
    n_features, slack = points.shape[1], 0.0 if bounds is None else bounds.slack
    rounding = Rounding(4 * (n_features + 8) * 2.0**-24, vanished(n_features), slack)
    for first in range(0, len(X), CHUNK // 8):
        part = slice(first, first + CHUNK // 8)
        points = frame.place_float32(X, part) if bounds is None else bounds.points[part]
        compare(X, rows, mine, Block(first, points, half_norms(points)), rounding, found, team.stop)
    return found.score, found.index
