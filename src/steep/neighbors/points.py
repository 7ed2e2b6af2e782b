"""Prepare points for search: unit rows for the cosine metric, centred float32 for the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.exceptions import InputError

Float32Array = npt.NDArray[np.float32]
CHUNK = 65_536  # rows converted at a time, so that no second copy of the data is ever whole


def unit_rows(X: FloatArray) -> FloatArray:
    """Return rows of length one, on which half the squared distance is the cosine distance."""
    scale = np.abs(X).max(axis=1)  # first to a maximum of one, so that squares neither overflow nor vanish
    if not scale.all():
        at = np.flatnonzero(scale == 0)
        raise InputError(
            f"X has {at.size} row(s) of zeros, first at {at[0]}; need a direction for the cosine metric; "
            "drop those rows or use metric='euclidean'"
        )
    unit: FloatArray = X / scale[:, None]
    unit /= np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None]
    return unit


def center_of(X: FloatArray) -> FloatArray:
    """Return the mean point in float64."""
    return np.asarray(X.mean(axis=0, dtype=np.float64))


def centered(X: FloatArray, center: FloatArray, rows: Any = slice(None)) -> Float32Array:
    """Return ``X[rows] − center`` in float32, subtracted in float64: a large offset costs no digits."""
    if isinstance(rows, slice):
        rows = np.arange(*rows.indices(len(X)))
    out = np.empty((len(rows), X.shape[1]), dtype=np.float32)
    for first in range(0, len(rows), CHUNK):
        out[first : first + CHUNK] = X[rows[first : first + CHUNK]] - center
    return out


def half_norms(points: Float32Array) -> Float32Array:
    """Return |x|²/2 for each row."""
    return np.asarray(np.einsum("ij,ij->i", points, points) * np.float32(0.5), dtype=np.float32)
