"""Measures that ask a model: how wrong it is around a sample, and how undecided.

Label variance (Eq. Dhat2) is the mean squared distance of the neighbours' labels from their *mean*. Put
the model that is to be trained in the place of the mean, and the measure says where *this model* falls
short. With f̂ fitted without the sample it is asked about (cross-fitting), S the k nearest neighbours of
x_i, itself among them, y one-hot for classes and f̂ their probabilities:

    misfit    1/k Σ_{j∈S} ‖y_j − f̂(x_j)‖²
    border    1/k Σ_{j∈S} (1 − |m_j|)²,     m_j = f̂_y(x_j) − max_{c≠y} f̂_c(x_j), the margin of the own class
    doubt     1 − f̂_y(x_i), of the sample alone: what AFR (Qiu et al. 2023) and JTT (Liu et al. 2021) follow

In a trained network, doubt is that of its own head: a group it fails is among what it doubts.

k = 1 is the sample alone and needs no neighbours. Light weights on a large misfit lean a least-squares fit
towards the median (weights 1/|error| give least absolute errors); heavy ones lean it towards the smallest worst
error. Heavy weights on the border make a classifier care about the side of the border a sample is on, which is
what accuracy counts, more than about the probability far from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steep._validation import FloatArray
from steep.exceptions import InputError
from steep.labels import column_blocks
from steep.measures.neighborhood import Neighborhood


def misfit(around: Neighborhood) -> FloatArray:
    """Mean squared cross-fitted error of the model over the neighbourhood."""
    return np.asarray(misfits(around, [around.n_neighbors])[0])


def misfits(around: Neighborhood, sizes: Sequence[int]) -> FloatArray:
    """``misfit`` for every k in ``sizes``, ``(len(sizes), n_samples)``."""
    return _means(squared_errors(around), around, sizes)


def border(around: Neighborhood) -> FloatArray:
    """Nearness of the model's border between classes, averaged over the neighbourhood."""
    return np.asarray(borders(around, [around.n_neighbors])[0])


def borders(around: Neighborhood, sizes: Sequence[int]) -> FloatArray:
    """``border`` for every k in ``sizes``, ``(len(sizes), n_samples)``."""
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
