"""Location of the data: the centre from which they are searched, and numbers of ordinary size, for any up to 1e100.

Data whose typical length is not ordinary are multiplied by a power of two first, which costs no digit. Engines work
on x − centre. The centre is that of most points, so that a few far ones cost the others nothing. Every point
is drawn into the ball of radius 2⁶⁰, where float32 squares and products cannot overflow. That brings no two
points farther apart (a projection onto a ball never does), so a point ruled out as too far stays ruled out. What
is moved, *far* points, has its own neighbours found in float64.

**What products prove.** They give scores |x − y|²/2 quickly but not exactly; distances of the data as given, in
float64, decide the rest. With p binary digits and d features a score is off by at most
δ(|x| + |y|)², δ = (d + 8)·2⁻ᵖ. Let a list hold the best scores of point x, the worst of them t,
and let y be a point that is not on it. Then |x − y|²/2 ≥ t − δ(|x| + |y|)², which says little when y is far
from the centre; but then y is far from x as well, |x − y| ≥ |y| − |x|. If both bounds meet, at
|y| = |x| + s with s²/2 = t − δ(2|x| + s)², is the least that |x − y| can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import SMALLEST_NUMBER, FloatArray, IntArray
from steep.exceptions import InputError

Float32Array = npt.NDArray[np.float32]

SAMPLE = 1_000  # rows that say what most points are like
CHUNK = 8_192  # rows placed at a time, so that no second copy of the data is ever whole
BALL = 2.0**60
ORDINARY = 30  # powers of two around 1 that a typical length may have
MOST_EXPONENT = 400  # of any number, in the data as searched: squares stay far from overflow
BEND = 16.0  # distances beyond this many typical ones count by their logarithm when cells are cut

FLOAT32 = np.finfo(np.float32)
SLACK = 4  # neighbours shortlisted beyond those wanted; more make proofs more likely


@dataclass(frozen=True)
class Frame:
    """The centre of a data set, and how far it reaches."""

    center: FloatArray
    typical: float  # median distance from the centre
    extent: float  # no point is farther from the centre

    @classmethod
    def of(cls, X: FloatArray, n_typical: int | None = None) -> Frame:
        """Find the frame of some data, whose first ``n_typical`` rows say what most points are like."""
        largest = float(max(X.max(), -X.min()))
        typical_rows = X[:n_typical]
        sample = typical_rows[:: max(1, len(typical_rows) // SAMPLE)].astype(np.float64)
        center = np.median(sample, axis=0)
        lengths = row_lengths(sample - center)
        typical = float(np.median(lengths[lengths > 0])) if lengths.any() else 1.0
        extent = float(row_lengths((largest + np.abs(center))[None])[0])
        if 2 * extent > BEND * typical:  # by the largest entry alone some points may be far: look closer
            lower, upper = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
            extent = float(row_lengths(np.maximum(upper - center, center - lower)[None])[0])
        if extent <= BEND * typical:  # no point is far: the mean makes shorter vectors than the median
            center = sample.mean(axis=0)
        if X.dtype == np.float32:  # then placing a point in float32 rounds once, as from float64
            center = center.astype(np.float32).astype(np.float64)
        return cls(center, typical, 2 * extent)

    @property
    def is_plain(self) -> bool:
        """Whether points in the frame are those of the data less the centre, none drawn in."""
        return self.extent <= BALL

    def place(self, X: FloatArray) -> FloatArray:
        """Return rows in the frame, in float64."""
        placed: FloatArray = X - self.center
        if not self.is_plain:
            lengths = row_lengths(placed)
            far = lengths > BALL
            placed[far] *= (BALL / lengths[far])[:, None]
        return placed

    def place_float32(self, X: FloatArray, rows: Any = slice(None)) -> Float32Array:
        """Return ``X[rows]`` in the frame, in float32."""
        if isinstance(rows, slice):
            rows = range(*rows.indices(len(X)))
        out = np.empty((len(rows), X.shape[1]), dtype=np.float32)
        center = self.center.astype(X.dtype) if X.dtype == np.float32 else self.center
        for first in range(0, len(rows), CHUNK):
            part = rows[first : first + CHUNK]
            some = X[part.start : part.stop] if isinstance(part, range) else X[part]
            if self.is_plain:
                np.subtract(some, center, out=out[first : first + CHUNK], casting="same_kind")
            else:
                out[first : first + CHUNK] = self.place(some)
        return out

    def is_far(self, X: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which rows lie beyond the ball."""
        if self.is_plain:
            return np.zeros(len(X), np.bool_)
        return row_lengths(X - self.center) > BALL

    def bend(self, placed: FloatArray) -> FloatArray:
        """Draw far points in, r to the logarithm of r, so that cells can be cut from heavy tails."""
        edge = BEND * self.typical
        if self.extent <= edge:
            return placed
        lengths = row_lengths(placed)
        far = lengths > edge
        if not far.any():
            return placed
        shrink = np.ones(len(placed))
        shrink[far] = (1 + np.log(lengths[far] / edge)) * edge / lengths[far]
        return np.asarray(placed * shrink[:, None])

    def unbend(self, bent: FloatArray) -> FloatArray:
        """Undo :meth:`bend`."""
        edge = BEND * self.typical
        if self.extent <= edge:
            return bent
        lengths = row_lengths(bent)
        grow = np.ones(len(bent))
        far = lengths > edge
        grow[far] = np.exp(lengths[far] / edge - 1) * edge / lengths[far]
        return np.asarray(bent * grow[:, None])


