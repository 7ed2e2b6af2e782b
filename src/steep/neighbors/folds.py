"""One neighbour search for all folds: the graph of every training fold out of one list of near rows.

A fold looks for neighbours among its training rows, in columns divided by the spread s' of those rows alone. Both
change little from fold to fold. All rows are searched once, in columns divided by u, the largest s' of any fold:
every distance of a fold is then at least r = min u/s' ≥ 1 times the one searched by. Let G_i be a distance beyond
which are all rows that the list of x_i leaves out: they are at least r·G_i away in the fold. So if k training rows of
the list are nearer than that, they are the k nearest. The few rows for which this fails are compared with all: the
graph is exact, and no weight depends on a row outside the fold.

    D'_ij² = Σ_c (x_ic − x_jc)² / s'_c²

of all listed pairs are one product of the 1/s'² with a table of squares that all folds share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Self

import numpy as np

from steep._validation import LARGEST_NUMBER, SMALLEST_NUMBER, FloatArray, IntArray
from steep.neighbors.graph import neighbor_graph
from steep.neighbors.query import least, nearest_others

# Beyond this the neighbour engine is quicker on each fold than sorting what it found before.
_FEW_ROWS = 10_000

# Rows listed beyond those that a fold keeps on average; more where features are many, which makes distances similar.
_KNOWN_PER_WANTED = 1.1
_KNOWN_BESIDES, _KNOWN_FOR_FEATURES = 6, 14

# Squares, and distances of all folds, held at once.
_SQUARES, _GAPS = 2**22, 2**20

# What rounding to the digits of float32 may change, relatively.
_SINGLE = 1e-6

# A variance that is a smaller share than this of the mean square is computed from the values themselves.
_FEW_DIGITS = 1e-3

# A spread below this share of the column's largest value has lost too many digits to be searched with the others.
_LEAST_SHARE = 1e-9

# A constant column may differ from its mean by rounding; that is not a spread.
_ROUNDING = 1e-15


def standardise(points: FloatArray) -> FloatArray:
    """Columns of mean 0 and deviation 1; a constant one becomes 0.

    Examples
    --------
    >>> standardise(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    points = _ordinary(points)
    spread = _spread(points)
    centred = points - points.mean(axis=0, dtype=np.float64)
    standard: FloatArray = centred / np.where(spread > 0, spread, np.inf)
    return standard.astype(points.dtype, copy=False)


def _ordinary(points: FloatArray) -> FloatArray:
    """Points in columns whose squares neither overflow nor vanish: others are divided by their largest."""
    largest = _span(points)
    extreme = (largest > LARGEST_NUMBER) | ((largest < SMALLEST_NUMBER) & (largest > 0))
    return points / np.where(extreme, largest, 1.0) if extreme.any() else points


def _spread(points: FloatArray) -> FloatArray:
    """Deviation of every column; 0 for one that is constant."""
    spread: FloatArray = points.std(axis=0, dtype=np.float64)
    spread[spread <= _ROUNDING * _span(points)] = 0.0
    return spread


def _spreads(points: FloatArray, trains: Sequence[IntArray]) -> FloatArray:
    """Deviations of the columns of every training set, ``(n_sets, n_features)``; ``points`` are centred."""
    times = np.array([np.bincount(train, minlength=len(points)) for train in trains], dtype=np.float64)
    times /= times.sum(axis=1, keepdims=True)
    squares = times @ points**2
    variances = squares - (times @ points) ** 2
    spreads = np.sqrt(np.maximum(variances, 0.0))
    # Where a few extreme values move the middle, little is left of the digits.
    few = ((variances <= _FEW_DIGITS * squares) & (squares > 0)).any(axis=1)
    for number in np.flatnonzero(few).tolist():
        spreads[number] = _spread(points[trains[number]])
    return spreads


@dataclass(frozen=True)
class SharedGraph:
    """For every row the rows near it, from which the neighbours within a fold are taken."""

    numbers: FloatArray  # the rows, centred, in units u
    standardised: bool  # whether a fold divides its columns by their spread
    indices: IntArray  # near rows of every row, itself among them, ascending, (n_samples, n_known)
    reach: FloatArray  # G_i², which no row left out is nearer than
    self_at: IntArray  # place of every row in its own list

    @classmethod
    def of(
        cls, numbers: FloatArray, n_neighbors: int, trains: Sequence[IntArray], *, standardised: bool,
        n_jobs: int | None = None,
    ) -> Self | None:  # fmt: skip
        """List near rows of all ``numbers`` once; None where a fold had better search its own.

        ``trains`` are the training rows of every fold, of which it will ask for at most ``n_neighbors``.
        """
        kept = min(len(train) for train in trains) / len(numbers)
        known = ceil(_KNOWN_PER_WANTED * n_neighbors / kept) + _KNOWN_BESIDES
        known += min(numbers.shape[1], _KNOWN_FOR_FEATURES)
        if n_neighbors == 1 or not known < len(numbers) <= _FEW_ROWS or _swallows_digits(numbers, trains):
            return None
        points = _in_largest_units(numbers, trains if standardised else None)
        distances, near = neighbor_graph(points, n_neighbors=known, recall=1.0, n_jobs=n_jobs)
        near, reach = np.sort(near, axis=1).astype(np.intp), distances[:, -1].astype(np.float64) ** 2
        self_at = (near == np.arange(len(near))[:, None]).argmax(axis=1)
        return cls(points, standardised, near, (1 - _SINGLE) * reach, self_at)

    def whole(self, n_neighbors: int) -> IntArray:
        """Graph of all rows."""
        return next(self.within([np.arange(len(self.numbers))], n_neighbors))

    def within(self, trains: Sequence[IntArray], n_neighbors: int) -> Iterator[IntArray]:
        """Graph of the training rows of every fold, each row its own first neighbour."""
        units: FloatArray = np.ones((len(trains), self.numbers.shape[1]))
        if self.standardised:
            units = _spreads(self.numbers, trains)
        # A column in which the training rows agree adds nothing to any distance between them.
        scales = np.divide(1.0, units**2, out=np.zeros_like(units), where=units > 0)
        step = max(1, _GAPS // self.indices.size)
        for first in range(0, len(trains), step):
            for number, gaps in enumerate(self._gaps(scales[first : first + step]), start=first):
                yield self._nearest(trains[number], gaps, scales[number], n_neighbors)

    @cached_property
    def _all_squares(self) -> FloatArray | None:
        """The squares of all rows; None where they would take much memory."""
        is_small = self.indices.size * self.numbers.shape[1] <= _SQUARES
        return self._squares(slice(None)) if is_small else None

    def _squares(self, rows: slice) -> FloatArray:
        """(x_ic − x_jc)² of some rows and those they list, ``(n_features, n_rows, n_known)``."""
        listed = self.indices[rows]
        squares = np.empty((self.numbers.shape[1], *listed.shape))
        for column, square in zip(np.ascontiguousarray(self.numbers.T), squares, strict=True):
            np.take(column, listed, out=square, mode="clip")
            square -= column[rows, None]
            square *= square
        return squares

    def _gaps(self, scales: FloatArray) -> FloatArray:
        """D'² of every row to those it lists, for every fold, ``(n_folds, n_samples, n_known)``."""
        squares = self._all_squares
        if squares is not None:
            return np.tensordot(scales, squares, axes=1)
        step = max(1, _SQUARES // (self.indices.shape[1] * scales.shape[1]))
        parts = [slice(start, start + step) for start in range(0, len(self.indices), step)]
        return np.concatenate([np.tensordot(scales, self._squares(part), axes=1) for part in parts], axis=1)

    def _nearest(self, train: IntArray, gaps: FloatArray, scale: FloatArray, n_neighbors: int) -> IntArray:
        """Nearest training rows of each, from its distances to those it lists."""
        own, listed, far = np.arange(len(train)), self.indices[train], gaps[train]
        place, outside = np.full(len(gaps), -1), np.full(len(gaps), np.inf)
        place[train], outside[train] = own, 0.0
        far += outside[listed]
        far[own, self.self_at[train]] = -0.0  # before any other row at the same place
        first, squares = least(far, n_neighbors)
        first += own[:, None] * listed.shape[1]
        nearest: IntArray = place[listed.reshape(-1)[first]]
        ratio = np.min(scale, where=scale > 0, initial=1e300)
        unsure = np.flatnonzero(~(squares[:, -1] < (1 - _SINGLE) * ratio * self.reach[train]))
        if np.count_nonzero(outside == 0) < len(train):  # rows that are drawn twice are not listed twice
            unsure = own
        if len(unsure):
            nearest[unsure, 0] = unsure
            nearest[unsure, 1:] = nearest_others(self.numbers[train] * np.sqrt(scale), unsure, n_neighbors - 1)[1]
        return nearest


def _swallows_digits(numbers: FloatArray, trains: Sequence[IntArray]) -> bool:
    """Whether a few values are so large that the digits of the others would be lost where a fold lacks them."""
    given = _ordinary(np.asarray(numbers, dtype=np.float64))
    spreads = _spreads(given - given.mean(axis=0), trains)
    # A column that is constant in a fold is not a reason: its values may be few.
    doubtful = np.flatnonzero(spreads.min(axis=0) < _LEAST_SHARE * spreads.max(axis=0))
    for train in trains if len(doubtful) else ():
        with np.errstate(over="ignore"):  # inf is not a small spread
            spread = _spread(numbers[np.ix_(train, doubtful)])
        if ((spread > 0) & (spread < _LEAST_SHARE * _span(numbers[:, doubtful]))).any():
            return True
    return False


def _span(points: FloatArray) -> FloatArray:
    largest: FloatArray = np.maximum(points.max(axis=0), -points.min(axis=0)).astype(np.float64)
    return largest


def _in_largest_units(numbers: FloatArray, trains: Sequence[IntArray] | None) -> FloatArray:
    """Rows centred, in columns divided by the largest spread of any training set, or all by one number."""
    given: FloatArray = np.asarray(numbers, dtype=np.float64)
    if trains is None:
        points = given / (np.abs(given).max() or 1.0)
        points -= points.mean(axis=0)
        return points / (np.abs(points).max() or 1.0)
    points = _ordinary(given)
    points = points - points.mean(axis=0)
    largest = _spreads(points, trains).max(axis=0)
    varying = largest > 0
    return np.ascontiguousarray(points[:, varying] / largest[varying]) if varying.any() else 0 * points[:, :1]
