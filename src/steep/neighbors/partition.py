"""Cut the data into cells of neighbouring points: k-means in two levels.

About √C coarse cells are found on a sample, then each is cut by itself, so that finding a point's cell
costs √C comparisons rather than C. How good the cells are decides the speed of the search, never what
it promises: the recall is estimated on the very cells used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from steep._validation import FloatArray, IntArray
from steep.neighbors.points import CHUNK, Float32Array, centered, half_norms
from steep.neighbors.threads import Workers

PER_CENTER = 40  # points sampled per centre: enough to place it
ITERATIONS = 6
LARGEST = 4  # a cell of more than this many times the wanted size (many equal points) is cut in pieces


@dataclass
class Cells:
    """Points stored cell by cell, less its centre: cell c holds ``points[start[c]:start[c + 1]]``."""

    points: Float32Array
    order: npt.NDArray[np.int32]  # order[position] = row in the caller's array
    start: npt.NDArray[np.int64]
    centers: FloatArray  # float64

    def __len__(self) -> int:
        return len(self.centers)

    @property
    def home(self) -> npt.NDArray[np.int32]:
        """The cell of each point."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.start))


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


def partition(
    X: FloatArray, center: FloatArray, cell_size: int, rng: np.random.Generator, team: Workers
) -> Cells:
    """Store the points of ``X``, less ``center``, in cells of about ``cell_size`` neighbouring points."""
    n_cells = max(1, len(X) // cell_size)
    n_coarse = round(np.sqrt(n_cells)) if n_cells > 16 else 1
    coarse = _coarse_labels(X, center, n_coarse, rng, team)
    order = np.argsort(coarse, kind="stable").astype(np.int32)
    bounds = np.append(0, np.cumsum(np.bincount(coarse, minlength=n_coarse)))
    del coarse
    points = np.empty(X.shape, dtype=np.float32)
    cut: list[tuple[IntArray, FloatArray]] = [(np.empty(0, np.int64), np.empty((0, X.shape[1])))] * n_coarse
    seeds = rng.spawn(n_coarse)

    def cut_group(group: int) -> None:
        part = slice(bounds[group], bounds[group + 1])
        if part.start < part.stop:
            cut[group] = _cut_group(X, points[part], order[part], cell_size, seeds[group])

    team.each(cut_group, range(n_coarse))
    start = np.append(0, np.cumsum(np.concatenate([sizes for sizes, _ in cut])))
    return Cells(points, order, start, np.concatenate([centers for _, centers in cut]))


def _coarse_labels(
    X: FloatArray, center: FloatArray, n_coarse: int, rng: np.random.Generator, team: Workers
) -> IntArray:
    labels = np.zeros(len(X), dtype=np.int16)
    if n_coarse == 1:
        return labels
    wanted = min(len(X), PER_CENTER * n_coarse)
    centers = kmeans(centered(X, center, rng.choice(len(X), wanted, replace=False)), n_coarse, rng)

    def label(first: int) -> None:
        part = slice(first, first + CHUNK)
        labels[part] = nearest_center(centered(X, center, part), centers)

    team.each(label, range(0, len(X), CHUNK))
    return labels


def _cut_group(
    X: FloatArray,
    points: Float32Array,
    order: npt.NDArray[np.int32],
    cell_size: int,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """Sort one coarse cell, in place, into cells of points less their centres; return sizes and centres."""
    given = X[order].astype(np.float64, copy=False)
    middle = given.mean(axis=0)
    given = given - middle
    points[:] = given
    n_cells = max(1, round(len(points) / cell_size))
    labels = (
        nearest_center(points, kmeans(points, n_cells, rng)) if n_cells > 1 else np.zeros(len(points), int)
    )
    by_cell = np.argsort(labels, kind="stable")
    pieces = [list(_pieces(int(size), LARGEST * cell_size)) for size in np.bincount(labels) if size]
    sizes = np.array([size for piece in pieces for size in piece], dtype=np.int64)
    given, order[:] = given[by_cell], order[by_cell]
    centers = np.add.reduceat(given, np.append(0, np.cumsum(sizes[:-1])), axis=0) / sizes[:, None]
    points[:] = given - np.repeat(centers, sizes, axis=0)
    return sizes, centers + middle


def _pieces(size: int, largest: int) -> Iterator[int]:
    for first in range(0, size, largest):
        yield min(largest, size - first)
