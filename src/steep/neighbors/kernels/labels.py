# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled loops over labels of neighbours; unfilled places of a list (index ≥ n) are passed over."""

from __future__ import annotations

import numpy as np

from steep.neighbors.kernels import compiled


@compiled()
def class_spread(index, codes):
    """Return 1 − Σ p² of the classes of each point and its neighbours."""
    n_points, width = index.shape
    spread = np.empty(n_points, np.float64)
    group = np.empty(width + 1, codes.dtype)
    for q in range(n_points):
        group[0] = codes[q]
        size = 1
        for j in range(width):
            if index[q, j] < n_points:
                group[size] = codes[index[q, j]]
                size += 1
        equal = 0
        for i in range(size):
            for j in range(size):
                equal += group[i] == group[j]
        spread[q] = 1.0 - equal / (size * size)
    return spread


@compiled()
def value_spread(index, values):
    """Return the variance of the values of each point and its neighbours, summed over the columns."""
    n_points, width = index.shape
    spread = np.zeros(n_points, np.float64)
    for q in range(n_points):
        for c in range(values.shape[1]):
            # Differences from the point's own value: a large offset of the labels costs no digits.
            total, squares, size = 0.0, 0.0, 1
            for j in range(width):
                if index[q, j] < n_points:
                    step = values[index[q, j], c] - values[q, c]
                    total += step
                    squares += step * step
                    size += 1
            spread[q] += max(0.0, squares / size - (total / size) ** 2)
    return spread
