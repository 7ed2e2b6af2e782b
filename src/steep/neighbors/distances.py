"""Distances of the data as given, in float64, and what products of points prove about them.

Products give scores |x − y|²/2 quickly but not exactly. With p binary digits and d features a score is off
by at most δ(|x| + |y|)², δ = (d + 8)·2⁻ᵖ. Let a list hold the best scores of point x, the worst of them t,
and let y be a point that is not on it. Then |x − y|²/2 ≥ t − δ(|x| + |y|)², which says little when y is far
from the centre; but then y is far from x as well, |x − y| ≥ |y| − |x|. If both bounds meet, at
|y| = |x| + s with s²/2 = t − δ(2|x| + s)², is the least that |x − y| can be. So what proves a list is near it,
and an outlier costs the others nothing.
"""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.exceptions import InputError

FLOAT32 = np.finfo(np.float32)
SLACK = 4  # neighbours shortlisted beyond those wanted; more make proofs more likely


def certain_scores(top: FloatArray, lengths: FloatArray, n_features: int, digits: int) -> FloatArray:
    """Return the score that no point missing from a list can go below; negative where nothing is certain.

    Parameters
    ----------
    top : ndarray of shape (n_points,)
        Worst score on the list of each point, from products.
    lengths : ndarray of shape (n_points,)
        Distance of each point from the centre of the products.
    n_features, digits : int
        d and p of the error δ = (d + 8)·2⁻ᵖ.
    """
    delta = (n_features + 8) * 2.0**-digits
    left = top.astype(np.float64) - 4 * delta * lengths**2
    slope = 4 * delta * lengths
    s = (np.sqrt(slope**2 + (2 + 4 * delta) * np.maximum(left, 0)) - slope) / (1 + 2 * delta)
    return np.asarray(np.where(left > 0, 0.5 * s * s, left) - vanished(n_features))


def vanished(n_features: int) -> float:
    """Return what float32 products too small for float32 may take away from a score."""
    return (n_features + 8) * 2.0**-120


def lengths_between(points: FloatArray, others: FloatArray) -> FloatArray:
    """Return the distances of ``points`` (n, d) to ``others`` (n, m, d)."""
    with np.errstate(under="ignore"):
        steps = np.subtract(others, points[:, None, :], dtype=np.float64)
        return np.asarray(np.sqrt(np.einsum("ijk,ijk->ij", steps, steps)))


def ranked(distances: FloatArray) -> FloatArray:
    """Round to the digits of float32 at any scale: by these values distances are compared.

    Examples
    --------
    >>> ranked(np.array([1 + 1e-9, 2.0**900 * (1 + 1e-9)])) == [1, 2.0**900]
    array([ True,  True])
    """
    if distances.size and (distances.max() > FLOAT32.max or _least(distances) < FLOAT32.tiny):
        mantissa, exponent = np.frexp(distances)
        return np.ldexp(mantissa.astype(np.float32).astype(np.float64), exponent)
    return distances.astype(np.float32).astype(np.float64)


def _least(distances: FloatArray) -> float:
    return float(distances.min(initial=np.inf, where=distances > 0))


def as_float32(distances: FloatArray) -> FloatArray:
    """Return distances in float32; those beyond its range become its largest number."""
    return np.minimum(distances, FLOAT32.max).astype(np.float32)


def best_of(distances: FloatArray, indices: IntArray, n_best: int) -> tuple[FloatArray, IntArray]:
    """Return the ``n_best`` of each row by (ranked distance, index); ``indices`` ascend along each row."""
    keys = ranked(distances)
    order = np.argsort(keys, axis=1, kind="stable")[:, :n_best]
    return np.take_along_axis(keys, order, axis=1), np.take_along_axis(indices, order, axis=1)


def unit_rows(X: FloatArray, name: str) -> FloatArray:
    """Return rows of length one, on which half the squared distance is the cosine distance."""
    scale = np.abs(X).max(axis=1)  # first to a maximum of one, so that squares neither overflow nor vanish
    if not scale.all():
        at = np.flatnonzero(scale == 0)
        raise InputError(
            f"{name} has {at.size} row(s) of zeros, first at {at[0]}; expected a direction for the cosine metric; "
            "drop those rows or use metric='euclidean'"
        )
    unit: FloatArray = X / scale[:, None]
    unit /= np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None]
    return unit
