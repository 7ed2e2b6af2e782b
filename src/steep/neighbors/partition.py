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
from steep.neighbors.parallel import Workers
from steep.neighbors.points import CHUNK, Float32Array, centered, half_norms

PER_CENTER = 40  # points sampled per centre: enough to place it
ITERATIONS = 6
LARGEST = 4  # a cell of more than this many times the wanted size (many equal points) is cut in pieces


@dataclass
class Cells:
    """Points stored cell by cell: cell c holds ``points[start[c]:start[c + 1]]``."""

    points: Float32Array
    order: npt.NDArray[np.int32]  # order[position] = row in the caller's array
    start: npt.NDArray[np.int64]
    centers: Float32Array

    def __len__(self) -> int:
        return len(self.centers)


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
    points = centered(X, center, order)
    sizes: list[IntArray] = [np.empty(0, np.int64)] * n_coarse
    seeds = rng.spawn(n_coarse)

    def cut(group: int) -> None:
        part = slice(bounds[group], bounds[group + 1])
        sizes[group] = _cut_group(points[part], order[part], cell_size, seeds[group])

    team.each(cut, range(n_coarse))
    start = np.append(0, np.cumsum(np.concatenate(sizes)))
    centers = np.add.reduceat(points, start[:-1], axis=0) / np.diff(start)[:, None]
    return Cells(points, order, start, centers.astype(np.float32))


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
    points: Float32Array, order: npt.NDArray[np.int32], cell_size: int, rng: np.random.Generator
) -> IntArray:
    """Sort one coarse cell's points, in place, into cells; return the sizes of the cells."""
    n_cells = max(1, round(len(points) / cell_size))
    labels = nearest_center(points, kmeans(points, n_cells, rng)) if n_cells > 1 else np.zeros(len(points), int)
    by_cell = np.argsort(labels, kind="stable")
    points[:] = points[by_cell]
    order[:] = order[by_cell]
    pieces = [list(_pieces(int(size), LARGEST * cell_size)) for size in np.bincount(labels) if size]
    return np.array(sum(pieces, []), dtype=np.int64)


def _pieces(size: int, largest: int) -> Iterator[int]:
    for first in range(0, size, largest):
        yield min(largest, size - first)
