"""How far to reach: the least reach that keeps the promised recall, from sampled points.

For sampled points the true neighbours are found in float64 from the data as given. From which reach on the sweep
lets a true neighbour m of q, in another cell than q, meet it is known (see kernels/sweep.py). So the recall of
every reach is known at once, and no search is repeated. The lists returned at the end are held
against the same truth, so that nothing the search does to the data in between can hide a loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.neighbors.cells import Cells
from steep.neighbors.distances import lengths_between, ranked
from steep.neighbors.frame import Frame
from steep.neighbors.kernels.sweep import meeting_gaps
from steep.neighbors.lists import Lists
from steep.neighbors.proof import exact_rows
from steep.neighbors.threads import Team

SAMPLE = 320  # points searched exactly
CAUTION = 2.0  # standard errors by which the estimate must exceed the promise
FORESIGHT = 2.5  # the same when the reach is chosen: the least of many that pass is lucky
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


def exact_sample(X: FloatArray, frame: Frame, width: int, rng: np.random.Generator, team: Team) -> Truth:
    """Search a sample of points exactly."""
    rows = np.sort(rng.choice(len(X), min(SAMPLE, len(X)), replace=False))
    distances, indices = exact_rows(X, frame, rows, width, team)
    return Truth(rows, indices, distances)


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
    by_cells = np.argsort(np.minimum(a, b)[i, j].astype(np.int64) * len(cells) + np.maximum(a, b)[i, j])
    i, j = i[by_cells], j[by_cells]
    a, b = a[i, j].astype(np.int64), b[i, j].astype(np.int64)
    gap = np.empty(len(a), np.float64)
    meeting_gaps(cells.points, cells.start, cells.centers, a, b, rows[i], index[i, j], gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(gap <= 0, 0.0, gap / np.maximum(radius[a], radius[b]))
    ratio = np.maximum(ratio, LEAST)  # with no reach at all no two cells meet
    key = a * len(cells) + b
    listed = near_keys[np.minimum(np.searchsorted(near_keys, key), len(near_keys) - 1)] == key
    needed[i, j] = np.where(listed, ratio, np.nan)  # NaN: not looked at, however far we reach
    needed[scores == np.inf] = np.nan
    return needed


def choose_reach(needed: FloatArray, recall: float) -> tuple[float, Estimate]:
    """Return the least reach that keeps ``recall``, and its estimate."""
    found = (needed[:, :, None] <= REACHES).mean(axis=1)
    kept = _is_kept(found, recall, FORESIGHT)
    at = int(np.argmax(kept)) if kept.any() else len(REACHES) - 1
    return float(REACHES[at]), Estimate(float(found[:, at].mean()), bool(kept.any()))


def check_promise(X: FloatArray, truth: Truth, indices: IntArray, recall: float) -> Estimate:
    """Hold the lists returned against the truth; an equally near point in the place of another is no miss."""
    distances = ranked(lengths_between(X[truth.rows], X[indices[truth.rows]]))
    found = (distances <= truth.distances[:, -1:] * (1 + 3e-7)).mean(axis=1)[:, None]
    return Estimate(float(found.mean()), bool(_is_kept(found, recall, CAUTION)[0]))


def _is_kept(found: FloatArray, recall: float, caution: float) -> FloatArray:
    """Return for each column whether the shares found, by sampled point, keep ``recall`` with due caution."""
    error = found.std(axis=0) / np.sqrt(len(found))
    return np.asarray(found.mean(axis=0) - caution * error >= recall - 1e-9)  # sums of rounded shares
