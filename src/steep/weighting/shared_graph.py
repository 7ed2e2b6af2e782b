"""One neighbour search for all folds: the graph of a training fold out of the graph of all rows.

A fold looks for neighbours among its training rows, in columns standardised by those rows alone. Both
change little from fold to fold. With s and s' the spreads of a column over all rows and over the fold's,
every distance of the fold is at least r = min s/s' times that of the whole. Let G_i be the distance of
the last neighbour that the whole graph knows of x_i: rows it does not know are at least r·G_i away in the
fold. So if k training rows it does know are nearer than that, they are the k nearest. The few rows for
which this fails are searched in full: the graph is exact, and no weight depends on a row outside the fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import _safe_indexing

from steep._validation import FloatArray
from steep.neighbors import neighbor_graph
from steep.weighting.embedding import embed

# Beyond this the neighbour engine is quicker on each fold than sorting what it found before.
_FEW_ROWS = 10_000

# Neighbours known per neighbour wanted: a fold of ten keeps nine in ten, one of two every second.
_KNOWN_PER_WANTED = 2
_KNOWN_BESIDES = 6

# Numbers worked on at once, to bound the (rows, known, columns) block in memory.
_BLOCK = 4_000_000


@dataclass(frozen=True)
class SharedGraph:
    """The nearest neighbours of all rows, from which those of a fold are taken."""

    X: Any
    embedding: Any
    spread: FloatArray
    distances: FloatArray
    indices: npt.NDArray[np.integer[Any]]

    @classmethod
    def of(cls, X: Any, n_neighbors: int, embedding: Any) -> Self | None:
        """Search all rows once; None where a fold had better search its own."""
        known = _KNOWN_PER_WANTED * n_neighbors + _KNOWN_BESIDES
        if n_neighbors == 1 or not (embedding is None or isinstance(embedding, str)):
            return None
        points = embed(X, embedding)
        if not known < len(points) <= _FEW_ROWS:
            return None
        distances, indices = neighbor_graph(points, n_neighbors=known, recall=1.0)
        return cls(X, embedding, _spread(embed(X, None), embedding), distances, indices)

    def within(self, train: npt.NDArray[np.intp], n_neighbors: int) -> npt.NDArray[np.intp] | None:
        """Return the graph of the training rows, each its own first neighbour; None if too many are unknown."""
        points = embed(_safe_indexing(self.X, train), self.embedding)
        place = np.full(len(self.indices), -1)
        place[train] = np.arange(len(train))
        known = place[self.indices[train]]
        gaps = _distances(points, known)
        gaps[known < 0] = np.inf
        gaps[known == np.arange(len(train))[:, None]] = -1.0
        order = np.argsort(gaps, axis=1, kind="stable")[:, :n_neighbors]
        nearest = np.take_along_axis(known, order, axis=1)
        farthest = np.take_along_axis(gaps, order, axis=1)[:, -1]
        # Rounding (distances are float32) must not make a row look certain, nor a row lost to its duplicates.
        certain = farthest < (1 - 1e-6) * self._ratio(train) * self.distances[train, -1]
        certain &= nearest[:, 0] == np.arange(len(train))
        unsure = np.flatnonzero(~certain)
        if len(unsure) > len(train) // 5:
            return None
        nearest[unsure] = _search(points, unsure, n_neighbors)
        return nearest

    def _ratio(self, train: npt.NDArray[np.intp]) -> float:
        """r, the least that a distance of the fold is of the same distance in the whole."""
        inside = _spread(embed(_safe_indexing(self.X, train), None), self.embedding)
        flat = inside == 0  # the training rows agree in this column: it adds nothing to any distance
        return float(np.min(self.spread[~flat] / inside[~flat], initial=1.0))


def _spread(points: FloatArray, embedding: Any) -> FloatArray:
    """What the columns are divided by; 0 for one that is constant."""
    spread: FloatArray = points.std(axis=0) if embedding is not None else np.ones(points.shape[1])
    return spread


def _distances(points: FloatArray, known: npt.NDArray[np.intp]) -> FloatArray:
    """Distance of every row to those it knows."""
    gaps = np.empty(known.shape)
    rows = max(1, _BLOCK // (known.shape[1] * points.shape[1]))
    for start in range(0, len(known), rows):
        block = slice(start, start + rows)
        apart = points[known[block]] - points[block, None, :]
        gaps[block] = np.sqrt(np.einsum("ijk,ijk->ij", apart, apart))
    return gaps


def _search(points: FloatArray, rows: npt.NDArray[np.intp], n_neighbors: int) -> npt.NDArray[np.intp]:
    """Nearest neighbours of some rows among all, each row its own first."""
    found = np.empty((len(rows), n_neighbors), dtype=np.intp)
    for at, row in enumerate(rows):
        gaps = ((points - points[row]) ** 2).sum(axis=1)
        gaps[row] = -1.0
        nearest = np.argpartition(gaps, n_neighbors - 1)[:n_neighbors]
        found[at] = nearest[np.argsort(gaps[nearest], kind="stable")]
    return found
