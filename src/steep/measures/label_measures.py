"""Measures of labels beyond the paper's: they separate what local label variance mixes.

Label variance around x_i (Eq. Dhat2) is high where f is steep, where labels are noisy, and where
single labels are wrong. With S the k nearest neighbours of x_i, itself among them, and y one-hot for
classes:

    slope           variance over S that a linear fit in S explains, less what chance explains
    noise           the rest of the variance over S
    contradiction   ‖y_i − mean of y over S without x_i‖², the leave-one-out error: is *this* label odd?
    disagreement    for classes the share of S without x_i whose label is another; for numbers the contradiction
    ambiguity       variance over S without x_i: is the *place* mixed, whatever this label says?
    smoothed        variance over S of the leave-one-out means: steepness with noise averaged out
    density         variance divided by a bounded k-NN density, Eq. J2* (the paper left p(x) out)

Each is one function of a :class:`Neighborhood` and returns values ≥ 0 of shape ``(n_samples,)``;
``slope + noise`` is the variance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from steep._blas import one_blas_thread
from steep._validation import FloatArray
from steep.labels import Labels, one_hot
from steep.measures.neighborhood import Neighborhood
from steep.measures.variance import prefix_variances, variance

# Rows worked on at once, to bound the (rows, k, n_features) block in memory.
_BLOCK = 4096

# Neighbours spent on each direction of the local fit; fewer would fit the noise.
_NEIGHBORS_PER_DIRECTION = 4

# Densities farther than this factor from the median are cut off: k-NN densities have heavy tails.
_DENSITY_BOUND = 3.0


@one_blas_thread()
def slope(around: Neighborhood) -> FloatArray:
    """Variance explained by a linear fit in the neighbourhood, beyond what noise alone would explain.

    The fit uses the r leading principal directions of the neighbourhood, r = k/4 at most. On labels
    that are pure noise it would explain r/(k−1) of the variance; that share of the residual is taken
    off, as in the adjusted R².
    """
    k = around.n_neighbors
    n_directions = max(1, min(around.points.shape[1], k // _NEIGHBORS_PER_DIRECTION, k - 2))
    total, explained = variance(around), np.empty(len(around.indices))
    columns, points = one_hot(around.labels), around.coordinates
    for start in range(0, len(explained), _BLOCK):
        rows = around.indices[start : start + _BLOCK]
        fitted = _leading_directions(points[rows], n_directions)
        centred = columns[rows] - columns[rows].mean(axis=1, keepdims=True)
        explained[start : start + _BLOCK] = np.sum((np.swapaxes(fitted, 1, 2) @ centred) ** 2, axis=(1, 2))
    explained /= k - 1
    by_chance = np.maximum(total - explained, 0) * n_directions / (k - 1 - n_directions)
    return np.asarray(np.clip(explained - by_chance, 0, total))


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
    # A direction without extent (duplicates, flat subspaces) is no direction.
    extent = values[:, -n_directions:]
    keep = extent > 1e-10 * values[:, -1:]
    length = np.sqrt(np.where(keep, extent, 1.0)) if neighbors.shape[2] < neighbors.shape[1] else 1.0
    return np.asarray(leading * (keep / length)[:, None, :])


def noise(around: Neighborhood) -> FloatArray:
    """Variance that a linear fit in the neighbourhood does not explain."""
    return variance(around) - slope(around)


def _means_of_others(around: Neighborhood) -> npt.NDArray[np.float64]:
    columns = one_hot(around.labels)
    means = np.empty(columns.shape)
    for start in range(0, len(means), _BLOCK):
        rows = around.indices[start : start + _BLOCK, 1:]
        means[start : start + _BLOCK] = columns[rows].mean(axis=1)
    return means


def contradiction(around: Neighborhood) -> FloatArray:
    """Squared leave-one-out error: how far a label is from the mean of its neighbours'."""
    error: FloatArray = ((one_hot(around.labels) - _means_of_others(around)) ** 2).sum(axis=1)
    return error


def disagreement(around: Neighborhood) -> FloatArray:
    """Share of the neighbours whose class is another; for numbers, which have no such share, the contradiction."""
    codes = around.labels.codes
    if codes is None:
        return contradiction(around)
    share: FloatArray = (codes[around.indices[:, 1:]] != codes[:, None]).mean(axis=1)
    return share


def ambiguity(around: Neighborhood) -> FloatArray:
    """Variance over the neighbours without the sample itself; a wrong label does not raise its own."""
    others = around.indices[:, 1:]
    size = max(others.shape[1], 1)
    spread: FloatArray = prefix_variances(around.labels, others, [size])[0]
    return spread


def smoothed(around: Neighborhood) -> FloatArray:
    """Eq. Dhat2 of the leave-one-out means instead of the labels: noise is averaged out first."""
    means = Labels(values=_means_of_others(around))
    spread: FloatArray = prefix_variances(means, around.indices, [around.n_neighbors])[0]
    return spread


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
