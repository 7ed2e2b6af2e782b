"""Cells of neighbouring points: cut the data into them, find which lie near each other, join them.

Cells are found by k-means in two levels: about √C coarse cells on a sample, then each is cut by itself, so
that finding a point's cell costs √C comparisons rather than C. How good the cells are decides the speed of
a search, never what it promises.

Points are kept in float32 less the float64 centre of their cell. If the data have far points or heavy
tails, cells are cut in bent coordinates (frame.py), and the centre of a cell in the tail lies as near the
middle of the data as its innermost point, so that each point keeps digits in proportion to its own length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from steep._validation import FloatArray, IntArray
from steep.neighbors.frame import BALL, BEND, Float32Array, Frame, half_norms, row_lengths
from steep.neighbors.kernels.joins import extents, join_within, place_cells, sweep_across
from steep.neighbors.lists import Lists, Team, batches, in_rounds

PER_CENTER = 40  # points sampled per centre: enough to place it
ITERATIONS = 6
LARGEST = 4  # a cell of more than this many times the wanted size (many equal points) is cut in pieces
CHUNK = 65_536  # rows whose coarse cell is found at a time
PAIRS = 2**21  # pairs of cells compared at a time


class Cells(NamedTuple):
    """Points stored cell by cell, less its centre: cell c holds ``points[start[c]:start[c + 1]]``."""

    points: Float32Array
    half: Float32Array  # |x|²/2 and the extra
    extra: Float32Array  # what a score counts for each of its points besides; 0 but in a narrow search
    order: npt.NDArray[np.int32]  # order[position] = row in the caller's array
    start: npt.NDArray[np.int64]
    centers: FloatArray  # float64, in the frame

    @property
    def n_cells(self) -> int:
        """How many there are."""
        return len(self.centers)

    @property
    def home(self) -> npt.NDArray[np.int32]:
        """The cell of each point."""
        return np.repeat(np.arange(self.n_cells, dtype=np.int32), np.diff(self.start))

    @property
    def sizes(self) -> Float32Array:
        """The largest |x| of each cell, from its centre."""
        return np.sqrt(np.float32(2) * np.maximum.reduceat(self.half, self.start[:-1]))


# ----------------------------------------------------------------------------------------- cutting


def cut(
    X: FloatArray, frame: Frame, cell_size: int, rng: np.random.Generator, team: Team, extra: Float32Array | None = None
) -> Cells:
    """Store the points of ``X``, in the frame, in cells of about ``cell_size`` neighbouring points."""
    n_cells = max(1, len(X) // cell_size)
    n_coarse = round(np.sqrt(n_cells)) if n_cells > 16 else 1
    coarse = _coarse_labels(X, frame, n_coarse, rng, team)
    order = np.argsort(coarse, kind="stable").astype(np.int32)
    bounds = np.append(0, np.cumsum(np.bincount(coarse, minlength=n_coarse)))
    del coarse
    points = np.empty(X.shape, dtype=np.float32)
    pieces: list[tuple[IntArray, FloatArray]] = [(np.empty(0, np.int64), np.empty((0, X.shape[1])))] * n_coarse
    seeds = rng.spawn(n_coarse)

    def cut_group(group: int) -> None:
        part = slice(bounds[group], bounds[group + 1])
        if part.start < part.stop:
            pieces[group] = _cut_group(X, frame, points[part], order[part], cell_size, seeds[group])

    team.each(cut_group, range(n_coarse))
    start = np.append(0, np.cumsum(np.concatenate([sizes for sizes, _ in pieces])))
    centers = np.concatenate([centers for _, centers in pieces])
    extra = np.zeros(len(X), np.float32) if extra is None else extra[order]
    return Cells(points, half_norms(points) + extra, extra, order, start, centers)


def nearest_center(points: Float32Array, centers: Float32Array) -> IntArray:
    """Return the centre nearest to each point."""
    half = half_norms(centers)
    out = np.empty(len(points), dtype=np.int64)
    step = max(1, 2**18 // len(centers))  # a tile of products that stays in the cache
    for first in range(0, len(points), step):
        tile = points[first : first + step] @ centers.T
        np.subtract(half, tile, out=tile)
        out[first : first + step] = tile.argmin(axis=1)
    return out


def cell_means(points: Float32Array, labels: IntArray, n_cells: int) -> tuple[Float32Array, IntArray]:
    """Return the mean and the number of points of each cell."""
    size = np.bincount(labels, minlength=n_cells)
    member = csr_array((np.ones(len(points), np.float32), (labels, np.arange(len(points)))))
    total = np.zeros((n_cells, points.shape[1]), dtype=np.float32)
    total[: member.shape[0]] = member @ points
    return np.asarray(total / np.maximum(size, 1)[:, None], dtype=np.float32), size


def kmeans(points: Float32Array, n_cells: int, rng: np.random.Generator) -> Float32Array:
    """Return the centres of ``n_cells`` cells, found on a sample by a few of Lloyd's iterations."""
    wanted = min(len(points), PER_CENTER * n_cells)
    sample = points[rng.choice(len(points), wanted, replace=False)] if wanted < len(points) else points
    centers = sample[rng.choice(len(sample), n_cells, replace=False)]
    for _ in range(ITERATIONS):
        means, size = cell_means(sample, nearest_center(sample, centers), n_cells)
        centers = np.where(size[:, None] > 0, means, centers)
    return centers


