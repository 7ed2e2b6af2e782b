"""Surprise: how poorly each label is predicted by its neighbours, without derivatives or evaluations.

    e_i = y_i − s_i(x_i)        s_i interpolates the k nearest *other* points by cubic splines
                                Σ_j λ_j ‖x − x_j‖³ + a linear polynomial
    v_i = |e_i| · σ_i           σ_i² the variance of the nearest labels (Eq. Dhat2)

The error sees curvature where the spread sees slope: a plane has spread and no error, a kink has both.
Their product is a variance like the other measures.

Other points that nearly coincide (closer than about 1e-5 of the way to the farthest one) count as one: the slope
between their labels would say more about the rounding of the labels than about f.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steep._blas import one_blas_thread
from steep._validation import FloatArray, IntArray, check_count, check_points
from steep.exceptions import InputError
from steep.labels import deviations, one_hot
from steep.measures.neighborhood import Neighborhood, in_safe_units

# Share of the mean added to error and spread, so that one accidental zero does not hide a region.
_REGULAR = 0.02
# Doubles in one batch of linear systems: 16 MiB, so that Ctrl-C is noticed in between.
_BATCH = 2 * 2**20


def surprise_variation(X: Any, y: Any, *, n_neighbors: int | None = None) -> FloatArray:
    """Measure how much each label surprises: its error when predicted from others × their spread.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Points, in coordinates whose distances mean something (the unit cube).
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels, as numbers; each output is divided by its standard deviation, so that none dominates.
    n_neighbors : int, optional
        k, other points each label is predicted from; default 3(d+1), at least 20.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> x = np.linspace(0, 1, 41)[:, None]
    >>> v = surprise_variation(x, np.tanh(20 * (x[:, 0] - 0.5)))
    >>> bool(abs(x[v.argmax(), 0] - 0.5) < 0.1), bool(v[0] < 1e-2 * v.max())
    (True, True)
    """
    points = check_points(X)
    n_samples, n_features = points.shape
    if n_samples < 3:
        raise InputError(f"surprise needs at least 3 samples, got {n_samples}; pass more data")
    size = default_size(n_samples, n_features)
    if n_neighbors is not None:
        size = min(check_count(n_neighbors, name="n_neighbors"), n_samples - 1) + 1
    return surprise(Neighborhood.of(points, y, n_neighbors=size, task="regression"))


def surprise(around: Neighborhood) -> FloatArray:
    """v_i of every point; classes count by their one-hot columns."""
    everyone, others = np.arange(len(around.points)), around.indices[:, 1:]
    points, values = around.coordinates.astype(np.float64, copy=False), standardised(one_hot(around.labels))
    error = np.sqrt((_prediction_errors(points, values, everyone, others) ** 2).sum(axis=1))
    close = values[around.indices[:, : 2 * points.shape[1] + 2]]
    spread = np.sqrt(close.var(axis=1, ddof=1).sum(axis=1))
    return _regular(error) * _regular(spread)


def default_size(n_samples: int, n_coordinates: int) -> int:
    """k where the caller named none, the sample itself counted."""
    return min(max(20, 3 * (n_coordinates + 1)), n_samples - 1) + 1


def standardised(labels: FloatArray) -> FloatArray:
    """Each output centred and divided by its deviation; an output that is constant up to rounding becomes zero."""
    values = in_safe_units(labels)
    return np.asarray((values - values.mean(axis=0)) / deviations(values))


def _prediction_errors(points: FloatArray, labels: FloatArray, wanted: IntArray, others: IntArray) -> FloatArray:
    """e_i at the wanted points, in batches of equal linear systems."""
    size = others.shape[1] + min(points.shape[1], others.shape[1]) + 1
    step = max(1, _BATCH // max(size**2, others.shape[1] * points.shape[1]))
    parts = [_errors(points, labels, wanted[i : i + step], others[i : i + step]) for i in range(0, len(wanted), step)]
    return np.vstack(parts)


@one_blas_thread()
def _errors(points: FloatArray, labels: FloatArray, wanted: IntArray, others: IntArray) -> FloatArray:
    centred: FloatArray = points[others] - points[wanted][:, None]
    # The unit of length is each neighbourhood's own: it keeps the systems well conditioned.
    centred = centred / (np.sqrt((centred**2).sum(axis=2)).max(axis=1)[:, None, None] + 1e-300)
    if centred.shape[2] > centred.shape[1]:
        centred = _turned(centred)
    n, k, d = centred.shape
    system = np.zeros((n, k + d + 1, k + d + 1))
    system[:, :k, :k] = _cubes(centred) + 1e-8 * np.eye(k)
    system[:, :k, k] = system[:, k, :k] = 1.0
    system[:, :k, k + 1 :] = centred
    system[:, k + 1 :, :k] = centred.transpose(0, 2, 1)
    # Fewer points than a plane needs, or points all on one line: the polynomial is held back.
    system[:, k:, k:] = -1e-8 * np.eye(d + 1)
    right = np.zeros((n, k + d + 1, 1))
    right[:, :k, 0] = np.sqrt((centred**2).sum(axis=2)) ** 3
    right[:, k, 0] = 1.0
    # The value predicted at the origin is linear in the labels: one solve gives its weights.
    weights = np.linalg.solve(system, right)[:, :k, 0]
    predicted = np.einsum("nk,nko->no", weights, labels[others])
    return np.asarray(labels[wanted] - predicted)


def _turned(centred: FloatArray) -> FloatArray:
    """The same neighbourhoods in the k coordinates that k points span: all their products are kept."""
    values, axes = np.linalg.eigh(centred @ centred.transpose(0, 2, 1))
    return np.asarray(axes * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def _cubes(centred: FloatArray) -> FloatArray:
    """‖x_i − x_j‖³ within each neighbourhood."""
    squares = (centred**2).sum(axis=2)
    gram = centred @ centred.transpose(0, 2, 1)
    gaps = np.maximum(squares[:, :, None] + squares[:, None, :] - 2 * gram, 0.0)
    return np.asarray(gaps * np.sqrt(gaps))


def _regular(values: FloatArray) -> FloatArray:
    return np.asarray(values + _REGULAR * values.mean())
