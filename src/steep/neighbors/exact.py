"""Exact self-join: by cells where they spare most of the work, else by tiles of products.

1. Cut the data into cells and join each with itself, as the approximate engine does (partitioned.py).
2. Count on sampled cells how many pairs of points could still be neighbours: those within the k-th
   distance so far along the line of their cells' centres. If that is a large share, as in high
   dimension without structure, the tiles are quicker: cells of 1,024 points in the order given, all of which meet.
3. Sweep nearby cells, which brings the lists close to the truth, then complete every list.
4. Prove the lists in float64.

Lists hold a few more neighbours than wanted, by float32 scores.

**What float32 cannot decide is decided in float64**, from the data as given.
Engines shortlist by float32 products and say below which score no point can be missing (frame.py). Where
the shortlist reaches farther than that (many equal points, tight clusters far apart) the point is compared
with all others, measuring only those that float32 cannot rule out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._progress import Stopwatch
from steep._validation import FloatArray, IntArray
from steep.neighbors.cells import Cells, Near, cut, join_cells, join_pairs, near_cells, radius_of, rounding_of, sweep
from steep.neighbors.frame import CHUNK, SLACK, Float32Array, certain_scores, half_norms, vanished
from steep.neighbors.kernels.compare import Block, Found, Rounding, compare, nearest_scores, prove, scan_rows
from steep.neighbors.kernels.complete import complete, count_left
from steep.neighbors.lists import NO_POINT, Join, Lists, Team, batches, empty_lists
from steep.neighbors.query import nearest_of

TILE = 1_024  # points per tile
CELL = 400  # points per cell
MOST_CELLS = 8_000  # every cell is measured against every other
WORTHWHILE = 8_000  # points below which tiles are done before the cells are cut
LARGE_SHARE = 0.15  # of all pairs: looking at this many one by one takes as long as all of them in tiles
SAMPLE = 8  # cells on which that share is estimated
REACH = 0.4  # of the sweep; any is right, this one is quick

ROWS = 1_024  # compared with all at a time: this many make placing the others in the frame cheap
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
    if _share_left(cells, lists) > LARGE_SHARE:
        del cells, lists
        return join_tiles(job)
    watch.lap("within cells")
    near, reach = near_cells(cells, cells.n_cells - 1, team), _reach(cells, lists)
    swept = sweep(cells, near, REACH, radius_of(cells, lists), lists, team)
    watch.lap("across cells")
    _complete(cells, near, swept, lists, team)
    watch.lap("complete")
    lists, certain = _in_order(cells, lists, _certain(cells, near, reach, lists))
    del cells, near, swept
    distances, indices = proven(job, lists, certain)
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
    if width == n_points - 1:  # every point is on the list
        certain = np.full(n_points, np.inf)
    else:
        certain = certain_scores(lists.top, np.sqrt(2.0 * tiles.half.astype(np.float64)), X.shape[1], 24)
    del tiles, points
    distances, indices = proven(job, lists, certain)
    watch.lap("proof")
    return distances, indices, {"seconds": watch.seconds}


def _share_left(cells: Cells, lists: Lists) -> float:
    """Estimate which share of all pairs of points completing the lists would look at."""
    some = np.random.default_rng(0).choice(cells.n_cells, min(SAMPLE, cells.n_cells), replace=False)
    looked_at, of = count_left(cells, lists.top, some)
    return float(looked_at / of)


def _reach(cells: Cells, lists: Lists) -> FloatArray:
    """Return the farthest that any point of each cell may look along a centre line."""
    return np.sqrt(2.0 * np.maximum.reduceat(lists.top, cells.start[:-1]).astype(np.float64))


def _complete(cells: Cells, near: Near, swept: Float32Array, lists: Lists, team: Team) -> None:
    size, rounding = cells.sizes, np.float32(rounding_of(cells))

    def work(some: IntArray) -> None:
        complete(cells, near, size, swept, rounding, some, lists.best, team.stop)

    team.each(work, batches(cells.n_cells, 20))


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
    return certain_scores(lists.top, lengths, cells.points.shape[1], 24)


def _in_order(cells: Cells, lists: Lists, certain: FloatArray) -> tuple[Lists, FloatArray]:
    back = np.empty_like(cells.order)
    back[cells.order] = np.arange(len(back), dtype=back.dtype)
    n_points = len(back)
    index = np.append(cells.order, np.int32(NO_POINT))[np.minimum(lists.index, n_points)]
    return Lists(lists.score[back], index[back], lists.top[back]), certain[back]


@dataclass(frozen=True)
class Bounds:
    """Coordinates in which no two points are farther apart than in all, but for ``slack`` by rounding."""

    points: Float32Array
    slack: float


def proven(job: Join, lists: Lists, certain: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the best of shortlists; no point missing from list q has a score below ``certain[q]`` in the frame."""
    (X, frame, n_others, _, team), n_points = job, len(job.X)
    out = empty_lists(n_points, n_others)
    unsure = np.zeros(n_points, dtype=np.bool_)
    certain[frame.is_far(X)] = -np.inf
    team.each(lambda rows: prove(X, lists.index, certain, out.score, out.index, unsure, rows), batches(n_points, 5_000))
    return settled(job, unsure, *out.in_rows_of(np.arange(n_points, dtype=np.int32), job.include_self))


