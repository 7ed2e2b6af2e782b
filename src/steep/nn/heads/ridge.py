"""Weighted ridge heads, in closed form for every λ at once.

    J(W, b) = 1/(2N) Σ_i w_i ‖W z_i + b − y_i‖² + ½ λ s² ‖W‖²,      mean of w_i = 1

With z and y centred on their weighted means and G = 1/N Σ w z zᵀ = V diag(e) Vᵀ, the minimum is
Wᵀ = V diag(1/(e + λ s²)) Vᵀ · 1/N Σ w z yᵀ: one decomposition for the whole path.

A head held near another one (J₀ of :mod:`steep.nn.heads.problem`) is that one plus the head of what it leaves,
y − W₀ z − b₀, held near zero: there the bias is a weight like the others, that of a column of ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steep._validation import FloatArray
from steep.nn.heads.problem import Head, feature_scale

_BLOCK = 16384


def ridge_path(
    features: FloatArray,
    targets: FloatArray,
    weight: FloatArray,
    l2s: Sequence[float],
    *,
    bias: bool = True,
    offset: FloatArray | None = None,
    anchor: Head | None = None,
) -> list[Head]:
    """Solve one head for each λ.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
        z.
    targets : ndarray of shape (n_samples, n_outputs)
        y.
    weight : ndarray of shape (n_samples,)
        w, mean one.
    l2s : sequence of float
        λ ≥ 0, relative to the features' mean variance.
    bias : bool, default True
        Whether a bias is fitted.
    offset : ndarray of shape (n_outputs,), optional
        A bias that is not fitted but given; needs ``bias=False``.
    anchor : Head, optional
        W₀ and b₀, which the head is held near; default none.

    Returns
    -------
    list of Head

    Examples
    --------
    >>> z = np.array([[0.0], [1.0], [2.0]])
    >>> ridge_path(z, 3 * z + 1, np.ones(3), [0.0])[0].weight.round(6)
    array([[3.]])
    """
    if anchor is not None:
        return _anchored_path(features, targets, weight, l2s, bias, anchor)
    n_samples = len(features)
    targets = targets if offset is None else targets - offset
    share = weight / n_samples
    unweighted_mean = features.mean(axis=0, dtype=np.float64) if bias else np.zeros(features.shape[1])
    variance = feature_scale(features, unweighted_mean) ** 2
    z_mean = _weighted_sum(features, share) / share.sum() if bias else np.zeros(features.shape[1])
    y_mean = share @ targets / share.sum() if bias else np.zeros(targets.shape[1])
    gram, moment = _moments(features, targets, share, z_mean, y_mean)
    heads = []
    for solution in _solutions(gram, moment, [l2 * variance for l2 in l2s]):
        fitted = y_mean - solution @ z_mean if bias else offset
        heads.append(Head(solution, fitted, is_bias_fixed=offset is not None))
    return heads


def _weighted_sum(features: FloatArray, share: FloatArray) -> FloatArray:
    """Σ w z, block by block: features may lie in a file."""
    total = np.zeros(features.shape[1])
    for start in range(0, len(features), _BLOCK):
        total += share[start : start + _BLOCK] @ features[start : start + _BLOCK]
    return total


def _anchored_path(
    features: FloatArray, targets: FloatArray, weight: FloatArray, l2s: Sequence[float], bias: bool, anchor: Head
) -> list[Head]:
    mean = features.mean(axis=0, dtype=np.float64) if bias else np.zeros(features.shape[1])
    scale = feature_scale(features, mean)
    columns = (features - mean) / scale
    if bias:
        columns = np.hstack([columns, np.ones((len(features), 1))])
    left = targets - anchor.outputs(features)
    zeros = np.zeros(columns.shape[1]), np.zeros(targets.shape[1])
    heads = []
    for solution in _solutions(*_moments(columns, left, weight / len(features), *zeros), l2s):
        moved = solution[:, : features.shape[1]] / scale
        fitted = anchor.bias
        if bias:
            assert anchor.bias is not None
            fitted = anchor.bias + solution[:, -1] - moved @ mean
        heads.append(Head(anchor.weight + moved, fitted, is_bias_fixed=anchor.is_bias_fixed))
    return heads


def _solutions(gram: FloatArray, moment: FloatArray, penalties: Sequence[float]) -> list[FloatArray]:
    """W for every penalty λ s²."""
    values, vectors = np.linalg.eigh(gram)
    rotated = vectors.T @ moment
    found: list[FloatArray] = []
    for penalty in penalties:
        # Directions in which the features do not vary carry no information: leave them out.
        shrunk = np.where(values + penalty > 1e-12 * values[-1], values + penalty, np.inf)
        found.append((vectors @ (rotated / shrunk[:, None])).T)
    return found


def _moments(
    features: FloatArray, targets: FloatArray, share: FloatArray, z_mean: FloatArray, y_mean: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σ w z zᵀ and Σ w z yᵀ of centred data, block by block in float64."""
    gram = np.zeros((features.shape[1], features.shape[1]))
    moment = np.zeros((features.shape[1], targets.shape[1]))
    for start in range(0, len(features), _BLOCK):
        block = slice(start, start + _BLOCK)
        z = features[block] - z_mean
        weighted = z.T * share[block]
        gram += weighted @ z
        moment += weighted @ (targets[block] - y_mean)
    return gram, moment
