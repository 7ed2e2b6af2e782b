"""Measures of labels beyond the paper's: they separate what local label variance mixes.

Label variance around x_i (Eq. Dhat2) is high where f is steep, where labels are noisy, and where
single labels are wrong. With S the k nearest neighbours of x_i, itself among them, and y one-hot for
classes:

    slope           variance over S that a linear fit in S explains, less what chance explains
    noise           the rest of the variance over S
    contradiction   ‖y_i − mean of y over S without x_i‖², the leave-one-out error: is *this* label odd?
    disagreement    for classes the share of S without x_i whose label is another; for numbers the contradiction
    density         variance divided by a bounded k-NN density, Eq. J2* (the paper left p(x) out)

Each is one function of a :class:`Neighborhood` and returns values ≥ 0 of shape ``(n_samples,)``;
``slope + noise`` is the variance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steep._blas import one_blas_thread
from steep._validation import FloatArray
from steep.labels import Labels, column_blocks
from steep.measures.neighborhood import Neighborhood
from steep.measures.variance import variance

# Rows worked on at once, and numbers of their neighbours: what bounds a (rows, k, columns) block in memory.
_BLOCK, _NUMBERS = 4096, 2**22

# Neighbours spent on each direction of the local fit; fewer would fit the noise.
_NEIGHBORS_PER_DIRECTION = 4

# A linear fit leaves this share of the variance by rounding, and more along directions of little extent.
_EXPLAINED = 1e-9

# Densities farther than this factor from the median are cut off: k-NN densities have heavy tails.
_DENSITY_BOUND = 3.0


@one_blas_thread()
def slope(around: Neighborhood) -> FloatArray:
    """Variance explained by a linear fit along r ≤ k/4 principal directions, less what chance explains: adjusted R².

    On labels that are pure noise the fit would explain r/(k−1) of the variance; that share of the rest is taken off.
    """
    k = around.n_neighbors
    n_directions = max(1, min(around.points.shape[1], k // _NEIGHBORS_PER_DIRECTION, k - 2))
    total = variance(around)
    points, explained = around.coordinates, np.zeros(len(around.indices))
    for columns in _columns(around.labels):
        for part in _parts(len(explained), k * max(points.shape[1], columns.shape[1])):
            rows = around.indices[part]
            fitted = _leading_directions(points[rows], n_directions)
            centred = columns[rows] - columns[rows].mean(axis=1, keepdims=True)
            explained[part] += np.sum((np.swapaxes(fitted, 1, 2) @ centred) ** 2, axis=(1, 2))
    explained /= k - 1
    left = total - explained
    left[left < _EXPLAINED * total] = 0.0
    by_chance = left * n_directions / (k - 1 - n_directions)
    return np.asarray(np.maximum(total - left - by_chance, 0))


def _columns(labels: Labels) -> Iterator[FloatArray]:
    """Columns whose variances are summed, some at a time; numbers less their median: an offset costs no digits."""
    for columns in column_blocks(labels):
        yield columns - np.median(columns, axis=0) if labels.codes is None else columns


def _parts(n_rows: int, width: int) -> Iterator[slice]:
    """Rows of ``width`` numbers each, some at a time."""
    step = max(1, min(_BLOCK, _NUMBERS // width))
    for start in range(0, n_rows, step):
        yield slice(start, start + step)


def _leading_directions(neighbors: FloatArray, n_directions: int) -> FloatArray:
    """Orthonormal coordinates (rows, k, r) of the neighbours along their leading directions."""
    centred = neighbors - neighbors.mean(axis=1, keepdims=True)
    turned = np.swapaxes(centred, 1, 2)
    # The spread of k points in d dimensions has the same leading values seen from either side.
    if neighbors.shape[2] < neighbors.shape[1]:
        values, axes = np.linalg.eigh(turned @ centred)
        leading = centred @ axes[:, :, -n_directions:]
    else:
        values, axes = np.linalg.eigh(centred @ turned)
        leading = axes[:, :, -n_directions:]
    # A direction without extent (duplicates, flat subspaces) is left out.
    keep = values[:, -n_directions:] > 1e-10 * values[:, -1:]
    length = np.where(keep, np.linalg.norm(leading, axis=1), 1.0)
    return np.asarray(leading * (keep / length)[:, None, :])


def noise(around: Neighborhood) -> FloatArray:
    """Variance that a linear fit in the neighbourhood does not explain."""
    return variance(around) - slope(around)


def contradiction(around: Neighborhood) -> FloatArray:
    """Squared leave-one-out error: how far a label is from the mean of its neighbours'."""
    error: FloatArray = np.zeros(len(around.indices))
    for columns in _columns(around.labels):
        for part in _parts(len(error), around.n_neighbors * columns.shape[1]):
            expected = columns[around.indices[part, 1:]].mean(axis=1)
            error[part] += ((columns[part] - expected) ** 2).sum(axis=1)
    return error


def disagreement(around: Neighborhood) -> FloatArray:
    """Share of the neighbours whose class is another; for numbers, which have no such share, the contradiction."""
    codes = around.labels.codes
    if codes is None:
        return contradiction(around)
    return np.asarray((codes[around.indices[:, 1:]] != codes[:, None]).mean(axis=1))


def density(around: Neighborhood) -> FloatArray:
    """Variance over density, w = D̂f²/p of Eq. J2*, with p ∝ 1/r_k^d kept within a factor of 3 of its median."""
    gaps, points = np.empty(len(around.indices)), around.coordinates
    for start in range(0, len(gaps), _BLOCK):
        block = slice(start, start + _BLOCK)
        farthest = points[around.indices[block, -1]] - points[block]
        gaps[block] = np.linalg.norm(farthest, axis=1)
    middle = np.median(gaps)
    if middle == 0:
        return variance(around)
    with np.errstate(divide="ignore", over="ignore"):
        relative = np.clip((middle / gaps) ** around.points.shape[1], 1 / _DENSITY_BOUND, _DENSITY_BOUND)
    return np.asarray(variance(around) / relative)