def settled(
    job: Join, unsure: npt.NDArray[np.bool_], distances: FloatArray, indices: IntArray
) -> tuple[FloatArray, IntArray]:
    """Return a graph in which the lists of some rows are replaced by their exact neighbours."""
    rows = np.flatnonzero(unsure)
    if len(rows):
        exact, indices[rows, -job.n_others :] = exact_rows(job, rows)
        distances[rows, -job.n_others :] = np.minimum(exact, np.finfo(np.float32).max)
    return distances, indices


def exact_rows(job: Join, rows: IntArray) -> tuple[FloatArray, IntArray]:
    """Return ranked float64 distances and indices of the nearest others of some rows, sorted."""
    X, frame, width, _, team = job
    scores = np.full((len(rows), width), np.inf)
    indices = np.full((len(rows), width), NO_POINT, np.int32)
    far = frame.is_far(X[rows])
    near = np.flatnonzero(~far)

    def look(part: IntArray) -> None:
        scores[part], indices[part] = _compare(job, rows[part])

    n_parts = max(1, -(-len(near) // ROWS), min(team.n_threads, len(near)))
    team.each(look, np.array_split(near, n_parts))
    for i in np.flatnonzero(far):
        scores[i], indices[i] = nearest_of(X, rows[i], np.delete(np.arange(len(X)), rows[i]), width)
    return scores, indices


def bounded_rows(job: Join, rows: IntArray, bounds: Bounds) -> tuple[FloatArray, IntArray]:
    """:func:`exact_rows` of wide data: what is too far in a few coordinates is not measured in all."""
    half, width = half_norms(bounds.points), job.n_others
    limit = np.empty(len(rows))

    def foresee(part: IntArray) -> None:
        limit[part] = _limits(job, rows[part], bounds, half)

    parts = np.array_split(np.arange(len(rows)), max(1, -(-len(rows) // 128)))
    job.team.each(foresee, parts)
    few = slice(0, PILOT)
    near = bounds.points[rows[few]]
    scores = half_norms(near)[:, None] + half - near @ bounds.points.T
    if (scores <= _widened(limit[few], bounds.slack)[:, None]).mean() > LEFT:
        return exact_rows(job, rows)
    found = np.full((len(rows), width), np.inf), np.full((len(rows), width), NO_POINT, np.int32)

    def look(part: IntArray) -> None:
        found[0][part], found[1][part] = _compare(job, rows[part], bounds, limit[part])

    job.team.each(look, parts)
    return found


def _widened(limit: FloatArray, slack: float) -> FloatArray:
    return np.asarray(0.5 * np.square(np.sqrt(2 * limit) + slack))


def _limits(job: Join, rows: IntArray, bounds: Bounds, half: Float32Array) -> FloatArray:
    """Return a score that the last neighbour of each row does not exceed: that of the nearest by bounds."""
    X, width = job.X, job.n_others
    lists, mine = empty_lists(len(rows), 2 * width), bounds.points[rows]
    for first in range(0, len(X), CHUNK // 2):
        others = np.arange(first, min(first + CHUNK // 2, len(X)))
        products = mine @ bounds.points[others[0] : others[-1] + 1].T
        scan_rows(products, rows, half[rows], others, half[first:], lists.best)
    return np.asarray(nearest_scores(X, rows, lists.index, width))


def _compare(
    job: Join, rows: IntArray, bounds: Bounds | None = None, limit: FloatArray | None = None
) -> tuple[FloatArray, IntArray]:
    """Compare some rows with all, a block of them at a time; in few coordinates where ``bounds`` are given."""
    X, frame, width, _, team = job
    limit = np.full(len(rows), np.inf) if limit is None else limit
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