def ordinary(points: FloatArray, *others: FloatArray) -> tuple[Any, ...]:
    """Bring arrays to the size in which they are searched: return them times 2⁻ᵉ, the frame of the first, and e.

    Examples
    --------
    >>> bool(ordinary(np.array([[1e-200], [0.0]]))[0].max() > 0.1)
    True
    """
    *arrays, exponent = into_range(points, *others)
    frame = Frame.of(arrays[0])
    step = int(np.frexp(frame.typical)[1])
    if abs(step) > ORDINARY:
        largest = max(float(max(array.max(), -array.min())) for array in arrays if array.size)
        step = max(step, int(np.frexp(largest)[1]) - MOST_EXPONENT)
        arrays = [np.ldexp(array.astype(np.float64), -step) for array in arrays]
        frame, exponent = Frame.of(arrays[0]), exponent + step
    return (*arrays, frame, exponent)


def into_range(*arrays: FloatArray) -> tuple[Any, ...]:
    """Bring numbers whose squares vanish to ordinary size: return the arrays times 2⁻ᵉ, and e."""
    largest = max((float(max(array.max(), -array.min())) for array in arrays if array.size), default=1.0)
    if largest >= SMALLEST_NUMBER or largest == 0:
        return (*arrays, 0)
    exponent = int(np.frexp(largest)[1])
    return (*(np.ldexp(array.astype(np.float64), -exponent) for array in arrays), exponent)


def row_lengths(rows: FloatArray) -> FloatArray:
    """Return |x| of each row; ∞ where its square overflows."""
    with np.errstate(over="ignore", under="ignore"):
        lengths: FloatArray = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return lengths


def half_norms(points: FloatArray) -> FloatArray:
    """Return |x|²/2 for each row."""
    return np.asarray(np.einsum("ij,ij->i", points, points) * points.dtype.type(0.5), dtype=points.dtype)


def certain_scores(top: FloatArray, lengths: FloatArray, n_features: int) -> FloatArray:
    """Return the score that no point missing from a list can go below; negative where nothing is certain.

    ``top`` is the worst score on the list of each point, from float32 products about a centre as far as ``lengths``.
    """
    delta = (n_features + 8) * 2.0**-24
    left = top.astype(np.float64) - 4 * delta * lengths**2
    slope = 4 * delta * lengths
    s = (np.sqrt(slope**2 + (2 + 4 * delta) * np.maximum(left, 0)) - slope) / (1 + 2 * delta)
    return np.asarray(np.where(left > 0, 0.5 * s * s, left) - vanished(n_features))


def vanished(n_features: int) -> float:
    """Return what float32 products too small for float32 may take away from a score."""
    return (n_features + 8) * 2.0**-120


def ranked(distances: FloatArray) -> FloatArray:
    """Round to the digits of float32 at any scale: by these values distances are compared.

    Examples
    --------
    >>> ranked(np.array([1 + 1e-9, 2.0**900 * (1 + 1e-9)])) == [1, 2.0**900]
    array([ True,  True])
    """
    least = distances.min(initial=np.inf, where=distances > 0)
    if distances.size and (distances.max() > FLOAT32.max or least < FLOAT32.tiny):
        mantissa, exponent = np.frexp(distances)
        return np.ldexp(mantissa.astype(np.float32).astype(np.float64), exponent)
    return distances.astype(np.float32).astype(np.float64)


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
