"""Approximate self-join of large data: points in cells, nearby cells swept along their centre line.

0. Wide data are searched in a few coordinates, where those promise as much for less (narrow.py), and what is
   found there is measured in all.
1. Cut the data into cells and join each cell with itself (cells.py).
2. The mean distance of the k-th neighbour found so far is the cell's radius.
3. For cells near each other look at the pairs of points within reach × radius of each other along the
   line of their centres; the reach follows from the recall promised (recall.py).
4. Hold the result against the truth of sampled points. If the promise is broken, search exactly if that
   takes no more than a minute, else say so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steep._progress import Stopwatch
from steep._validation import FloatArray, IntArray
from steep.exceptions import warn_user
from steep.neighbors.cells import Cells, Near, cut, join_cells, near_cells, radius_of, sweep
from steep.neighbors.exact import join_exact, proven
from steep.neighbors.frame import Frame, ranked
from steep.neighbors.lists import Join, Lists, empty_lists
from steep.neighbors.narrow import MOST_AXES, Narrow, leading_view, narrow_view
from steep.neighbors.query import lengths_to
from steep.neighbors.recall import (
    Estimate,
    Truth,
    check_promise,
    choose_reach,
    exact_sample,
    exact_sample_by_cells,
    needed_reach,
    sample_size,
)

CELL = 600  # points per cell: fewer make more pairs of cells, more make longer joins within
NEAR = 200  # cells looked at around a cell, as many as meet it; four times as many when the recall asks for it
NEAR_MOST = 1024
AFFORDABLE = 1e12  # pairs × features of an exact search: about a minute
FEW_FAR = 1e10  # the same for far points, which NumPy compares with all


def join_partitioned(job: Join, recall: float, rng: np.random.Generator) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Return distances and indices of the neighbours, and what was done."""
    watch, (X, frame, n_others, _, team) = Stopwatch(), job
    leading = leading_view(X, frame, min(MOST_AXES, X.shape[1] // 2), rng, team)
    watch.lap("leading")
    view, truth = None, None
    if leading is not None:
        truth = exact_sample(job, sample_size(recall, wide=True), rng, leading.bounds(frame))
        watch.lap("sample")
        view = narrow_view(leading, truth, recall)
        watch.lap("narrow")
    del leading
    begun = _begin(job, recall, rng, view, truth, watch)
    if view is not None and not begun[-1].kept:  # a few coordinates promised more than they hold
        view = None
        begun = _begin(job, recall, rng, None, truth, watch)
    cells, lists, radius, near, truth, reach, estimate = begun
    del begun
    affordable = X.size * len(X) <= AFFORDABLE
    if not estimate.kept and affordable:
        del cells, lists, near
        return _exactly(job, watch)
    swept = sweep(cells, near, reach, radius, lists, team)
    done = {"n_estimated": len(truth.rows), "n_coordinates": cells.points.shape[1]}
    watch.lap("across cells")
    order, certain = cells.order, np.full(len(X), np.inf)
    far = frame.is_far(X)
    if far.sum() * X.size <= FEW_FAR:
        certain[far[order]] = -np.inf
    del cells, near, swept  # no longer needed; the memory is, for the copies of the lists
    distances, indices = proven(job, order, lists, certain)
    watch.lap("sort")
    found = distances[truth.rows, -n_others:]
    if not frame.is_plain:  # float32 may not hold them
        found = ranked(lengths_to(X, X[truth.rows], indices[truth.rows, -n_others:]))
    estimate = check_promise(truth, found, recall)
    if not estimate.kept and affordable:
        return _exactly(job, watch)
    if not estimate.kept:
        warn_user(
            f"recall={recall:g} is out of reach of the partitioned search, estimated {estimate.recall:.3f}; "
            "use recall=1 to find all"
        )
    return distances, indices, {**done, "estimated_recall": estimate.recall, "seconds": watch.seconds}


def _exactly(job: Join, watch: Stopwatch) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Search exactly, where the promise could not be kept otherwise."""
    distances, indices, done = join_exact(job)
    return distances, indices, {"algorithm": "exact", "seconds": watch.seconds | done["seconds"]}


def _begin(
    job: Join, recall: float, rng: np.random.Generator, view: Narrow | None, truth: Truth | None, watch: Stopwatch
) -> tuple[Cells, Lists, FloatArray, Near, Truth, float, Estimate]:
    """Cut the cells, join each with itself, and plan how far to reach from there."""
    X, frame, n_others, _, team = job
    width = n_others if view is None else view.width
    cell_size = max(CELL, 4 * width)
    if view is None:
        cells = cut(X, frame, cell_size, rng, team)
    else:
        cells = cut(view.points, Frame.of(view.points), cell_size, rng, team, view.extra)
    watch.lap("partition")
    lists = empty_lists(len(X), width)
    join_cells(cells, lists, team)
    radius = radius_of(cells, lists)
    watch.lap("within cells")
    near = near_cells(cells, min(NEAR, cells.n_cells - 1), team)
    watch.lap("near cells")
    if truth is None:
        size = sample_size(recall)
        if len(near.cell) == cells.n_cells * (cells.n_cells - 1):  # all are listed
            truth = exact_sample_by_cells(job, cells, near, size, rng)
        else:
            truth = exact_sample(job, size, rng)
        watch.lap("sample")
    n_near, scores = NEAR, 0.5 * np.square(truth.distances)
    if view is not None:  # what too many come before is not found
        scores = np.where(view.ranks > view.width, np.inf, -np.inf)
    while True:
        reach, estimate = choose_reach(needed_reach(cells, lists, radius, near.keys, truth, scores), recall)
        if estimate.kept or n_near >= min(NEAR_MOST, cells.n_cells - 1):
            break
        n_near *= 4
        near = near_cells(cells, min(n_near, cells.n_cells - 1), team)
    watch.lap("recall estimate")
    return cells, lists, radius, near, truth, reach, estimate
