"""Variation → weights, the last line of Algorithm 2.

    w = 1 + (m − 1) v,    v = (Df̂² − min)/(max − min)   or   Df̂²/max

m is ``weight_ratio``: the weight of the steepest sample is m times that of the flattest. For m < 1 the flat regions are
favoured by the mirror image, w_m = 1/w_{1/m}, which stays within [m, 1]. The paper divides by the sum;
under a loss that is averaged this divides every step by N, so the default is mean one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from steep._validation import LARGEST_NUMBER, SMALLEST_NUMBER, FloatArray, check_choice, check_real, check_vector, shown
from steep.exceptions import InputTypeError

# The largest ratio that, taken for every table, is harmless on average: `python benchmarks/weighting.py ratios`.
WEIGHT_RATIO = 1.5

# Variation is a sum of squares over k neighbours: about k times 2⁻⁵³ of it is rounding. Differences below this share of
# it would need k in the millions to be that, and are far too small to weight samples by.
_ROUNDING = 2.0**-30


@dataclass(frozen=True)
class Rescaling:
    """How variation becomes weights, in addition to the ratio m.

    Parameters
    ----------
    method : {"minmax", "max"}, default "minmax"
        Divide by the range (the paper) or by the maximum alone (the authors' code).
    clip : float, optional
        Quantile above which variation is cut off, so that a few extreme samples do not leave all
        others at the lightest weight; None (the paper) cuts nothing.
    normalize : {"mean", "sum", None}, default "mean"
        Make the weights average one, add up to one (the paper), or leave them between 1 and m.

    Examples
    --------
    >>> rescale([0.0, 1.0, 9.0], weight_ratio=3, rescaling=Rescaling(clip=0.5, normalize=None))
    array([1., 3., 3.])
    """

    method: Literal["minmax", "max"] = "minmax"
    clip: float | None = None
    normalize: Literal["mean", "sum"] | None = "mean"

    def __post_init__(self) -> None:
        check_choice(self.method, name="method", choices=("minmax", "max"))
        check_choice(self.normalize, name="normalize", choices=("mean", "sum", None))
        if self.clip is not None:
            check_real(self.clip, name="clip", above=0.0, maximum=1.0)


def check_rescaling(given: Any, default: Rescaling = Rescaling()) -> Rescaling:
    """Return the rescaling, the default for None."""
    if not isinstance(given, Rescaling | None):
        raise InputTypeError(
            f"rescaling={shown(given)} is a {type(given).__name__}; expected a steep.Rescaling, for example "
            'steep.Rescaling(method="max")'
        )
    return default if given is None else given


def rescale(variation: Any, *, weight_ratio: float = WEIGHT_RATIO, rescaling: Rescaling | None = None) -> FloatArray:
    """Turn variation into sample weights.

    Parameters
    ----------
    variation : array-like of shape (n_samples,)
        Values ≥ 0 of any measure.
    weight_ratio : float, default 1.5
        m > 0, the largest weight over the smallest. 1 gives exactly equal weights, values below 1
        favour flat regions.
    rescaling : Rescaling, optional
        How variation is scaled and cut, and the mean of the weights; see :class:`Rescaling`.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> rescale([0.0, 1.0, 2.0], weight_ratio=3, rescaling=Rescaling(normalize=None))
    array([1., 2., 3.])
    >>> rescale([0.0, 1.0, 2.0], weight_ratio=3)
    array([0.5, 1. , 1.5])
    """
    return np.asarray(rescale_pairs([variation], [(0, weight_ratio)], check_rescaling(rescaling))[0])


def rescale_pairs(
    variations: Sequence[Any], pairs: Sequence[tuple[int, float]], rescaling: Rescaling = Rescaling()
) -> FloatArray:
    """Turn several variations into sample weights: which of them, and m, for every row of weights."""
    values = np.stack([check_vector(v, name="variation", minimum=0.0) for v in variations])
    limits = {"minimum": SMALLEST_NUMBER, "maximum": LARGEST_NUMBER}
    ratios = np.array([check_real(ratio, name="weight_ratio", above=0.0, **limits) for _, ratio in pairs])
    if rescaling.clip is not None:
        ceiling = np.quantile(values, rescaling.clip, axis=1)
        # Where more than this share is flat the quantile is zero, and nothing would be left to see.
        values = np.minimum(values, np.where(ceiling > 0, ceiling, values.max(axis=1))[:, None])
    values = level(values)
    low = values.min(axis=1, keepdims=True) if rescaling.method == "minmax" else 0.0
    spread = values.max(axis=1, keepdims=True) - low
    # Between 0 and 1; 0 where there is nothing to tell apart.
    share = np.divide(values - low, spread, out=np.zeros_like(values), where=spread > 0)
    places = np.array([place for place, _ in pairs], dtype=np.intp)
    weights = np.stack([raw_weights(share[place], ratio) for place, ratio in zip(places, ratios, strict=True)])
    if rescaling.normalize is None:
        return weights
    totals = weights.sum(axis=1, keepdims=True)
    weights /= totals if rescaling.normalize == "sum" else totals / weights.shape[1]
    # Equal weights are exactly equal, not equal up to rounding.
    equal = (share.min(axis=1) == share.max(axis=1))[places] | (ratios == 1)
    weights[equal] = 1.0 if rescaling.normalize == "mean" else 1.0 / weights.shape[1]
    return weights


def raw_weights(share: FloatArray, weight_ratio: float) -> FloatArray:
    """Weights between 1 and m, or m and 1, of variation v between 0 and 1."""
    if weight_ratio >= 1:
        return 1 + (weight_ratio - 1) * share
    return weight_ratio / (weight_ratio + (1 - weight_ratio) * share)


def level(variation: FloatArray, label_size: float = 0.0) -> FloatArray:
    """Variation, ``(..., n_samples)``, made exactly equal where it is equal up to rounding.

    The largest label, of size |y| = ``label_size`` (0 for classes, which are exact), is known to u = 4 · 2⁻⁵² |y|, a
    few roundings. Labels that change by u change a variance v by 2 u √v + u² at most, by the Cauchy-Schwarz inequality.
    """
    low, high = variation.min(axis=-1, keepdims=True), variation.max(axis=-1, keepdims=True)
    unit = 4 * float(np.finfo(np.float64).eps) * label_size
    tolerance = _ROUNDING * high + 2 * unit * np.sqrt(high) + unit**2
    return np.where(high - low <= tolerance, high, variation)


def effective_samples(weights: FloatArray) -> float:
    """(Σw)²/Σw²: how many equally weighted samples these are worth."""
    scaled = weights / weights.max()
    return float(scaled.sum() ** 2 / (scaled**2).sum())
