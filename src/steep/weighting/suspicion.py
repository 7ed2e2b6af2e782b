"""How probable it is that a label is wrong: what the neighbours and a model that has not seen it say.

For classes, with S the k nearest neighbours of x_i without x_i itself, ỹ the labels as given and p the
cross-fitted probabilities of a model,

    v_ic = (Σ_{j∈S} 1{ỹ_j = c} + π_c) / (k + 1)      votes of the neighbours, π_c the share of class c
    q_ic = (1 − a) p_ic + a v_ic                      both together
    r_i  = log max_{c≠ỹ_i} q_ic − log q_i,ỹ_i         the margin against the own label

and for numbers r_i = log |ỹ_i − ŷ_i|, ŷ the same blend of prediction and mean of the neighbours. The score is

    s_i = 1 / (1 + exp(−b (r_i − t)))

where t is such that Σ s_i is the number of labels that are wrong as estimated by :mod:`wrong_share`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit

from steep._validation import FloatArray, IntArray
from steep.labels import Labels

# Settled on the development tables by benchmarks/suspects.py; see docs/suspects.md.
NEIGHBOR_SHARE = 0.5
STEEPNESS = 2.0

# Probabilities below this are taken as this: a model of 100 trees knows no finer ones.
_SMALLEST = 1e-3

# Neighbours looked at in one go, to bound the block in memory.
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Suspicion:
    """What speaks against every label: ``margin`` orders them, ``suggested`` is what stands there instead."""

    margin: FloatArray
    suggested: npt.NDArray[np.generic]


def votes(codes: IntArray, indices: IntArray, n_classes: int, usable: npt.NDArray[np.bool_]) -> FloatArray:
    """v: share of each class among the neighbours of every sample, one pseudo-vote for the classes as they are met."""
    shares = np.bincount(codes, minlength=n_classes) / len(codes)
    counts = np.empty((len(codes), n_classes))
    for start in range(0, len(codes), _BLOCK):
        rows = slice(start, start + _BLOCK)
        place = codes[indices[rows]] + n_classes * np.arange(len(indices[rows]))[:, None]
        met = np.bincount(place[usable[rows]], minlength=len(place) * n_classes)
        counts[rows] = met.reshape(-1, n_classes)
    voted = counts.sum(axis=1, keepdims=True)
    return np.asarray((counts + shares) / (voted + 1))


def suspicion_of_classes(labels: Labels, probabilities: FloatArray, voted: FloatArray) -> Suspicion:
    """r, and the most probable other class."""
    assert labels.codes is not None
    assert labels.classes is not None
    blend = (1 - NEIGHBOR_SHARE) * probabilities + NEIGHBOR_SHARE * voted
    own = np.arange(len(blend)), labels.codes
    kept = blend[own]
    blend[own] = -1.0
    other = blend.argmax(axis=1)
    best = blend.max(axis=1)
    margin = np.log(np.maximum(best, _SMALLEST)) - np.log(np.maximum(kept, _SMALLEST))
    return Suspicion(margin, labels.classes[other])


def suspicion_of_numbers(
    values: FloatArray, predicted: FloatArray, indices: IntArray, usable: npt.NDArray[np.bool_]
) -> Suspicion:
    """r, and the blend of prediction and neighbours' mean."""
    heard = usable.sum(axis=1)
    around = np.where(usable, values[indices], 0.0).sum(axis=1)
    mean = np.divide(around, heard, out=predicted.copy(), where=heard > 0)
    expected = (1 - NEIGHBOR_SHARE) * predicted + NEIGHBOR_SHARE * mean
    residual = np.abs(values - expected)
    spread = np.median(residual)
    floor = 1e-6 * (spread if spread > 0 else max(float(residual.max()), 1.0))
    return Suspicion(np.log(np.maximum(residual, floor)), expected)


def scores(margin: FloatArray, n_wrong: float) -> FloatArray:
    """s: probabilities in the order of the margins that sum to ``n_wrong``."""
    target = float(np.clip(n_wrong, 1e-3, len(margin) - 1e-3))

    def excess(threshold: float) -> float:
        return float(expit(STEEPNESS * (margin - threshold)).sum() - target)

    reach = 50.0 / STEEPNESS
    threshold = brentq(excess, margin.min() - reach, margin.max() + reach, xtol=1e-6)
    return np.asarray(expit(STEEPNESS * (margin - threshold)))
