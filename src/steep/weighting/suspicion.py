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

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix

from steep._validation import FloatArray, IntArray

_LEAST_SHARE, _MOST_SHARE = 0.25, 0.75
_LOCAL_SHARE = 0.3

# Added to probabilities before a logarithm: forests give exact zeros.
_FLOOR = 1e-3

# The first guess of P(ỹ | c), and rounds after which it no longer moves.
_FIRST_RIGHT = 0.8
ROUNDS = 10


@dataclass(frozen=True)
class Suspicion:
    """What speaks against every label.

    Attributes
    ----------
    margin : ndarray of shape (n_samples,)
        r: the larger, the more speaks against the label.
    expected : ndarray
        z, one column a class, or the number expected.
    neighbor_share : float
        a, or w for numbers: how much the neighbours count beside the model.
    """

    margin: FloatArray
    expected: FloatArray
    neighbor_share: float


def ballots(indices: IntArray, groups: IntArray | None = None) -> csr_matrix:
    """Who is asked about whom, ``(n_samples, n_samples)``: 1 for a neighbour, unless it is of the same group."""
    n_samples, k = indices.shape
    asked = np.ones(indices.size, dtype=np.float32)
    if groups is not None:
        asked[(groups[indices] == groups[:, None]).ravel()] = 0.0
    starts = np.arange(0, indices.size + 1, k)
    return csr_matrix((asked, indices.ravel(), starts), shape=(n_samples, n_samples))


def count_votes(asked: csr_matrix, opinions: FloatArray) -> FloatArray:
    """v or u: what the neighbours say, and one vote for what all say on average."""
    heard = np.asarray(asked.sum(axis=1)).reshape(-1, 1)
    return np.asarray((asked @ opinions + opinions.mean(axis=0)) / (heard + 1))


def suspect_classes(codes: IntArray, predicted: FloatArray, asked: csr_matrix) -> Suspicion:
    """r, z and a for classes."""
    labels = np.eye(predicted.shape[1])[codes]
    votes = count_votes(asked, labels)
    share = neighbor_share(_mixture_weight(codes, predicted, votes))
    likely = true_classes(codes, (1 - share) * predicted + share * votes)
    together = (1 - share) * predicted + share * count_votes(asked, likely)
    return Suspicion(root_margin(codes, together), together, share)


def root_margin(codes: IntArray, probabilities: FloatArray) -> FloatArray:
    """√ of the most probable other class less √ of the own."""
    own = np.arange(len(codes)), codes
    others = probabilities.copy()
    others[own] = 0.0
    return np.asarray(np.sqrt(others.max(axis=1)) - np.sqrt(probabilities[own]))


def _mixture_weight(codes: IntArray, predicted: FloatArray, votes: FloatArray) -> float:
    """w: the likelihood of a mixture is concave in its weight."""
    by_model, by_neighbors = own_probability(codes, predicted), own_probability(codes, votes)

    def loss(weight: float) -> float:
        return -float(np.log((1 - weight) * by_model + weight * by_neighbors).mean())

    return float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3}).x)


def own_probability(codes: IntArray, probabilities: FloatArray) -> FloatArray:
    """The probability of the label as given, with something to take the logarithm of."""
    return np.asarray(probabilities[np.arange(len(codes)), codes] + _FLOOR)


def neighbor_share(weight: float) -> float:
    """a, of w."""
    return _LEAST_SHARE + (_MOST_SHARE - _LEAST_SHARE) * weight


def true_classes(codes: IntArray, probabilities: FloatArray) -> FloatArray:
    """t: probability of each class to be the true one, given what was said of the sample and its label.

    P(ỹ | c), the chance that class c is labelled ỹ, and t follow from each other; both are found in turns.
    """
    labelled, true = first_confusion(probabilities.shape[1]), probabilities
    for _ in range(ROUNDS):
        true = believed(codes, probabilities, labelled)
        labelled = confusion(sums_by_label(codes, true))
    return true


def first_confusion(n_classes: int) -> FloatArray:
    """The first guess of P(ỹ | c); row: the label, column: the class."""
    wrong = (1 - _FIRST_RIGHT) / max(n_classes - 1, 1)
    return np.where(np.eye(n_classes, dtype=bool), _FIRST_RIGHT, wrong)


def believed(codes: IntArray, probabilities: FloatArray, labelled: FloatArray) -> FloatArray:
    """t, where P(ỹ | c) is known."""
    true = probabilities * labelled[codes]
    true /= true.sum(axis=1, keepdims=True) + 1e-12
    return np.asarray(true)


def sums_by_label(codes: IntArray, true: FloatArray) -> FloatArray:
    """Σ t over the samples of each label, a row each."""
    n_classes = true.shape[1]
    member = csr_matrix((np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=(n_classes, len(codes)))
    return np.asarray(member @ true)


def confusion(sums: FloatArray) -> FloatArray:
    """P(ỹ | c) from Σ t; a tenth of a sample is added everywhere, and one where the label is right."""
    labelled = 0.1 + np.eye(len(sums)) + sums
    return np.asarray(labelled / labelled.sum(axis=0))


def suspect_numbers(values: FloatArray, predicted: FloatArray, asked: csr_matrix) -> Suspicion:
    """r, the number expected and w."""
    around = _medians(values, predicted, asked)
    share = _absolute_weight(values, predicted, around)
    expected = (1 - share) * predicted + share * around
    error = np.minimum(np.abs(values - predicted), np.abs(values - expected))
    local = count_votes(asked, error[:, None])[:, 0]
    margin = number_margin(error, local, float(np.median(local)), float(np.abs(values).max()))
    return Suspicion(margin, expected, share)


def number_margin(error: FloatArray, local: FloatArray, median: float, largest: float) -> FloatArray:
    """r for numbers, from e, its mean over the neighbours, the median of that and the largest label."""
    usual = _LOCAL_SHARE * local + (1 - _LOCAL_SHARE) * median
    return np.asarray(error / (usual + np.finfo(np.float64).tiny + 1e-9 * largest))


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
