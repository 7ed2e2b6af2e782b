"""Variation → weights, the last line of Algorithm 2.

    w = 1 + (m − 1) v,    v = (Df̂² − min)/(max − min)   or   Df̂²/max

m is ``weight_ratio``: the steepest sample weighs m times the flattest. For m < 1 the flat regions are
favoured by the mirror image, w_m = 1/w_{1/m}, which stays within [m, 1]. The paper divides by the sum;
under a loss that is averaged this divides every step by N, so the default is mean one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from steep._validation import FloatArray, check_choice, check_real, check_vector

Method = Literal["minmax", "max"]
Normalize = Literal["mean", "sum"] | None


def rescale(
    variation: Any,
    *,
    weight_ratio: float = 40.0,
    method: Method = "minmax",
    normalize: Normalize = "mean",
    clip: float | None = None,
) -> FloatArray:
    """Turn variation into sample weights.

    Parameters
    ----------
    variation : array-like of shape (n_samples,)
        Values ≥ 0 of any measure.
    weight_ratio : float, default 40
        m > 0, the largest weight over the smallest. 1 gives exactly equal weights, values below 1
        favour flat regions.
    method : {"minmax", "max"}, default "minmax"
        Divide by the range (the paper) or by the maximum alone (the authors' code).
    normalize : {"mean", "sum", None}, default "mean"
        Make the weights average one, add up to one (the paper), or leave them between 1 and m.
    clip : float, optional
        Quantile above which variation is cut off, so that a few extreme samples do not leave all
        others at the lightest weight; None (the paper) cuts nothing.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> rescale([0.0, 1.0, 2.0], weight_ratio=3, normalize=None)
    array([1., 2., 3.])
    >>> rescale([0.0, 1.0, 2.0], weight_ratio=3)
    array([0.5, 1. , 1.5])
    """
    weights: FloatArray = rescale_each(
        variation, [weight_ratio], method=method, normalize=normalize, clip=clip
    )[0]
    return weights


def rescale_each(
    variation: Any,
    weight_ratios: Sequence[float],
    *,
    method: Method = "minmax",
    normalize: Normalize = "mean",
    clip: float | None = None,
) -> FloatArray:
    """Turn variation into sample weights for several ratios, ``(n_ratios, n_samples)``; see :func:`rescale`."""
    values = check_vector(variation, name="variation", minimum=0.0)
    ratios = [check_real(ratio, name="weight_ratio", above=0.0) for ratio in weight_ratios]
    check_choice(method, name="method", choices=("minmax", "max"))
    check_choice(normalize, name="normalize", choices=("mean", "sum", None))
    if clip is not None:
        clip = check_real(clip, name="clip", above=0.0, maximum=1.0)
        # Where more than this share is flat the quantile is zero, and nothing would be left to see.
        ceiling = _quantile(values, clip) or values.max()
        values = np.minimum(values, ceiling)
    share = _unit_range(values, method)
    weights = np.stack([raw_weights(share, ratio) for ratio in ratios])
    return weights if normalize is None else _normalized(weights, normalize)


def _normalized(weights: FloatArray, normalize: Normalize) -> FloatArray:
    """Rows of mean one, or of sum one."""
    largest = weights.max(axis=1, keepdims=True)
    equal = weights.min(axis=1, keepdims=True) == largest
    # By a power of two, which changes no digit: sums of weights near 1e308 would overflow.
    weights = np.ldexp(weights, -np.frexp(largest)[1])
    totals = (
        weights.mean(axis=1, keepdims=True) if normalize == "mean" else weights.sum(axis=1, keepdims=True)
    )
    # Equal weights are exactly equal, not equal up to rounding.
    exact = 1.0 if normalize == "mean" else 1.0 / weights.shape[1]
    scaled: FloatArray = np.where(equal, exact, weights / totals)
    return scaled


def raw_weights(share: FloatArray, weight_ratio: float) -> FloatArray:
    """Weights between 1 and m, or m and 1, of variation v between 0 and 1."""
    if weight_ratio >= 1:
        return 1 + (weight_ratio - 1) * share
    # 1/(1 + (1/m − 1) v) without 1/m, which may overflow
    return weight_ratio / (weight_ratio + (1 - weight_ratio) * share)


def _quantile(values: FloatArray, share: float) -> float:
    """``np.quantile`` of finite values, which asks itself many questions first."""
    place = share * (len(values) - 1)
    below = int(place)
    low, high = np.partition(values, (below, min(below + 1, len(values) - 1)))[below : below + 2][[0, -1]]
    return float(low + (high - low) * (place - below))


def _unit_range(values: FloatArray, method: Method) -> FloatArray:
    low = values.min() if method == "minmax" else 0.0
    spread = values.max() - low
    return (values - low) / spread if spread > 0 else np.zeros_like(values)