def _coarse_labels(X: FloatArray, frame: Frame, n_coarse: int, rng: np.random.Generator, team: Team) -> IntArray:
    labels = np.zeros(len(X), dtype=np.int16)
    if n_coarse == 1:
        return labels
    chosen = rng.choice(len(X), min(len(X), PER_CENTER * n_coarse), replace=False)
    centers = kmeans(_roughly(X[chosen], frame), n_coarse, rng)

    def label(first: int) -> None:
        part = slice(first, first + CHUNK)
        labels[part] = nearest_center(_roughly(X[part], frame), centers)

    team.each(label, range(0, len(X), CHUNK))
    return labels


def _is_plain(frame: Frame) -> bool:
    """Whether points are only to be moved, neither drawn in nor bent."""
    return frame.extent <= min(BALL, BEND * frame.typical)


def _roughly(X: FloatArray, frame: Frame) -> Float32Array:
    """Return rows in the frame, bent, to the digits of float32: good enough to say who lies near whom."""
    if _is_plain(frame):
        return frame.place_float32(X)
    return np.asarray(frame.bend(frame.place(X)), dtype=np.float32)


def _cut_group(
    X: FloatArray,
    frame: Frame,
    points: Float32Array,
    order: npt.NDArray[np.int32],
    cell_size: int,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """Sort one coarse cell, in place, into cells of points less their centres; return sizes and centres."""
    points[:] = _roughly(X[order], frame)
    points -= points.mean(axis=0)
    n_cells = max(1, round(len(points) / cell_size))
    labels = nearest_center(points, kmeans(points, n_cells, rng)) if n_cells > 1 else np.zeros(len(points), int)
    by_cell = np.argsort(labels, kind="stable")
    most = LARGEST * cell_size
    sizes = np.array([min(most, size - at) for size in np.bincount(labels) for at in range(0, size, most)])
    order[:] = order[by_cell]
    if _is_plain(frame):
        centers: FloatArray = np.empty((len(sizes), X.shape[1]))
        place_cells(X, frame.center, order, np.append(0, np.cumsum(sizes)), centers, points)
        return sizes, centers
    placed = frame.place(X[order])
    centers = _centers(placed, sizes, frame)
    points[:] = placed - np.repeat(centers, sizes, axis=0)
    return sizes, centers


def _centers(placed: FloatArray, sizes: IntArray, frame: Frame) -> FloatArray:
    """Return the mean of each cell; in the tail of the data, moved in to its innermost point."""
    first = np.append(0, np.cumsum(sizes[:-1]))
    centers = frame.unbend(np.add.reduceat(frame.bend(placed), first, axis=0) / sizes[:, None])
    lengths, lowest = row_lengths(centers), np.minimum.reduceat(row_lengths(placed), first)
    tail = (np.maximum.reduceat(row_lengths(placed), first) > BEND * frame.typical) & (lengths > lowest)
    centers[tail] *= (lowest[tail] / lengths[tail])[:, None]
    return np.asarray(centers)


# ------------------------------------------------------------------------------------ which are near


class Near(NamedTuple):
    """The cells near each cell, symmetric: those of cell c are ``cell[start[c]:start[c + 1]]``."""

    start: IntArray
    cell: IntArray
    length: Float32Array  # distance of the centres
    behind: Float32Array  # least x·u of that cell, x from the centre of c, u from c to it
    gap: Float32Array  # least distance of the two cells along u

    @property
    def owner(self) -> IntArray:
        """The cell c of each entry."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    @property
    def keys(self) -> IntArray:
        """One number for each entry's two cells, ascending."""
        return self.owner.astype(np.int64) * (len(self.start) - 1) + self.cell


def rounding_of(cells: Cells) -> float:
    """Return how far a place along a centre line may be off, per unit of length."""
    return float((cells.points.shape[1] + 8) * 2.0**-23)


def near_cells(cells: Cells, n_near: int, team: Team) -> Near:
    """Return the ``n_near`` cells whose centres are nearest to each cell's, and those it is near to."""
    start, cell = near_centers(cells.centers, n_near)
    owner = np.repeat(np.arange(cells.n_cells, dtype=np.int64), np.diff(start))
    return listed_near(cells, owner * cells.n_cells + cell, team)


def near_centers(centers: FloatArray, n_near: int) -> tuple[IntArray, IntArray]:
    """Return the ``n_near`` nearest cells of each, and those it is near to; those of c are at start[c] … start[c + 1].

    They ascend. Some are compared with all at a time, for there may be many.
    """
    n_cells = len(centers)
    n_near = min(n_near, n_cells - 1)
    points = (centers - centers.mean(axis=0)).astype(np.float32)
    half = half_norms(points)
    nearest = np.empty((n_cells, n_near), np.int32)
    step = max(1, PAIRS // n_cells)
    for first in range(0, n_cells, step):
        scores = half - points[first : first + step] @ points.T
        mine = np.arange(len(scores))
        scores[mine, first + mine] = np.inf
        nearest[first : first + step] = np.argpartition(scores, n_near - 1, axis=1)[:, :n_near]
    nearest.sort(axis=1)
    ends = np.arange(0, nearest.size + 1, n_near) if n_near else np.zeros(n_cells + 1, np.int64)
    one_way = csr_array((np.ones(nearest.size, np.bool_), nearest.ravel(), ends), (n_cells, n_cells))
    both = one_way + one_way.T.tocsr()
    return both.indptr.astype(np.int64), both.indices


def listed_near(cells: Cells, keys: IntArray, team: Team) -> Near:
    """Return how pairs of cells lie; the pairs are given by :attr:`Near.keys`, ascending, each both ways."""
    n_cells = cells.n_cells
    owner, cell = (keys // n_cells).astype(np.int32), (keys % n_cells).astype(np.int32)
    start = np.searchsorted(owner, np.arange(n_cells + 1))
    extent, length = np.empty(len(cell), dtype=np.float32), np.empty(len(cell), dtype=np.float32)
    team.each(lambda some: extents(cells, start, cell, some, extent, length), batches(n_cells, 200))
    behind = length - extent[np.searchsorted(keys, cell.astype(np.int64) * n_cells + owner)]
    return Near(start, cell, length, behind, behind - extent)


# ------------------------------------------------------------------------------------------ joining


def join_cells(cells: Cells, lists: Lists, team: Team) -> None:
    """Join each cell with itself."""

    def work(some: IntArray) -> None:
        join_within(cells.points, cells.half, cells.start, some, lists.best, team.stop)

    team.each(work, batches(cells.n_cells, max(1, min(200, cells.n_cells // (4 * team.n_threads)))))


def radius_of(cells: Cells, lists: Lists) -> FloatArray:
    """Return the mean distance of the last neighbour so far; infinite where a cell has too few points."""
    distance = np.sqrt(2.0 * lists.top.astype(np.float64))
    return np.asarray(np.add.reduceat(distance, cells.start[:-1]) / np.diff(cells.start))


def sweep(
    cells: Cells, near: Near, reach_in_radii: float, radius: FloatArray, lists: Lists, team: Team
) -> Float32Array:
    """Join nearby cells within reach along their centre line; return each pair's reach, −∞ if they never met."""
    owner, cell = near.owner, near.cell
    larger = np.maximum(radius[owner], radius[cell])
    with np.errstate(invalid="ignore"):  # 0 × ∞: a cell without a radius is swept whole, a radius of 0 never
        reach = np.where(np.isinf(larger), np.inf, np.where(larger == 0, 0.0, reach_in_radii * larger))
    meet = (near.gap <= reach) & (reach > 0)
    swept = np.where(meet, reach, -np.inf).astype(np.float32)
    keep = meet & (owner < cell)
    join_pairs(cells, np.column_stack([owner[keep], cell[keep]]), swept[keep], lists, team)
    return swept


def join_pairs(
    cells: Cells, pairs: IntArray, reach: Float32Array, lists: Lists, team: Team, *, at_once: int = 1_000
) -> None:
    """Join pairs of cells, each as far as its reach."""
    order, rounds = in_rounds(pairs, cells.n_cells, team.n_threads, at_once)
    pairs, reach = pairs[order], reach[order]

    def work(some: slice) -> None:
        sweep_across(cells, pairs[some], reach[some], lists.best, team.stop)

    for together in rounds:
        team.each(work, together)
