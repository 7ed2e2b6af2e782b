"""How far to reach: the least reach that keeps the promised recall, from sampled points.

For sampled points the true neighbours are found in float64 from the data as given. From which reach on the sweep
lets a true neighbour m of q, in another cell than q, meet it is known (see kernels/joins.py). So the recall of
every reach is known at once, and no search is repeated. The lists returned at the end are held
against the same truth, so that nothing the search does to the data in between can hide a loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.neighbors.cells import Cells, Near, rounding_of
from steep.neighbors.exact import Bounds, exact_rows
from steep.neighbors.frame import SLACK, best_of, certain_scores
from steep.neighbors.kernels.complete import complete_some
from steep.neighbors.kernels.joins import meeting_gaps
from steep.neighbors.lists import Join, Lists, empty_lists
from steep.neighbors.query import lengths_to

LEAST_SAMPLE, SAMPLE, LEAST_WIDE_SAMPLE = 400, 900, 256  # points searched exactly
CAUTION = 2.0  # standard errors by which the estimate must exceed the promise
FORESIGHT = 2.3  # the same when the reach is chosen: the least of many that pass is lucky
LEAST = 1e-6
REACHES = np.concatenate([np.linspace(0.0, 1.0, 101), [1.25, 1.5, 2.0, 4.0, 8.0, np.inf]])


@dataclass(frozen=True)
class Truth:
    """Exact neighbours of sampled points, as rows of the data, and their distances in float64."""

    rows: IntArray
    indices: IntArray
    distances: FloatArray


@dataclass(frozen=True)
class Estimate:
    """A recall estimated on sampled points, and whether it keeps the promise with due caution."""

    recall: float
    kept: bool


def exact_sample(job: Join, size: int, rng: np.random.Generator, bounds: Bounds | None = None) -> Truth:
    """Search a sample of points exactly."""
    rows = np.sort(rng.choice(len(job.X), min(size, len(job.X)), replace=False))
    distances, indices = exact_rows(job, rows, bounds)
    return Truth(rows, indices, distances)


def exact_sample_by_cells(job: Join, cells: Cells, near: Near, size: int, rng: np.random.Generator) -> Truth:
    """:func:`exact_sample` where every two cells are near each other: most of them are too far to be looked at.

    Cells are in float32. What they find is measured in float64, and where that does not prove that no one is
    missing, the point is compared with all others.
    """
    (X, frame, width, *_), rows = job, np.sort(rng.choice(len(job.X), min(size, len(job.X)), replace=False))
    place = np.empty(len(X), np.int64)
    place[cells.order] = np.arange(len(X))
    lists, longest = empty_lists(len(rows), width + SLACK), np.zeros(len(rows), np.float32)
    at = place[rows]
    by_cell = np.argsort(at)  # positions are cell by cell
    complete_some(cells, near, cells.sizes, np.float32(rounding_of(cells)), at[by_cell], by_cell, lists.best, longest)
    lengths = np.sqrt(2.0 * cells.half[at].astype(np.float64)) + longest
    certain = certain_scores(lists.top, lengths, X.shape[1])
    vacant = lists.index >= len(X)
    found = np.sort(cells.order[np.where(vacant, 0, lists.index)], axis=1)
    distances, indices = best_of(lengths_to(X, X[rows], found), found, width)
    with np.errstate(over="ignore"):
        reached = 0.5 * np.square(distances[:, -1]) * (1 + 1e-6)
    unsure = np.flatnonzero(~(reached < certain) | vacant.any(axis=1) | frame.is_far(X[rows]))
    if len(unsure):
        distances[unsure], indices[unsure] = exact_rows(job, rows[unsure])
    return Truth(rows, indices, distances)


def sample_size(recall: float, *, wide: bool = False) -> int:
    """Return how many points tell a recall well enough: its error grows with recall × (1 − recall).

    Near 1 the error must be small compared with the misses allowed, too. For wide data only
    as many are taken as that asks for: a sampled point costs more than the surer estimate saves.
    """
    for_misses = 3.6 / max(1 - recall, 1e-9)
    if wide:
        return int(np.clip(for_misses, LEAST_WIDE_SAMPLE, SAMPLE))
    return int(np.clip(max(18_000 * recall * (1 - recall), for_misses), LEAST_SAMPLE, SAMPLE))


def needed_reach(
    cells: Cells, lists: Lists, radius: FloatArray, near_keys: IntArray, truth: Truth, scores: FloatArray
) -> FloatArray:
    """Return the reach from which each true neighbour is found, shape (n_sampled, width).

    ``scores`` are those of the truth, in the cells' coordinates; infinite where the lists cannot keep it.
    """
    home, place = cells.home, np.empty(len(cells.order), np.int32)
    place[cells.order] = np.arange(len(place), dtype=np.int32)
    rows, index = place[truth.rows], place[truth.indices]
    a, b = np.broadcast_arrays(home[rows][:, None], home[index])
    needed = np.full(a.shape, -np.inf)
    # A neighbour no nearer than the k-th one already found in the own cell (equal points) is not missed.
    i, j = np.nonzero((a != b) & ((scores < lists.top[rows][:, None]) | (scores == np.inf)))
    together = np.argsort(np.minimum(a[i, j], b[i, j]).astype(np.int64) * cells.n_cells + np.maximum(a[i, j], b[i, j]))
    i, j = i[together], j[together]
    a, b = a[i, j].astype(np.int64), b[i, j].astype(np.int64)
    gap = np.empty(len(a), np.float64)
    meeting_gaps(cells, a, b, rows[i], index[i, j], gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(gap <= 0, 0.0, gap / np.maximum(radius[a], radius[b]))
    ratio = np.maximum(ratio, LEAST)  # with no reach at all no two cells meet
    key = a * cells.n_cells + b
    listed = near_keys[np.minimum(np.searchsorted(near_keys, key), len(near_keys) - 1)] == key
    needed[i, j] = np.where(listed, ratio, np.nan)  # NaN: not looked at, however far we reach
    needed[scores == np.inf] = np.nan
    return needed


def choose_reach(needed: FloatArray, recall: float) -> tuple[float, Estimate]:
    """Return the least reach that keeps ``recall``, to a thousandth, and its estimate."""
    reach, estimate = _least_reach(needed, recall, REACHES)
    if 0 < reach <= 1:
        reach, estimate = _least_reach(needed, recall, reach - np.arange(9, -1, -1) / 1000)
    return reach, estimate


def _least_reach(needed: FloatArray, recall: float, reaches: FloatArray) -> tuple[float, Estimate]:
    found = (needed[:, :, None] <= reaches).mean(axis=1)
    kept = _is_kept(found, recall, FORESIGHT)
    at = int(np.argmax(kept)) if kept.any() else len(reaches) - 1
    return float(reaches[at]), Estimate(float(found[:, at].mean()), bool(kept.any()))


def check_promise(truth: Truth, distances: FloatArray, recall: float) -> Estimate:
    """Hold the distances of the lists returned against the truth; an equally near point is not a miss."""
    found = (distances <= truth.distances[:, -1:] * (1 + 3e-7)).mean(axis=1)[:, None]
    return Estimate(float(found.mean()), bool(_is_kept(found, recall, CAUTION)[0]))


def _is_kept(found: FloatArray, recall: float, caution: float) -> FloatArray:
    """Return for each column whether the shares found, by sampled point, keep ``recall`` with due caution.

    Misses are rare and gather on few points: a sample that by luck has seen too few of them also thinks its error
    small. So the error is the one the sample would have if the promise were just kept, as in a score test.
    """
    mean = found.mean(axis=0)
    inflated = recall * (1 - recall) / np.maximum(mean * (1 - mean), 1e-12)
    error = found.std(axis=0) * np.sqrt(np.maximum(inflated, 1) / len(found))
    return np.asarray(mean - caution * error >= recall - 1e-9)  # sums of rounded shares
