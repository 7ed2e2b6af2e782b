"""Approximate self-join of large data: points in cells, nearby cells swept along their centre line.

0. Wide data are searched in a few coordinates, where those promise as much for less (narrow.py), and what is
   found there is measured in all.
1. Cut the data into cells and join each cell with itself (cells.py).
2. The mean distance of the k-th neighbour found so far is the cell's radius.
3. For cells near each other look at the pairs of points within reach × radius of each other along the
   line of their centres; the reach follows from the recall promised (recall.py).
4. Given labels, search on where they vary. Recall misleads there, for misses gather on the points whose
   labels vary most, and the weights of those points are what the graph is for. A point whose neighbours so
   far agree has local variance 0 and hardly anything to gain. So the points that carry nearly all of Σ v²,
   v being the local variance over the neighbours found so far, are searched further, each by its own k-th
   distance; the rule is the same for classes (v = 1 − Σ p²) and for regression (v summed over the outputs). Wide
   data are searched for half the misses instead, which costs less there, and exactly where few points vary.
5. Hold the result against the truth of sampled points. Where the promise is broken, search exactly if that
   takes no more than a minute, else say so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steep._timing import Stopwatch
from steep._validation import FloatArray, IntArray
from steep._warnings import warn_user
from steep.neighbors.cells import Cells, Near, cut, join_cells, near_cells, radius_of, sweep
from steep.neighbors.distances import lengths_between, ranked
from steep.neighbors.exact import join_exact
from steep.neighbors.frame import Float32Array, Frame
from steep.neighbors.kernels.labels import class_spread, value_spread
from steep.neighbors.kernels.probe import list_probes, probe
from steep.neighbors.kernels.proof import finish
from steep.neighbors.lists import Lists, batches, empty_lists
from steep.neighbors.narrow import MOST_AXES, Narrow, leading_view, narrow_view
from steep.neighbors.proof import settle
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
from steep.neighbors.threads import Team

CELL = 600  # points per cell: fewer make more pairs of cells, more make longer joins within
NEAR = 200  # cells looked at around a cell, as many as meet it; four times as many when the recall asks for it
NEAR_MOST = 1024
DEEP = 0.6  # reach, in k-th distances of the point itself, where labels vary: 1 could miss nothing
SHARE = 0.99  # of Σ v² carried by the points searched further
BUDGET = 4.0  # pairs looked at by searching on, over those within the cells: about what the graph has cost
COUNTED = 256  # points on which they are counted
INSTEAD = 2.0  # by which the misses of wide data are divided instead: there searching on has to measure again
SETTLED = 128_000  # points × features, at most, searched exactly where labels of wide data vary
AFFORDABLE = 1e12  # pairs × features of an exact search: about a minute
FEW_FAR = 1e11  # the same for far points


def join_partitioned(
    X: FloatArray,
    frame: Frame,
    n_others: int,
    *,
    recall: float,
    include_self: bool,
    rng: np.random.Generator,
    team: Team,
    labels: Any = None,
) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Return distances and indices of ``n_others`` neighbours, and what was done."""
    watch = Stopwatch()
    X = np.ascontiguousarray(X)
    leading = leading_view(X, frame, min(MOST_AXES, X.shape[1] // 2), rng, team)
    watch.lap("leading")
    view, truth, aim = None, None, recall
    if leading is not None:
        aim = recall if labels is None else 1 - (1 - recall) / INSTEAD
        bounds = leading.bounds(frame)
        truth = exact_sample(X, frame, n_others, rng, team, size=sample_size(aim, wide=True), bounds=bounds)
        del bounds
        watch.lap("sample")
        view = narrow_view(leading, truth, aim)
        aim = recall if view is None else aim  # in all coordinates it is searched on where labels vary
        watch.lap("narrow")
    del leading
    begun = _begin(X, frame, view, truth, n_others, aim, rng, team, watch)
    if view is not None and not begun[-1].kept:  # a few coordinates promised more than they hold
        view = None
        begun = _begin(X, frame, None, truth, n_others, recall, rng, team, watch)
    cells, lists, radius, near, truth, reach, estimate = begun
    del begun
    affordable = X.size * len(X) <= AFFORDABLE
    if not estimate.kept and affordable:
        del cells, lists, near
        return _exactly(X, frame, n_others, include_self, team, watch)
    swept = sweep(cells, near, reach, radius, lists, team)
    done = {
        "n_probes": float(1 + np.isfinite(swept).sum() / len(cells)),
        "reach": reach,
        "n_estimated": len(truth.rows),
        "n_coordinates": cells.points.shape[1],
        "n_candidates": lists.index.shape[1],
    }
    watch.lap("across cells")
    if labels is not None and view is None:
        _search_on(cells, near, swept, local_spread(lists.index, labels[cells.order]), lists, team)
        watch.lap("where labels vary")
    distances, indices = _finish(X, frame, cells, lists, n_others, include_self, team)
    watch.lap("sort")
    if labels is not None and view is not None:
        _settle_few(X, frame, labels, distances[:, -n_others:], indices[:, -n_others:], team)
        watch.lap("where labels vary")
    found = distances[truth.rows, -n_others:]
    if not frame.is_plain:  # float32 may not hold them
        found = ranked(lengths_between(X[truth.rows], X[indices[truth.rows, -n_others:]]))
    estimate = check_promise(truth, found, recall)
    if not estimate.kept and affordable:
        return _exactly(X, frame, n_others, include_self, team, watch)
    if not estimate.kept:
        warn_user(
            f"recall={recall:g} is out of reach of the partitioned search, estimated {estimate.recall:.3f}; "
            "use algorithm='exact' to be sure"
        )
    return distances, indices, {**done, "estimated_recall": estimate.recall, "seconds": watch.seconds}


def _exactly(
    X: FloatArray, frame: Frame, n_others: int, include_self: bool, team: Team, watch: Stopwatch
) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Search exactly, where the promise could not be kept otherwise."""
    distances, indices, done = join_exact(X, frame, n_others, include_self=include_self, team=team)
    return distances, indices, {"algorithm": "exact", "seconds": watch.seconds | done["seconds"]}


def _begin(
    X: FloatArray,
    frame: Frame,
    view: Narrow | None,
    truth: Truth | None,
    n_others: int,
    recall: float,
    rng: np.random.Generator,
    team: Team,
    watch: Stopwatch,
) -> tuple[Cells, Lists, FloatArray, Near, Truth, float, Estimate]:
    """Cut the cells, join each with itself, and plan how far to reach from there."""
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
    near = near_cells(cells, min(NEAR, len(cells) - 1), team)
    watch.lap("near cells")
    if truth is None:
        truth = _sample(X, frame, cells, near, n_others, recall, rng, team)
        watch.lap("sample")
    near, reach, estimate = _plan(cells, lists, radius, near, truth, _scores(truth, frame, view), recall, team)
    watch.lap("recall estimate")
    return cells, lists, radius, near, truth, reach, estimate


def _sample(
    X: FloatArray,
    frame: Frame,
    cells: Cells,
    near: Near,
    n_others: int,
    recall: float,
    rng: np.random.Generator,
    team: Team,
) -> Truth:
    """Search sampled points exactly, through the cells where all of them are listed."""
    size = sample_size(recall)
    if len(near.cell) == len(cells) * (len(cells) - 1):
        return exact_sample_by_cells(X, frame, cells, near, n_others, rng, team, size)
    return exact_sample(X, frame, n_others, rng, team, size=size)


def _scores(truth: Truth, frame: Frame, view: Narrow | None) -> FloatArray:
    """Return the scores of the true neighbours; in few coordinates infinite where too many come before them."""
    if view is not None:
        return np.where(view.ranks > view.width, np.inf, -np.inf)
    with np.errstate(over="ignore"):
        return np.asarray(0.5 * np.square(np.minimum(truth.distances * frame.unit, 1e150)))


def _plan(
    cells: Cells,
    lists: Lists,
    radius: FloatArray,
    near: Near,
    truth: Truth,
    scores: FloatArray,
    recall: float,
    team: Team,
) -> tuple[Near, float, Estimate]:
    """Return the cells to look at around each cell, and how far to reach into them."""
    n_near = NEAR
    while True:
        reach, estimate = choose_reach(needed_reach(cells, lists, radius, near.keys, truth, scores), recall)
        if estimate.kept or n_near >= min(NEAR_MOST, len(cells) - 1):
            return near, reach, estimate
        n_near *= 4
        near = near_cells(cells, min(n_near, len(cells) - 1), team)


def _finish(
    X: FloatArray, frame: Frame, cells: Cells, lists: Lists, n_others: int, include_self: bool, team: Team
) -> tuple[FloatArray, IntArray]:
    """Sort each list, bring the lists back into the caller's order, search exactly what has found too few."""
    unsure = np.zeros(len(X), dtype=np.bool_)
    best = lists if lists.index.shape[1] == n_others else empty_lists(len(X), n_others)

    def work(first: int) -> None:
        last = min(first + 20_000, len(X))
        finish(X, cells.order, lists.index, best.score, best.index, unsure, first, last)

    cells.points = np.empty((0, 0), np.float32)  # no longer needed; the memory is, for the copies
    team.each(work, range(0, len(X), 20_000))
    distances, indices = best.in_rows_of(cells.order, include_self)
    far = frame.is_far(X)
    if far.sum() * X.size <= FEW_FAR:
        unsure |= far
    again = Lists(distances[:, -n_others:], indices[:, -n_others:], distances[:, -1])
    settle(X, frame, np.flatnonzero(unsure), again, team)
    return distances, indices


# ------------------------------------------------------------------------------- where labels vary


def carriers(spread: FloatArray, share: float = SHARE) -> npt.NDArray[np.bool_]:
    """Return which points carry ``share`` of the sum of squares of their local variances."""
    energy = spread**2
    carried = np.sort(energy)[::-1]
    np.cumsum(carried, out=carried)
    n_chosen = int(np.searchsorted(carried, share * carried[-1])) + 1
    least = np.partition(energy, len(energy) - n_chosen)[len(energy) - n_chosen]
    return np.asarray((energy >= least) & (energy > 0))  # equals stand or fall together


def local_spread(index: IntArray, labels: Any) -> FloatArray:
    """Return the variance of the labels of each point and its neighbours so far."""
    return np.asarray((class_spread if labels.ndim == 1 else value_spread)(index, labels))


def _search_on(cells: Cells, near: Near, swept: Float32Array, spread: FloatArray, lists: Lists, team: Team) -> None:
    """Search on where labels vary, to ``DEEP`` times each point's own last distance along the centre line.

    Where that would look at more than ``BUDGET`` times the pairs within the cells, only the points that vary most are
    searched further, so that it costs no more than the graph did.
    """
    home, chosen = cells.home, carriers(spread)
    common = cells.points, cells.start, cells.centers, near.start, near.cell, near.behind, swept
    n_affordable = _n_affordable(cells, common, chosen, lists)
    if chosen.sum() > n_affordable:
        most = np.argsort(-spread, kind="stable")[:n_affordable]
        chosen[:] = False
        chosen[most] = True

    def work(some: IntArray) -> None:
        probe(
            cells.points, cells.half, cells.extra, cells.start, cells.centers, home, near.start, near.cell,
            near.behind, swept, chosen, np.float32(DEEP), some, lists.score, lists.index, lists.top, team.stop,
        )  # fmt: skip

    team.each(work, batches(len(cells), 250))


def _settle_few(X: FloatArray, frame: Frame, labels: Any, distances: FloatArray, indices: Any, team: Team) -> None:
    """Search wide data exactly wherever labels vary, if that is at few points: at most a quarter of the graph's cost.

    Among well separated classes few points have others around them, often those of small groups, which cells miss.
    """
    rows = np.flatnonzero(local_spread(indices, labels) > 0)
    if len(rows) <= SETTLED // X.shape[1]:
        settle(X, frame, rows, Lists(distances, indices, distances[:, -1]), team)


def _n_affordable(cells: Cells, common: Any, chosen: npt.NDArray[np.bool_], lists: Lists) -> int:
    """Return how many points may be searched further, counted on some of those chosen."""
    positions, size = np.flatnonzero(chosen), np.diff(cells.start)
    if not len(positions):
        return 0
    some = np.zeros_like(chosen)
    some[positions[:: max(1, len(positions) // COUNTED)]] = True
    n_probes, nobody = np.zeros(len(cells), np.int64), np.empty(0, np.int64)
    cells_of_some = np.unique(cells.home[some])
    list_probes(*common, some, np.float32(DEEP), cells_of_some, lists.top, n_probes, nobody)
    pairs = float(n_probes @ size) / int(some.sum())
    return int(BUDGET * float(size @ size) / max(pairs, 1.0))
