# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled change of names: points that are only visiting are called by their place while they are here.

Visitors are stored from place ``first`` on; ``names``, ascending and beyond all places, is what lists call them when
they are gone.
"""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled


@compiled()
def let_go(index, first, names):
    """Call visitors in all lists by their names."""
    last = first + names.shape[0]
    for i in range(index.shape[0]):
        for j in range(index.shape[1]):
            if first <= index[i, j] < last:
                index[i, j] = names[index[i, j] - first]


@compiled()
def take_up(index, rows, first, names):
    """Call visitors in the lists of some rows by their places."""
    for row in rows:
        for j in range(index.shape[1]):
            called = index[row, j]
            if names[0] <= called <= names[-1]:
                at = np.searchsorted(names, called)
                if names[at] == called:
                    index[row, j] = first + at
