"""Measures of labels beyond the paper's: what local label variance mixes, taken apart, and how wrong a model is.

Label variance around x_i (Eq. Dhat2) is high where f is steep, where labels are noisy, and where single labels are
wrong. With S the k nearest neighbours of x_i, itself among them, and y one-hot for classes:

    contradiction   ‖y_i − mean of y over S without x_i‖², the leave-one-out error: is *this* label odd?
    disagreement    for classes the share of S without x_i whose label is another; for numbers the contradiction
    density         variance divided by a bounded k-NN density, Eq. J2* (the paper left p(x) out)

Each is one function of a :class:`Neighborhood` and returns values ≥ 0 of shape ``(n_samples,)``.

The others put the model that is to be trained in the place of the mean in Eq. Dhat2, and say where *this model* falls
short. With f̂ the probabilities, or numbers, of a model fitted without the sample it is asked about (cross-fitting):

    misfit    1/k Σ_{j∈S} ‖y_j − f̂(x_j)‖²
    border    1/k Σ_{j∈S} (1 − |m_j|)²,     m_j = f̂_y(x_j) − max_{c≠y} f̂_c(x_j), the margin of the own class
    doubt     1 − f̂_y(x_i), of the sample alone: what AFR (Qiu et al. 2023) and JTT (Liu et al. 2021) follow

k = 1 is the sample alone and needs no neighbours. Light weights on a large misfit lean a least-squares fit towards the
median, heavy ones towards the smallest worst error; heavy ones on the border serve accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from steep._validation import FloatArray
from steep.exceptions import InputError
from steep.labels import Labels, column_blocks
from steep.measures.neighborhood import Neighborhood
from steep.measures.variance import variance

# Rows worked on at once, and numbers of their neighbours: what bounds a (rows, k, columns) block in memory.
_BLOCK, _NUMBERS = 4096, 2**22

# Densities farther than this factor from the median are cut off: k-NN densities have heavy tails.
_DENSITY_BOUND = 3.0


def _columns(labels: Labels) -> Iterator[FloatArray]:
    """Columns whose variances are summed, some at a time; numbers less their median: an offset costs no digits."""
    for columns in column_blocks(labels):
        yield columns - np.median(columns, axis=0) if labels.codes is None else columns


def _parts(n_rows: int, width: int) -> Iterator[slice]:
    """Rows of ``width`` numbers each, some at a time."""
    step = max(1, min(_BLOCK, _NUMBERS // width))
    for start in range(0, n_rows, step):
        yield slice(start, start + step)


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


def misfits(around: Neighborhood, sizes: Sequence[int]) -> FloatArray:
    """Mean squared cross-fitted error of the model over the k nearest for every k, ``(len(sizes), n_samples)``."""
    return _means(squared_errors(around), around, sizes)


def borders(around: Neighborhood, sizes: Sequence[int]) -> FloatArray:
    """Nearness of the model's border between classes, averaged over the k nearest for every k in ``sizes``."""
    return _means(nearness(around), around, sizes)


def doubt(around: Neighborhood) -> FloatArray:
    """1 − f̂_y(x_i): how far the model is from the sample's own class; neighbours have no say."""
    codes, predicted = around.labels.codes, predictions(around, "doubt")
    if codes is None:
        raise InputError("measure='doubt' got numbers as labels; expected one class per sample; use measure='misfit'")
    return np.asarray(np.maximum(1.0 - predicted[np.arange(len(codes)), codes], 0.0))


def squared_errors(around: Neighborhood) -> FloatArray:
    """‖y_i − f̂(x_i)‖² of every sample, ``(n_samples,)``."""
    labels, predicted = around.labels, predictions(around, "misfit")
    shape = len(labels), labels.n_columns
    if shape != predicted.shape:
        raise InputError(
            f"measure='misfit' got labels of shape {shape} and predictions of shape {predicted.shape}; expected "
            "one class, or numbers, per sample; use measure='variance' for other labels"
        )
    errors: FloatArray = np.zeros(len(labels))
    first = 0
    for columns in column_blocks(labels):
        errors += ((columns - predicted[:, first : first + columns.shape[1]]) ** 2).sum(axis=1)
        first += columns.shape[1]
    return errors


def nearness(around: Neighborhood) -> FloatArray:
    """(1 − |m_i|)² of every sample, ``(n_samples,)``: 1 on the border between two classes, 0 far from it."""
    codes, predicted = around.labels.codes, predictions(around, "border")
    if codes is None:
        raise InputError("measure='border' got numbers as labels; expected one class per sample; use measure='misfit'")
    own = np.arange(len(codes)), codes
    others = predicted.copy()
    others[own] = 0.0
    return np.asarray((1.0 - np.abs(predicted[own] - others.max(axis=1))) ** 2)


def predictions(around: Neighborhood, measure: str) -> FloatArray:
    """Return the cross-fitted predictions of the model that is to be trained."""
    if around.predicted is None:
        raise InputError(
            f"measure={measure!r} asks a model, got none; expected predicted=, one row for each sample; use "
            f"VarianceWeighted(estimator, measure={measure!r})"
        )
    return around.predicted


def _means(values: FloatArray, around: Neighborhood, sizes: Sequence[int]) -> FloatArray:
    """Mean of ``values`` over the k nearest neighbours for every k in ``sizes``, by one product."""
    counted = np.arange(max(sizes))[:, None] < np.asarray(sizes)
    return np.asarray((values[around.indices[:, : max(sizes)]] @ (counted / np.asarray(sizes))).T)
