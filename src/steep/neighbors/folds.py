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
from math import ceil
from typing import Self

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.neighbors.graph import neighbor_graph

# Beyond this the neighbour engine is quicker on each fold than sorting what it found before.
_FEW_ROWS = 10_000

# Neighbours known beyond those that a fold keeps on average: rows that know too few are searched one by one.
_KNOWN_PER_WANTED = 1.1
_KNOWN_BESIDES = 6

# Beyond these sizes squares overflow, or vanish; columns are brought to ordinary size first.
_HUGE, _TINY = 1e100, 1e-100

# A constant column may differ from its mean by rounding; that is no spread.
_ROUNDING = 1e-15


def standardise(points: FloatArray) -> FloatArray:
    """Columns of mean 0 and deviation 1; a constant one becomes 0.

    Examples
    --------
    >>> standardise(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    points, _ = _ordinary(points)
    spread = _spread(points)
    centred = points - points.mean(axis=0, dtype=np.float64)
    standard: FloatArray = centred / np.where(spread > 0, spread, np.inf)
    return standard.astype(points.dtype, copy=False)


def _ordinary(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points in columns whose squares neither overflow nor vanish, and what the columns were divided by."""
    largest = np.maximum(points.max(axis=0), -points.min(axis=0)).astype(np.float64)
    extreme = (largest > _HUGE) | ((largest < _TINY) & (largest > 0))
    unit = np.where(extreme, largest, 1.0)
    return points / unit if extreme.any() else points, unit


def _spread(points: FloatArray) -> FloatArray:
    """Deviation of every column; 0 for one that is constant."""
    spread: FloatArray = points.std(axis=0, dtype=np.float64)
    spread[spread <= _ROUNDING * np.maximum(points.max(axis=0), -points.min(axis=0))] = 0.0
    return spread


def _unit_of(points: FloatArray) -> FloatArray:
    """What standardising divides every column by, in its own units; 0 for one that is constant."""
    ordinary, unit = _ordinary(points)
    return _spread(ordinary) * unit


@dataclass(frozen=True)
class SharedGraph:
    """The nearest neighbours of all rows, from which those of a fold are taken.

    Attributes
    ----------
    numbers : ndarray of shape (n_samples, n_features)
        The rows before standardising.
    units : ndarray of shape (n_features,), optional
        What standardising divides the columns of all rows by; None when distances are taken as they are.
    distances, indices : ndarray of shape (n_samples, n_known)
        The graph of all rows, each its own first neighbour.
    """

    numbers: FloatArray
    units: FloatArray | None
    distances: FloatArray
    indices: IntArray

    @classmethod
    def of(
        cls,
        numbers: FloatArray,
        n_neighbors: int,
        *,
        standardised: bool,
        kept: float = 0.5,
        n_jobs: int | None = None,
    ) -> Self | None:
        """Search all rows once; None where a fold had better search its own.

        Parameters
        ----------
        numbers : ndarray of shape (n_samples, n_features)
            All rows, finite, before standardising.
        n_neighbors : int
            Most neighbours that a fold will ask for.
        standardised : bool
            Whether every training set standardises its columns.
        kept : float, default 0.5
            Share of the rows that the smallest training set has.
        n_jobs : int, optional
            Threads of the search.
        """
        known = ceil(_KNOWN_PER_WANTED * n_neighbors / kept) + _KNOWN_BESIDES
        if n_neighbors == 1 or not known < len(numbers) <= _FEW_ROWS:
            return None
        points = standardise(numbers) if standardised else numbers
        distances, indices = neighbor_graph(points, n_neighbors=known, recall=1.0, n_jobs=n_jobs)
        return cls(numbers, _unit_of(numbers) if standardised else None, distances, indices)

    def whole(self, n_neighbors: int) -> IntArray:
        """Graph of all rows."""
        return self.indices[:, :n_neighbors]

    def within(self, train: IntArray, points: FloatArray, n_neighbors: int) -> IntArray | None:
        """Graph of the training rows, each its own first neighbour; None if too many are unknown.

        ``points`` are the training rows, standardised by themselves if rows are standardised at all.
        """
        place = np.full(len(self.indices), -1)
        place[train] = np.arange(len(train))
        known = place[self.indices[train]]
        gaps = _distances(points, known)
        np.putmask(gaps, known < 0, np.inf)
        np.putmask(gaps, known == np.arange(len(train))[:, None], -1.0)
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

    def _ratio(self, train: IntArray) -> float:
        """r, the least that a distance of the fold is of the same distance in the whole."""
        if self.units is None:
            return 1.0
        inside = _unit_of(self.numbers[train])
        flat = inside == 0  # the training rows agree in this column: it adds nothing to any distance
        return float(np.min(self.units[~flat] / inside[~flat], initial=1.0))


def _distances(points: FloatArray, known: IntArray) -> FloatArray:
    """Distance of every row to those it knows."""
    gaps = np.zeros(known.shape)
    for column in np.ascontiguousarray(points.T, dtype=np.float64):
        apart = column.take(known)
        apart -= column[:, None]
        apart *= apart
        gaps += apart
    return np.sqrt(gaps, out=gaps)


def _search(points: FloatArray, rows: IntArray, n_neighbors: int) -> IntArray:
    """Nearest neighbours of some rows among all, each row its own first."""
    found = np.empty((len(rows), n_neighbors), dtype=np.intp)
    for at, row in enumerate(rows):
        gaps = ((points - points[row]) ** 2).sum(axis=1)
        gaps[row] = -1.0
        nearest = np.argpartition(gaps, n_neighbors - 1)[:n_neighbors]
        found[at] = nearest[np.argsort(gaps[nearest], kind="stable")]
    return found
