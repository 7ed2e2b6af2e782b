"""From weights back to what a slider for ``weight_ratio`` needs: each sample's share, and the ratio used.

    w = c (1 + (m − 1) v)         m ≥ 1
    w = c / (1 + (1/m − 1) v)     m < 1

so v, from 0 at the flattest sample to 1 at the steepest, follows from the weights alone once it is known whether
heavy samples are the steep ones. Weights of zero stay zero at every ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steep._validation import FloatArray

# Weights this near to each other are equal but for rounding.
_EQUAL = 1e-9
# Values that stand for the distribution of all samples.
_MOST_QUANTILES = 4001


@dataclass(frozen=True)
class Ratio:
    """The share v of every sample, NaN where the weight is zero, and the ratio m of the weights.

    ``is_from_weights`` is False where equal weights say nothing of v and the variation was taken.
    """

    share: FloatArray
    ratio: float
    is_from_weights: bool

    @classmethod
    def of(cls, weights: FloatArray, variation: FloatArray | None) -> Ratio:
        """Undo :func:`steep.rescale`.

        Examples
        --------
        >>> found = Ratio.of(np.array([0.5, 1.0, 1.5]), None)
        >>> found.share, found.ratio
        (array([0. , 0.5, 1. ]), 3.0)
        """
        used = weights > 0
        heavy = weights[used]
        share = np.full(len(weights), np.nan)
        if heavy.max() <= heavy.min() * (1 + _EQUAL):
            share[used] = 0.0 if variation is None else _unit_range(variation[used])
            return cls(share, 1.0, variation is None)
        is_flat_heavy = variation is not None and _falls(variation[used], heavy)
        share[used] = _unit_range(heavy.min() / heavy if is_flat_heavy else heavy)
        ratio = float(heavy.max() / heavy.min())
        return cls(share, 1 / ratio if is_flat_heavy else ratio, True)

    def quantiles(self) -> FloatArray:
        """The shares of all samples in order, or as many quantiles as a page has room for."""
        return quantiles_of(self.share, _MOST_QUANTILES)


def quantiles_of(share: FloatArray, most: int) -> FloatArray:
    """Shares in order, those of weight zero left out; ``most`` of them, evenly chosen, where there are more.

    Examples
    --------
    >>> quantiles_of(np.array([0.5, np.nan, 0.0, 1.0]), 3)
    array([0. , 0.5, 1. ])
    """
    known = np.sort(share[~np.isnan(share)])
    if len(known) <= most:
        return known
    middle = (np.arange(most) + 0.5) / most
    return np.asarray(known[(middle * len(known)).astype(np.intp)])


def effective_samples(weights: FloatArray) -> float:
    """(Σw)²/Σw²: how many equally weighted samples these are worth."""
    scaled = weights / weights.max()
    return float(scaled.sum() ** 2 / (scaled**2).sum())


def _unit_range(values: FloatArray) -> FloatArray:
    low, spread = values.min(), values.max() - values.min()
    return (values - low) / spread if spread > 0 else np.zeros_like(values)


def _falls(variation: FloatArray, weights: FloatArray) -> bool:
    """Whether weights fall as the variation grows."""
    first, second = _unit_range(variation), _unit_range(weights)
    return bool((first - first.mean()) @ (second - second.mean()) < 0)
