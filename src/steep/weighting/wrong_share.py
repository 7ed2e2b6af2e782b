"""How many labels are wrong, and how sure that is.

Classes, after Northcutt, Jiang and Chuang (2021): a sample counts as one of class c when its probability of c
reaches the mean probability of c among the samples labelled c, and c is the most probable of such classes. The
share of those, class by class, that are labelled otherwise is the share of wrong labels.

Numbers: residuals are Student's t around their median with the spread of the middle half; what lies beyond what
such a bulk explains is wrong.

The interval resamples the samples. It says how far chance could move the estimate, not whether the model is apt.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray
from steep.metrics import Interval

BoolArray = npt.NDArray[np.bool_]

_REPEATS = 200

# The residuals of right labels: Student's t of so many degrees of freedom has the tails of real tables.
_DEGREES = 4.0


def wrong_classes(codes: IntArray, probabilities: FloatArray, rng: np.random.Generator) -> Interval:
    """Number of wrong labels among classes, with its 95 % interval."""
    n_classes = probabilities.shape[1]
    sums = np.bincount(codes, weights=probabilities[np.arange(len(codes)), codes], minlength=n_classes)
    sizes = np.bincount(codes, minlength=n_classes)
    thresholds = np.divide(sums, sizes, out=np.ones(n_classes), where=sizes > 0)
    sure = probabilities >= thresholds - 1e-12
    likeliest = np.where(sure, probabilities, -1.0).argmax(axis=1)
    counted = np.asarray(sure.any(axis=1))
    contradicted = np.asarray(counted & (likeliest != codes))
    return _resampled(codes, counted, contradicted, sizes, rng)


def _resampled(
    codes: IntArray, counted: BoolArray, contradicted: BoolArray, sizes: IntArray, rng: np.random.Generator
) -> Interval:
    """Σ_c n_c · (contradicted of c / counted of c), and the same with the counts drawn again."""
    heard = np.bincount(codes[counted], minlength=len(sizes))
    against = np.bincount(codes[contradicted], minlength=len(sizes))
    share = np.divide(against, heard, out=np.zeros(len(sizes)), where=heard > 0)
    drawn = rng.binomial(heard, share, size=(_REPEATS, len(sizes)))
    spread = np.divide(drawn, heard, out=np.zeros(drawn.shape), where=heard > 0) @ sizes
    low, high = np.quantile(spread, [0.025, 0.975])
    return Interval(float(share @ sizes), float(low), float(high), len(codes))


def wrong_numbers(residuals: FloatArray, rng: np.random.Generator) -> Interval:
    """Number of wrong labels among numbers, with its 95 % interval."""
    from scipy import stats

    size = np.abs(residuals)
    bulk = float(np.median(size)) / float(stats.t.ppf(0.75, _DEGREES))
    if bulk == 0:
        return Interval(float(np.count_nonzero(size)), 0.0, float(np.count_nonzero(size)), len(size))
    cut = 5.0 * bulk
    by_chance = 2 * float(stats.t.sf(5.0, _DEGREES))
    beyond = float(np.mean(size > cut))
    n = len(size)
    drawn = np.clip(rng.binomial(n, beyond, size=_REPEATS) / n - by_chance, 0, 1) * n
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(max(beyond - by_chance, 0.0) * n, float(low), float(high), n)
