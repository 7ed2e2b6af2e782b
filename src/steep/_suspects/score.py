"""What speaks against a label: its neighbours, and a model that has not seen it.

Classes. With S the k nearest neighbours of x_i without x_i itself, ỹ the labels as given, π_c the share of class
c and p the probabilities of a model fitted without x_i:

    v_ic = (Σ_{j∈S} 1{ỹ_j = c} + π_c) / (k + 1)      votes of the neighbours
    w    = argmax Σ_i log((1 − w) p_iỹ + w v_iỹ)     how much the neighbours add to the model
    a    = 1/4 + w/2
    q    = (1 − a) p + a v                           both together
    t_ic ∝ q_ic P(ỹ_i | c)                           what the label of i probably is, P from t itself
    u_ic = (Σ_{j∈S} t_jc + mean_j t_jc) / (k + 1)    votes again, a doubtful neighbour's vote split
    r_i  = √max_{c≠ỹ} z_ic − √z_iỹ,                  z = (1 − a) p + a u

r is the margin against the own label. The root stands between the probabilities themselves, which are best for
few classes and errors near the border, and their logarithms, best for many classes and errors anywhere.

Numbers. With m_i the median label over S, ŷ the model's prediction and w the weight that fits the labels best in
the mean absolute error:

    e_i  = min(|ỹ_i − ŷ_i|, |ỹ_i − (1 − w) ŷ_i − w m_i|)      either may speak for the label
    r_i  = e_i / (0.3 mean_{j∈S} e_j + 0.7 median_l mean_{j∈S(l)} e_j)

Every figure here was settled on the development tables of ``benchmarks/suspects.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.sparse import csc_matrix, csr_matrix, issparse

from steep._validation import FloatArray, IntArray

_LEAST_SHARE, _MOST_SHARE = 0.25, 0.75
_LOCAL_SHARE = 0.3

# Added to probabilities before a logarithm: forests give exact zeros.
_FLOOR = 1e-3

# The first guess of P(ỹ | c), and rounds after which it no longer moves.
_FIRST_RIGHT = 0.8
_ROUNDS = 10

_AT_ONCE = 2**22  # probabilities held at once: thousands of classes of many samples would fill the memory


@dataclass(frozen=True)
class Suspicion:
    """What speaks against every label.

    Attributes
    ----------
    margin : ndarray of shape (n_samples,)
        r: the larger, the more speaks against the label.
    expected : ndarray of shape (n_samples,)
        The most probable other class, by its code; or the number expected.
    neighbor_share : float
        a, or w for numbers: how much the neighbours count compared with the model.
    likely : ndarray of shape (n_samples,)
        z of the most probable class; for classes only.
    is_contradicted : ndarray of bool of shape (n_samples,)
        Whether that is another class than the label's; for classes only.
    """

    margin: FloatArray
    expected: npt.NDArray[Any]
    neighbor_share: float
    likely: FloatArray = field(default_factory=lambda: np.empty(0))
    is_contradicted: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))


def ballots(indices: IntArray, groups: IntArray | None = None) -> csr_matrix:
    """Who is asked about whom, ``(n_samples, n_samples)``: 1 for a neighbour, unless it is of the same group."""
    n_samples, k = indices.shape
    asked = np.ones(indices.size, dtype=np.float32)
    if groups is not None:
        asked[(groups[indices] == groups[:, None]).ravel()] = 0.0
    starts = np.arange(0, indices.size + 1, k)
    return csr_matrix((asked, indices.ravel(), starts), shape=(n_samples, n_samples))


def n_heard(asked: csr_matrix) -> FloatArray:
    """How many neighbours of each sample are asked, as a column."""
    return np.asarray(asked.sum(axis=1)).reshape(-1, 1)


def count_votes(asked: csr_matrix, opinions: FloatArray) -> FloatArray:
    """v or u: what the neighbours say, and one vote for what all say on average."""
    return np.asarray((asked @ opinions + opinions.mean(axis=0)) / (n_heard(asked) + 1))


class Opinions:
    """p, v and (1 − a) p + a v, some samples or some classes at a time.

    Few counts of votes are not 0, and few of p where it is sparse: only a block of them is ever made dense.
    """

    def __init__(self, codes: IntArray, predicted: Any, asked: csr_matrix) -> None:
        n_samples, self.n_classes = predicted.shape
        shape = n_samples, self.n_classes
        member = csr_matrix((np.ones(n_samples), codes, np.arange(n_samples + 1)), shape=shape)
        self.codes, self.heard, self.average = codes, n_heard(asked), np.asarray(member.mean(axis=0))
        self._predicted, self._counts = predicted, asked @ member
        self._predicted_by_class = csc_matrix(predicted) if issparse(predicted) else predicted
        self._counts_by_class = csc_matrix(self._counts)

    def rows(self) -> Iterator[slice]:
        """Samples, some at a time."""
        yield from _slices(len(self.codes), self.n_classes)

    def columns(self) -> Iterator[slice]:
        """Classes, some at a time."""
        yield from _slices(self.n_classes, len(self.codes))

    def own(self) -> tuple[FloatArray, FloatArray]:
        """p and v of the labels as given."""
        place = np.arange(len(self.codes)), self.codes
        predicted = np.asarray(self._predicted[place], dtype=np.float64).ravel()
        counts = np.asarray(self._counts[place]).ravel()
        return predicted, (counts + self.average[0, self.codes]) / (self.heard[:, 0] + 1)

    def votes(self, part: slice) -> FloatArray:
        """v of some samples."""
        return np.asarray((self._counts[part].toarray() + self.average) / (self.heard[part] + 1))

    def together(self, part: slice, share: float) -> FloatArray:
        """(1 − a) p + a v of some samples."""
        return (1 - share) * _dense(self._predicted[part]) + share * self.votes(part)

    def of_classes(self, part: slice, share: float) -> tuple[FloatArray, FloatArray]:
        """(1 − a) p, and that + a v, of some classes of all samples."""
        votes = (self._counts_by_class[:, part].toarray() + self.average[:, part]) / (self.heard + 1)
        by_model = (1 - share) * _dense(self._predicted_by_class[:, part])
        return by_model, by_model + share * votes


def _slices(n: int, width: int) -> Iterator[slice]:
    step = max(1, _AT_ONCE // width)
    yield from (slice(first, min(first + step, n)) for first in range(0, n, step))


def _dense(probabilities: Any) -> FloatArray:
    return np.asarray(probabilities.toarray() if issparse(probabilities) else probabilities, dtype=np.float64)


def suspect_classes(codes: IntArray, predicted: Any, asked: csr_matrix) -> Suspicion:
    """r, the most probable other class and a for classes; ``predicted`` may be sparse."""
    opinions = Opinions(codes, predicted, asked)
    share = _LEAST_SHARE + (_MOST_SHARE - _LEAST_SHARE) * _mixture_weight(*opinions.own())
    labelled, totals, on_average = true_classes(opinions, share)
    own, other, code = np.zeros(len(codes)), np.full(len(codes), -np.inf), np.zeros(len(codes), np.int64)
    for part in opinions.columns():
        by_model, together = opinions.of_classes(part, share)
        likely = together * labelled[codes, part] / totals[:, None]
        found = by_model + share * (asked @ likely + on_average[part]) / (opinions.heard + 1)
        mine = np.flatnonzero((codes >= part.start) & (codes < part.stop))
        own[mine] = found[mine, codes[mine] - part.start]
        found[mine, codes[mine] - part.start] = -1.0
        best = found.argmax(axis=1)
        height = found[np.arange(len(found)), best]
        code = np.where(height > other, best + part.start, code)
        other = np.maximum(other, height)
    contradicted = (other > own) | ((other == own) & (code < codes))
    margin = np.sqrt(np.maximum(other, 0.0)) - np.sqrt(own)
    return Suspicion(margin, code, share, np.maximum(own, other), contradicted)


def _mixture_weight(by_model: FloatArray, by_neighbors: FloatArray) -> float:
    """w: the likelihood of a mixture is concave in its weight."""
    by_model, by_neighbors = by_model + _FLOOR, by_neighbors + _FLOOR

    def loss(weight: float) -> float:
        return -float(np.log((1 - weight) * by_model + weight * by_neighbors).mean())

    return float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3}).x)


def true_classes(opinions: Opinions, share: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P(ỹ | c), the sum by which t of each sample is divided, and the mean of t.

    P(ỹ | c), the chance that class c is labelled ỹ, and t follow from each other; both are found in turns.
    """
    n_classes, codes = opinions.n_classes, opinions.codes
    wrong = (1 - _FIRST_RIGHT) / max(n_classes - 1, 1)
    after = np.where(np.eye(n_classes, dtype=bool), _FIRST_RIGHT, wrong)  # row: the label, column: the class
    totals = np.empty(len(codes))
    for _ in range(_ROUNDS):
        labelled, sums = after, np.zeros((n_classes, n_classes))
        for part in opinions.rows():
            true = opinions.together(part, share) * labelled[codes[part]]
            totals[part] = true.sum(axis=1) + 1e-12
            true /= totals[part, None]
            sums += _sums_by_label(codes[part], true)
        after = 0.1 + np.eye(n_classes) + sums  # a tenth of a sample everywhere, and one where the label is right
        after /= after.sum(axis=0)
    return labelled, totals, sums.sum(axis=0) / len(codes)


