# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled placing of points: each less the centre of its cell, both found in float64, kept in float32."""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled


@compiled()
def place_cells(X, middle, order, start, centers, points):
    """Write the mean of each cell, less ``middle``, to ``centers``, and the rows ``order`` less it to ``points``."""
    total = np.empty(X.shape[1], np.float64)
    for cell in range(start.shape[0] - 1):
        first, last = start[cell], start[cell + 1]
        total[:] = 0.0
        for i in range(first, last):
            row = X[order[i]]
            for f in range(X.shape[1]):
                total[f] += np.float64(row[f]) - middle[f]
        for f in range(X.shape[1]):
            centers[cell, f] = total[f] / (last - first)
        for i in range(first, last):
            row = X[order[i]]
            for f in range(X.shape[1]):
                points[i, f] = np.float32((np.float64(row[f]) - middle[f]) - centers[cell, f])
