"""The results of a campaign as arrays, read from its journal once."""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.campaign.journal import Journal
from steep.domain import Box


class Results:
    """Results inside S in the order they were told; each call reads only what is new."""

    def __init__(self, journal: Journal, box: Box) -> None:
        self.journal, self.box = journal, box
        self._X: FloatArray = np.empty((0, box.n_features))
        self._unit: FloatArray = self._X
        self._y: FloatArray = np.empty((0, 0))
        self._numbers: IntArray = np.empty(0, dtype=np.int64)
        self._foreign = np.empty(0, dtype=bool)
        self._read = 0

    def told(self) -> tuple[FloatArray, FloatArray]:
        """Points ``(n, n_features)`` and labels ``(n, n_outputs)``, NaN for outputs that a run did not have yet."""
        rows = self.journal.told_after(self._read)
        if rows:
            X = self.journal.numbers([row[0] for row in rows], self.box.n_features)
            inside = self.box.contains(X)
            y = self.journal.labels([row[1] for row in rows])[inside]
            X, kept = X[inside], [row for row, is_in in zip(rows, inside, strict=True) if is_in]
            self._y = np.vstack([self._y, y]) if len(self._X) else y
            self._X = np.vstack([self._X, X])
            self._unit = np.vstack([self._unit, self.box.unit(X)]) if len(X) else self._unit
            self._numbers = np.concatenate([self._numbers, np.array([row[4] for row in kept], dtype=np.int64)])
            self._foreign = np.concatenate([self._foreign, [row[3] == "foreign" for row in kept]])
            self._read = rows[-1][2]
        return self._X, self._y

    def unit(self) -> FloatArray:
        """The points in the unit cube."""
        self.told()
        return self._unit

    def numbers(self) -> IntArray:
        """The numbers of the runs."""
        self.told()
        return self._numbers

    def n_foreign(self) -> int:
        """How many of them nobody asked for."""
        self.told()
        return int(self._foreign.sum())

    def without_gaps(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points and labels without NaN, and the points left out for it.

        Runs with every output once they are half of all; before that all runs, with the outputs all of them have.
        """
        X, y = self.told()
        gaps = np.isnan(y)
        whole = ~gaps.any(axis=1)
        if 2 * whole.sum() >= len(y):
            return X[whole], y[whole], X[~whole]
        return X, y[:, ~gaps.any(axis=0)], X[:0]
