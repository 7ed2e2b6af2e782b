"""What float32 cannot decide is decided in float64, from the data as given.

Engines shortlist by float32 products and say below which score no point can be missing (distances.py). Where
the shortlist reaches farther than that (many equal points, tight clusters far apart) the point is compared
with all others, measuring only those that float32 cannot rule out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray
from steep.neighbors.distances import vanished
from steep.neighbors.frame import CHUNK, Float32Array, half_norms
from steep.neighbors.kernels.compare import Block, Found, Rounding, compare, nearest_scores, prove, scan_rows
from steep.neighbors.lists import NO_POINT, Join, Lists, batches, empty_lists
from steep.neighbors.query import nearest_of

ROWS = 1_024  # compared with all at a time: this many make placing the others in the frame cheap
PILOT = 8  # rows on which is counted what bounds leave to be measured
LEFT = 0.02  # share of all points at which bounds spare nothing


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
    """Return the scores of distances that are longer by ``slack``."""
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
