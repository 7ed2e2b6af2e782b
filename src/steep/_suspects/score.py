"""What speaks against a label, how many labels are wrong, and how probable it is of each.

Classes. With S the k nearest neighbours of x_i without x_i itself, ỹ the labels as given, π_c the share of class
c and p the probabilities of a model fitted without x_i:

    v_ic = (Σ_{j∈S} 1{ỹ_j = c} + π_c) / (k + 1)      votes of the neighbours
    w    = argmax Σ_i log((1 − w) p_iỹ + w v_iỹ)     how much the neighbours add to the model
    a    = 1/4 + w/2
    q    = (1 − a) p + a v                           both together
    u_ic = (Σ_{j∈S} t_jc + mean_j t_jc) / (k + 1)    votes again, a doubtful neighbour's vote split
    z    = (1 − a) p + a u

t says what each label probably is, first from q, then from z (``true_classes``). Thousands of classes stop at q. The
margins against the own label in z and in t together are

    r_i  = h √max_{c≠ỹ} z_ic − √z_iỹ + h (√max_{c≠ỹ} t_ic − √t_iỹ)/2

h is 1 until 43 % of the labels are contradicted (the most probable class is another), and 0 from 47 % on: what a weak
model names instead of a label says little.

Neighbours have no say in two cases. Either the model gives them nearly the probabilities it gives the sample: then
their labels show only how labels are given there, errors that follow a pattern among them. Or they name the given
labels far less often than the model does. Then, with c the most probable other class and g_ỹc the share of the label
ỹ among the samples that the model takes for c (classes that are often mixed up are a reason to doubt the label),

    r_i = (h log p_ic − log p_iỹ + 0.2 h log g_ỹc)/3

All figures were settled on the development tables of ``benchmarks/suspects.py``.

How many are wrong. For classes, d_f is the share of labels contradicted among the share f of the samples on which the
rule is surest. If it is sure a contradicted label is nearly always a wrong one; if not, right ones are too:

    n_wrong = n d_0.6,   from n (d_0.25 − 2 s) to n (d_1 + 2 s),   s² = d_0.6 (1 − d_0.6) / (n/4)

If the model alone is asked, or more than half of all labels are contradicted, the surest samples do not help. With e
the share of labels surely contradicted (another class has more than 0.5 and the own one less than 0.1),

    n_wrong = n (e + d_1)/2,   from n (e − 2 s) to n (d_1 + 2 s)

For numbers, e_c is the share of samples whose r exceeds c times the mean of the smaller nine tenths of them. 0.02 is
how many stand out so far on tables as they are; hardly any does by ten:

    n_wrong = n max(e_5 − 0.02, e_10),   from n (e_8 − 0.02) to n (e_3 + 0.02)

    s_i = 1 / (1 + exp(−3 (r_i − m))),   m such that Σ s_i = n_wrong

turns margins into scores; for numbers r is replaced by its logarithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq, minimize_scalar
from scipy.sparse import csr_matrix, issparse
from scipy.special import expit

from steep._validation import FloatArray, IntArray
from steep.metrics import Interval

_LEAST_SHARE, _MOST_SHARE = 0.25, 0.75
# How far the probabilities of neighbours are from those of the sample: 0 for the nearest probabilities in the data, 1
# for those of any sample. Neighbours below this repeat the model: searched among the probabilities themselves they
# are at 0.003, among their logarithms at 0.04, and on the development tables at 0.13 to 0.63.
# They are too weak where they name this share of the labels that the model names, or fewer.
_REPEATED, _WEAK = 0.08, 0.6
_COARSE = 32  # different probabilities, and fewer, are those of ten trees or five neighbours
_JUDGED, _COMPARED = 300, 20_000  # samples on which both are looked at, and others they are compared with
# Labels are surely contradicted below and above these z of their own and of another class.
_SURELY_OWN, _SURELY_OTHER = 0.1, 0.5
# What the share of a mix-up counts for, and what is added to the counts.
_MIXED_UP, _PRIOR = 0.2, 0.5
# Added to probabilities before a logarithm: forests give exact zeros. Logarithms over 3 span what r from roots does.
_FLOOR, _LOGARITHMS = 1e-3, 3.0
# Shares of labels contradicted between which h falls from 1 to 0, and what t counts for.
_STRONG, _WEAKEST, _TRUE_CLASSES = 0.43, 0.47, 0.5
# Labels added to those of the sure, steps that find y, powers of it that are tried.
_USUAL_LABELS, _STEPS, _POWERS = 5, 5, (1.0, 1.4, 2.0, 2.8)
# Probabilities held at once, or thousands of classes would fill the memory; and the most products of a step.
_AT_ONCE, _MOST_WORK = 2**22, 2**31
# Of the counts and scores; a margin of numbers below the last is as good as none.
_SUREST, _SURE, _PREDICTABLE = 0.25, 0.6, 0.5
_STANDS_OUT, _BY_CHANCE = (10.0, 8.0, 5.0, 3.0), 0.02
_STEEPNESS, _SMALLEST_RATIO = 3.0, 1e-6


@dataclass(frozen=True)
class Suspicion:
    """What speaks against every label, and how many are wrong."""

    margin: FloatArray  # r: the larger, the more speaks against the label
    expected: npt.NDArray[Any]  # the most probable other class, by its code; or the number expected
    neighbor_share: float  # a, or w for numbers: how much the neighbours count compared with the model
    n_wrong: Interval
    is_contradicted: npt.NDArray[np.bool_] | None = None  # whether another class is the most probable; for classes only


def ballots(indices: IntArray, groups: IntArray | None = None) -> csr_matrix:
    """Who is asked about whom, ``(n_samples, n_samples)``: 1 for a neighbour, unless it is of the same group."""
    n_samples, k = indices.shape
    asked = np.ones(indices.size, dtype=np.float32)
    if groups is not None:
        asked[(groups[indices] == groups[:, None]).ravel()] = 0.0
    return csr_matrix((asked, indices.ravel(), np.arange(0, indices.size + 1, k)), shape=(n_samples, n_samples))


def count_votes(asked: csr_matrix, opinions: FloatArray) -> FloatArray:
    """u: what the neighbours say, and one vote for what all say on average."""
    return np.asarray((asked @ opinions + opinions.mean(axis=0)) / (np.asarray(asked.sum(axis=1)) + 1))


class Opinions:
    """v and (1 − a) p + a v of some samples at a time; p may be sparse, and few counts of votes are not 0."""

    def __init__(self, codes: IntArray, predicted: Any, asked: csr_matrix) -> None:
        n_samples, n_classes = predicted.shape
        member = csr_matrix((np.ones(n_samples), codes, np.arange(n_samples + 1)), shape=(n_samples, n_classes))
        self.codes, self._average = codes, np.asarray(member.mean(axis=0))
        self._predicted, self._counts, self._heard = predicted, asked @ member, np.asarray(asked.sum(axis=1))

    def rows(self) -> Iterator[slice]:
        """Samples, some at a time."""
        n, step = len(self.codes), max(1, _AT_ONCE // self._predicted.shape[1])
        yield from (slice(first, min(first + step, n)) for first in range(0, n, step))

    def own(self) -> tuple[FloatArray, FloatArray]:
        """p and v of the labels as given."""
        place = np.arange(len(self.codes)), self.codes
        predicted = np.asarray(self._predicted[place], dtype=np.float64).ravel()
        counts = np.asarray(self._counts[place]).ravel()
        return predicted, (counts + self._average[0, self.codes]) / (self._heard[:, 0] + 1)

    def votes(self, part: Any) -> FloatArray:
        """v of some samples."""
        return np.asarray((self._counts[part].toarray() + self._average) / (self._heard[part] + 1))

    def together(self, part: slice, share: float) -> FloatArray:
        """(1 − a) p + a v of some samples."""
        by_model = (1 - share) * _dense(self._predicted[part])
        return by_model + share * self.votes(part) if share else by_model


def _dense(probabilities: Any) -> FloatArray:
    return np.asarray(probabilities.toarray() if issparse(probabilities) else probabilities, dtype=np.float64)


def suspect_classes(codes: IntArray, predicted: Any, asked: csr_matrix) -> Suspicion:
    """r, the most probable other class and a for classes; ``predicted`` may be sparse."""
    opinions = Opinions(codes, predicted, asked)
    share = 0.0
    if neighbors_help(opinions, predicted, asked):
        p, v = opinions.own()
        weight = best_weight(lambda w: -float(np.log((1 - w) * p + w * v + _FLOOR).mean()))
        share = _LEAST_SHARE + (_MOST_SHARE - _LEAST_SHARE) * weight
    true = None
    if share and len(codes) * predicted.shape[1] ** 2 <= _MOST_WORK:
        by_model, every = _dense(predicted), slice(0, len(codes))
        true = true_classes(opinions.together(every, share), codes)
        likely = (1 - share) * by_model + share * count_votes(asked, true)
        true = true_classes(likely, codes)
        own, other, code = _own_and_other(likely, codes)
    else:
        found = [_own_and_other(opinions.together(part, share), codes[part]) for part in opinions.rows()]
        own, other, code = (np.concatenate(columns) for columns in zip(*found, strict=True))
    contradicted = (other > own) | ((other == own) & (code < codes))
    heard = float(np.clip((_WEAKEST - contradicted.mean()) / (_WEAKEST - _STRONG), 0.0, 1.0))
    if share:
        margin = heard * np.sqrt(other) - np.sqrt(own)
    else:
        mixed_up = np.log(_share_of_mix_up(codes, code, np.where(contradicted, code, codes)))
        against = np.log(other + _FLOOR) + _MIXED_UP * mixed_up
        margin = (heard * against - np.log(own + _FLOOR)) / _LOGARITHMS
    if true is not None:
        still_own, still_other, code = _own_and_other(true, codes)
        margin += heard * _TRUE_CLASSES * (np.sqrt(still_other) - np.sqrt(still_own))
    surely = (other > _SURELY_OTHER) & (own < _SURELY_OWN)
    n_wrong = wrong_classes(contradicted, np.maximum(own, other), surely, by_model=not share)
    return Suspicion(margin, code, share, n_wrong, contradicted)


def _own_and_other(likely: FloatArray, codes: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """The probability of the label as given, the largest other one, and its class."""
    rows, others = np.arange(len(codes)), likely.copy()
    others[rows, codes] = -1.0
    code = others.argmax(axis=1)
    return likely[rows, codes], np.maximum(others[rows, code], 0.0), code


def _share_of_mix_up(codes: IntArray, other: IntArray, taken: IntArray) -> FloatArray:
    """g: how often each label is found among the samples that are ``taken`` for the ``other`` class."""
    n_classes = int(max(codes.max(), other.max())) + 1
    counts = csr_matrix((np.ones(len(codes)), (codes, taken)), shape=(n_classes, n_classes))
    n_taken = np.bincount(taken, minlength=n_classes)[other]
    return np.asarray((np.asarray(counts[codes, other]).ravel() + _PRIOR) / (n_taken + _PRIOR * n_classes))


def neighbors_help(opinions: Opinions, predicted: Any, asked: csr_matrix) -> bool:
    """Whether neighbours may know more than the model: it tells them from the sample, and they name enough labels."""
    n_samples, n_classes = predicted.shape
    k = max(asked.nnz // n_samples, 1)
    rng = np.random.default_rng(0)
    order = rng.permutation(n_samples)
    rows = order[: int(np.clip(_AT_ONCE // (k * n_classes), 20, _JUDGED))]
    some = order[: int(np.clip(_AT_ONCE // n_classes, 1_000, _COMPARED))]
    mine, all_others = _dense(predicted[rows]), _dense(predicted[some])
    near = _dense(predicted[asked[rows].indices]).reshape(len(rows), -1, n_classes)
    # A model with few different probabilities, or one that is certain of everything, leaves ties to the neighbours.
    if len(np.unique(mine)) <= _COARSE:
        return True
    nearest = 1 + max(1, round(k * len(some) / n_samples))  # the sample itself is among them
    gaps = np.array([np.abs(all_others - p).sum(axis=1) for p in mine])
    closest = float(np.partition(gaps, nearest - 1, axis=1)[:, :nearest].sum() / (len(rows) * (nearest - 1)))
    apart, usual = float(np.abs(near - mine[:, None]).sum(axis=2).mean()), float(gaps.mean())
    named, by_model = (float(np.mean(z.argmax(axis=1) == opinions.codes[rows])) for z in (opinions.votes(rows), mine))
    return apart - closest > _REPEATED * (usual - closest) and named > _WEAK * by_model


def best_weight(loss: Callable[[float], float]) -> float:
    """w or v: the weight from 0 to 1 of the second of two opinions, by a loss that is convex in it."""
    return float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3}).x)


def _in_shares(weights: FloatArray) -> FloatArray:
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def true_classes(likely: FloatArray, codes: IntArray) -> FloatArray:
    """t, the probability of every class to be the true one of a label, given the probabilities x of the samples.

    P(ỹ | c) are the shares of the labels among the surer half of the samples that are taken for c, and five labels as
    they are on average. x was learnt from wrong labels and is a mixture y P(ỹ | c) of what would be learnt from true
    ones; a few of Richardson's steps find y. A power of y, the one under which the labels as given are likeliest, is
    sharper, as what is learnt from true labels would be:

        y_ic ← y_ic Σ_l P(l | c) x_il / Σ_d P(l | d) y_id,   t_ic ∝ y_ic^b P(ỹ_i | c)
    """
    labelled = _labels_of_the_sure(likely, codes)
    seen = _in_shares(likely + _FLOOR)
    clear = seen
    for _ in range(_STEPS):
        clear = _in_shares(clear * ((seen / (clear @ labelled.T)) @ labelled))
    best = -np.inf
    for power in _POWERS:
        sharp = _in_shares(clear**power)
        fit = float(np.log((sharp * labelled[codes]).sum(axis=1)).mean())
        if fit > best:
            best, true = fit, sharp * labelled[codes]
    return _in_shares(true)


def _labels_of_the_sure(likely: FloatArray, codes: IntArray) -> FloatArray:
    """P(ỹ | c), a row for each label and a column for each class."""
    n_classes = likely.shape[1]
    taken, surety = likely.argmax(axis=1), likely.max(axis=1)
    is_sure = surety >= pd.Series(surety).groupby(taken).transform("median").to_numpy()
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (codes[is_sure], taken[is_sure]), 1.0)
    wrong = 1 - np.trace(counts) / counts.sum()
    usual = np.where(np.eye(n_classes, dtype=bool), 1 - wrong, wrong / max(n_classes - 1, 1))
    counts += _USUAL_LABELS * usual
    return np.asarray(counts / counts.sum(axis=0))


def wrong_classes(
    is_contradicted: npt.NDArray[np.bool_], likely: FloatArray, is_surely: npt.NDArray[np.bool_], *, by_model: bool
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
    mean, low, high = np.clip([share, min(low, share), max(high, share)], 0.0, 1.0).tolist()
    return Interval(n * mean, n * low, n * high, n)


def scores(margin: FloatArray, n_wrong: float, *, is_number: bool) -> FloatArray:
    """s, by the m for which they sum to ``n_wrong``, which half a label at least must be."""
    evidence = _STEEPNESS * (np.log(margin + _SMALLEST_RATIO) if is_number else margin)
    n = len(evidence)
    target = float(np.clip(n_wrong, min(0.5, n / 4), n - min(0.5, n / 4)))

    def excess(least: float) -> float:
        return float(expit(evidence - least).sum() - target)

    reach = 5 + np.log(n)  # beyond it one sample more or less is not missed
    least = brentq(excess, float(evidence.min()) - reach, float(evidence.max()) + reach, xtol=1e-9)
    return np.asarray(expit(evidence - least))