def _sums_by_label(codes: IntArray, true: FloatArray) -> FloatArray:
    """Σ t over the samples of each label, a row each."""
    shape = true.shape[1], len(codes)
    return np.asarray(csr_matrix((np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=shape) @ true)


def suspect_numbers(values: FloatArray, predicted: FloatArray, asked: csr_matrix) -> Suspicion:
    """r, the number expected and w."""
    around = _medians(values, predicted, asked)
    share = _absolute_weight(values, predicted, around)
    expected = (1 - share) * predicted + share * around
    error = np.minimum(np.abs(values - predicted), np.abs(values - expected))
    local = count_votes(asked, error[:, None])[:, 0]
    usual = _LOCAL_SHARE * local + (1 - _LOCAL_SHARE) * float(np.median(local))
    usual += np.finfo(np.float64).tiny + 1e-9 * float(np.abs(values).max())
    return Suspicion(np.asarray(error / usual), expected, share)


def _medians(values: FloatArray, predicted: FloatArray, asked: csr_matrix) -> FloatArray:
    """m: medians over the neighbours that are asked; the prediction where none is."""
    k = asked.nnz // len(values)
    around = values[asked.indices].reshape(-1, k)
    silent = asked.data.reshape(-1, k) == 0
    if not silent.any():
        return np.asarray(np.median(around, axis=1))
    around = np.where(silent, np.nan, around)
    alone = silent.all(axis=1)
    around[alone] = predicted[alone, None]
    return np.asarray(np.nanmedian(around, axis=1))


def _absolute_weight(values: FloatArray, predicted: FloatArray, around: FloatArray) -> float:
    """w: the mean absolute error is convex in the weight."""

    def loss(weight: float) -> float:
        return float(np.abs(values - (1 - weight) * predicted - weight * around).mean())

    return float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3}).x)
