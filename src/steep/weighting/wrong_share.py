"""How many labels are wrong, within what limits, and how probable it is of each.

Classes. d_f is the share of labels contradicted (the most probable class is another) among the share f of the
samples on which the rule is surest. Where it is sure a contradicted label is nearly always a wrong one; where it
is not, right labels are contradicted too:

    n_wrong = n d_0.6,   from n (d_0.25 − 2 s) to n (d_1 + 2 s),   s² = d_0.6 (1 − d_0.6) / (n/4)

Numbers. e_c is the share of samples whose r exceeds c times the mean of the smaller nine tenths of them:

    n_wrong = n max(e_5 − 0.02, e_10),   from n (e_8 − 0.02) to n (e_3 + 0.02)

0.02 is how many stand out so far on tables as they are; hardly any does by ten. The limits held the truth in about
nine of ten runs on the development tables; how often on others is in ``docs/suspects.md``. They fail where labels
can hardly be predicted.

    s_i = 1 / (1 + exp(−b (r_i − t))),   t such that Σ s_i = n_wrong

turns margins into probabilities; for numbers r is replaced by its logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from steep._validation import FloatArray, IntArray
from steep.metrics import Interval

# Settled on the development tables of benchmarks/suspects.py.
_SUREST, _SURE = 0.25, 0.6
STANDS_OUT, _BY_CHANCE = (10.0, 8.0, 5.0, 3.0), 0.02
_STEEPNESS_OF_CLASSES, _STEEPNESS_OF_NUMBERS = 5.0, 3.0

# A margin of numbers below this share of the usual one is as good as none.
_SMALLEST_RATIO = 1e-6


def wrong_classes(codes: IntArray, expected: FloatArray) -> Interval:
    """n_wrong and its limits, from the probabilities z of each class."""
    n = len(codes)
    contradicted = (expected.argmax(axis=1) != codes)[np.argsort(-expected.max(axis=1), kind="stable")]
    return contradicted_classes(n, [float(contradicted[:first].mean()) for first in surest(n)])


def surest(n: int) -> list[int]:
    """The samples, surest first, among which the contradicted are counted: n/4, 6n/10 and n of them."""
    return [max(1, round(share * n)) for share in (_SUREST, _SURE, 1.0)]


def contradicted_classes(n: int, shares: Sequence[float]) -> Interval:
    """n_wrong and its limits, from d among the :func:`surest`."""
    least, share, most = shares
    doubt = 2 * float(np.sqrt(share * (1 - share) / (_SUREST * n)))
    return _limited(n, share, least - doubt, most + doubt)


def wrong_numbers(margin: FloatArray) -> Interval:
    """n_wrong and its limits, from r."""
    usual = float(np.sort(margin)[: usual_ones(len(margin))].mean())
    return outstanding_numbers(len(margin), [float(np.mean(margin > c * usual)) for c in STANDS_OUT])


def usual_ones(n: int) -> int:
    """How many of the smallest r are the usual ones."""
    return max(1, round(0.9 * n))


def outstanding_numbers(n: int, shares: Sequence[float]) -> Interval:
    """n_wrong and its limits, from e of each c in ``STANDS_OUT``."""
    sure, low, share, high = shares
    return _limited(n, max(share - _BY_CHANCE, sure), low - _BY_CHANCE, high + _BY_CHANCE)


def _limited(n: int, share: float, low: float, high: float) -> Interval:
    """Counts with low ≤ mean ≤ high within 0 and n."""
    mean = min(max(share, 0.0), 1.0)
    return Interval(n * mean, n * max(min(low, mean), 0.0), n * min(max(high, mean), 1.0), n)


def class_evidence(margin: FloatArray) -> FloatArray:
    """b r for classes."""
    return _STEEPNESS_OF_CLASSES * margin


def number_evidence(margin: FloatArray) -> FloatArray:
    """b log r for numbers."""
    return np.asarray(_STEEPNESS_OF_NUMBERS * np.log(margin + _SMALLEST_RATIO))


def class_scores(margin: FloatArray, n_wrong: float) -> FloatArray:
    """s for classes."""
    return _scores(class_evidence(margin), n_wrong)


def number_scores(margin: FloatArray, n_wrong: float) -> FloatArray:
    """s for numbers."""
    return _scores(number_evidence(margin), n_wrong)


def _scores(evidence: FloatArray, n_wrong: float) -> FloatArray:
    return scores_above(evidence, threshold(evidence, n_wrong))


def scores_above(evidence: FloatArray, least: float) -> FloatArray:
    """s, by the threshold t."""
    return np.asarray(expit(evidence - least))


def threshold(evidence: FloatArray, n_wrong: float, counts: FloatArray | None = None) -> float:
    """t: probabilities sum to ``n_wrong``, which half a label at least must be; each evidence may stand for several."""
    weight = np.ones(len(evidence)) if counts is None else counts
    n = float(weight.sum())
    target = float(np.clip(n_wrong, min(0.5, n / 4), n - min(0.5, n / 4)))

    def excess(least: float) -> float:
        return float(weight @ expit(evidence - least) - target)

    reach = 5 + np.log(n)  # beyond it one sample more or less is not missed
    return float(brentq(excess, float(evidence.min()) - reach, float(evidence.max()) + reach, xtol=1e-9))
