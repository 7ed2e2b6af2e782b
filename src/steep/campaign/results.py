"""What a journal knows: counts, points by state, and the results, read once each."""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray
from steep.campaign.journal import Journal, decode
from steep.domain import Box


class Results:
    """Results inside S in the order they were told; each call reads only what is new."""

    def __init__(self, journal: Journal, box: Box) -> None:
        self.journal, self.box = journal, box
        self._X: FloatArray = np.empty((0, box.n_features))
        self._y: FloatArray = np.empty((0, 0))
        self._inside = np.empty(0, dtype=bool)
        self._read = 0

    def told(self) -> tuple[FloatArray, FloatArray]:
        """Points ``(n, n_features)`` and labels ``(n, n_outputs)``."""
        rows = self.journal.rows(
            "SELECT x, y, told_order FROM runs WHERE told_order > ? ORDER BY told_order", (self._read,)
        )
        if rows:
            X = decode([row[0] for row in rows], self.box.n_features)
            y = decode([row[1] for row in rows], len(rows[0][1]) // 8)
            self._X, self._y = np.vstack([self._X, X]), np.vstack([self._y, y]) if self._read else y
            self._inside = np.concatenate([self._inside, self.box.contains(X)])
            self._read = rows[-1][2]
        return self._X[self._inside], self._y[self._inside]

    def points(self, state: str) -> FloatArray:
        """Points of all runs in a state."""
        rows = self.journal.rows("SELECT x FROM runs WHERE state = ? ORDER BY id", (state,))
        return decode([x for (x,) in rows], self.box.n_features)

    def count(self, state: str) -> int:
        """Number of runs in a state."""
        return int(self.journal.rows("SELECT COUNT(*) FROM runs WHERE state = ?", (state,))[0][0])
