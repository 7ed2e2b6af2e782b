"""How many labels are wrong, within what limits, and how probable it is of each.

Classes. d_f is the share of labels contradicted (the most probable class is another) among the share f of the
samples on which the rule is surest. If it is sure a contradicted label is nearly always a wrong one; where it
is not, right labels are contradicted too:

    n_wrong = n d_0.6,   from n (d_0.25 − 2 s) to n (d_1 + 2 s),   s² = d_0.6 (1 − d_0.6) / (n/4)

If the model alone is asked, or more than half of all labels are contradicted, the surest samples do not help. With e
the share of labels surely contradicted (another class has more than 0.5 and the own one less than 0.1),

    n_wrong = n (e + d_1)/2,   from n (e − 2 s) to n (d_1 + 2 s)

Numbers. e_c is the share of samples whose r exceeds c times the mean of the smaller nine tenths of them:

    n_wrong = n max(e_5 − 0.02, e_10),   from n (e_8 − 0.02) to n (e_3 + 0.02)

0.02 is how many stand out so far on tables as they are; hardly any does by ten.

    s_i = 1 / (1 + exp(−b (r_i − t))),   t such that Σ s_i = n_wrong

turns margins into scores, which are not calibrated probabilities; for numbers r is replaced by its logarithm.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit

from steep._validation import FloatArray
from steep.metrics import Interval

# Settled on the development tables of benchmarks/suspects.py.
_SUREST, _SURE, _PREDICTABLE = 0.25, 0.6, 0.5
_STANDS_OUT, _BY_CHANCE = (10.0, 8.0, 5.0, 3.0), 0.02
_STEEPNESS_OF_CLASSES, _STEEPNESS_OF_NUMBERS = 5.0, 3.0

# A margin of numbers below this share of the usual one is as good as none.
_SMALLEST_RATIO = 1e-6


def wrong_classes(
    is_contradicted: npt.NDArray[np.bool_],
    likely: FloatArray,
    is_surely: npt.NDArray[np.bool_],
    *,
    by_model: bool = False,
) -> Interval:
    """n_wrong and its limits, from whether z contradicts each label, the largest z, and whether it surely does."""
    n = len(likely)
    surest_first = is_contradicted[np.argsort(-likely, kind="stable")]
    least, share, most = (float(surest_first[: max(1, round(part * n))].mean()) for part in (_SUREST, _SURE, 1.0))
    doubt = 2 * float(np.sqrt(share * (1 - share) / (_SUREST * n)))
    if by_model or most > _PREDICTABLE:
        least = float(is_surely.mean())
        share = (least + most) / 2
    return _limited(n, share, least - doubt, most + doubt)


def wrong_numbers(margin: FloatArray) -> Interval:
    """n_wrong and its limits, from r."""
    n = len(margin)
    usual = float(np.sort(margin)[: max(1, round(0.9 * n))].mean())
    sure, low, share, high = (float(np.mean(margin > c * usual)) for c in _STANDS_OUT)
    return _limited(n, max(share - _BY_CHANCE, sure), low - _BY_CHANCE, high + _BY_CHANCE)


def _limited(n: int, share: float, low: float, high: float) -> Interval:
    """Counts with low ≤ mean ≤ high within 0 and n."""
    mean = min(max(share, 0.0), 1.0)
    return Interval(n * mean, n * max(min(low, mean), 0.0), n * min(max(high, mean), 1.0), n)


def class_scores(margin: FloatArray, n_wrong: float) -> FloatArray:
    """s for classes."""
    return _scores(_STEEPNESS_OF_CLASSES * margin, n_wrong)


def number_scores(margin: FloatArray, n_wrong: float) -> FloatArray:
    """s for numbers."""
    return _scores(_STEEPNESS_OF_NUMBERS * np.log(margin + _SMALLEST_RATIO), n_wrong)


def _scores(evidence: FloatArray, n_wrong: float) -> FloatArray:
    """s, by the t for which they sum to ``n_wrong``, which half a label at least must be."""
    n = len(evidence)
    target = float(np.clip(n_wrong, min(0.5, n / 4), n - min(0.5, n / 4)))

    def excess(least: float) -> float:
        return float(expit(evidence - least).sum() - target)

    reach = 5 + np.log(n)  # beyond it one sample more or less is not missed
    least = brentq(excess, float(evidence.min()) - reach, float(evidence.max()) + reach, xtol=1e-9)
    return np.asarray(expit(evidence - least))
