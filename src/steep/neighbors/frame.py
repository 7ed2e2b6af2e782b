"""Location of the data: the centre and the scale in which they are searched, for any numbers up to 1e100.

Engines work on (x − centre)·2⁻ᵉ. The power of two costs no digit. Centre and scale are those of most
points, so that a few far ones cost the others nothing. In this frame every point is drawn into the ball
of radius 2⁶⁰, where float32 squares and products cannot overflow. That brings no two points farther apart
(a projection onto a ball never does), so a point ruled out as too far stays ruled out. What
is moved, *far* points, has its own neighbours found in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import SMALLEST_NUMBER, FloatArray

Float32Array = npt.NDArray[np.float32]

SAMPLE = 1_000  # rows that say what most points are like
CHUNK = 8_192  # rows placed at a time, so that no second copy of the data is ever whole
BALL = 2.0**60
ORDINARY = 30  # powers of two around 1 for which nothing need be scaled
SCALED_MOST = 2.0**500  # whatever is beyond is far from all the others
BEND = 16.0  # distances beyond this many typical ones count by their logarithm when cells are cut


@dataclass(frozen=True)
class Frame:
    """The centre and scale of a data set.

    Attributes
    ----------
    center : ndarray of float64, shape (n_features,)
    exponent : int
        e; lengths in the frame are those of the data times 2⁻ᵉ.
    typical : float
        Median distance from the centre, in the frame.
    extent : float
        No point is farther from the centre, in the frame.
    largest : float
        Largest |entry| of the data.
    """

    center: FloatArray
    exponent: int
    typical: float
    extent: float
    largest: float

    @classmethod
    def of(cls, X: FloatArray, rows: Any = slice(None)) -> Frame:
        """Find the frame of some data, or that of some of their rows; entries are within :func:`into_range`."""
        largest = float(max(X.max(), -X.min()))
        chosen = np.arange(len(X))[rows]
        sample = X[chosen[:: max(1, len(chosen) // SAMPLE)]].astype(np.float64)
        center = np.median(sample, axis=0)
        lengths = row_lengths(sample - center)
        typical = float(np.median(lengths[lengths > 0])) if lengths.any() else 1.0
        extent = float(row_lengths((largest + np.abs(center))[None])[0])
        if 2 * extent > BEND * typical:  # by the largest entry alone somebody may be far: look closer
            lower, upper = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
            extent = float(row_lengths(np.maximum(upper - center, center - lower)[None])[0])
        if extent <= BEND * typical:  # no point is far: the mean makes shorter vectors than the median
            center = sample.mean(axis=0)
        if X.dtype == np.float32:  # then placing a point in float32 rounds once, as from float64
            center = center.astype(np.float32).astype(np.float64)
        exponent = int(np.clip(np.frexp(typical)[1], -400, 400))  # far points keep a length beyond 1e-103
        if abs(exponent) <= ORDINARY:
            exponent = 0
        with np.errstate(over="ignore", under="ignore"):  # a far point may be infinitely far in the frame
            typical, extent = np.ldexp([typical, 2 * extent], -exponent).tolist()
        return cls(center, exponent, typical, extent, largest)

    @property
    def is_plain(self) -> bool:
        """Whether points in the frame are those of the data less the centre, none scaled or drawn in."""
        return not self.exponent and self.extent <= BALL

    @property
    def unit(self) -> float:
        """Length in the frame of a length 1 of the data."""
        return 2.0**-self.exponent

    def scale(self, X: FloatArray) -> FloatArray:
        """Return rows times 2⁻ᵉ, not centred: differences keep every digit of the data as given."""
        if not self.exponent and self.largest < SCALED_MOST:
            return X
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.ldexp(X.astype(np.float64), -self.exponent)
        return np.asarray(np.clip(scaled, -SCALED_MOST, SCALED_MOST, out=scaled))

    def place(self, X: FloatArray) -> FloatArray:
        """Return rows in the frame, in float64."""
        placed: FloatArray = X - self.center
        with np.errstate(over="ignore", under="ignore"):
            if self.exponent:
                np.ldexp(placed, -self.exponent, out=placed)
            if self.extent > BALL:
                far = ~(row_lengths(placed) <= BALL)
                direction = X[far] - self.center
                placed[far] = direction * (BALL / row_lengths(direction))[:, None]
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
        if self.extent <= BALL:
            return np.zeros(len(X), np.bool_)
        with np.errstate(over="ignore", under="ignore"):
            lengths = np.ldexp(row_lengths(X - self.center), -self.exponent)
        return np.asarray(~(lengths <= BALL))

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


def into_range(*arrays: FloatArray) -> tuple[Any, ...]:
    """Bring numbers whose squares vanish to ordinary size: return the arrays times a power of two, and that power.

    Examples
    --------
    >>> into_range(np.array([[1e-200]]))[-1] > 1
    True
    """
    largest = max((float(max(array.max(), -array.min())) for array in arrays if array.size), default=1.0)
    if largest >= SMALLEST_NUMBER or largest == 0:
        return (*arrays, 1.0)
    scale = 2.0 ** min(1000, -int(np.frexp(largest)[1]))
    return (*(array.astype(np.float64) * scale for array in arrays), scale)


def row_lengths(rows: FloatArray) -> FloatArray:
    """Return |x| of each row; ∞ where its square overflows."""
    with np.errstate(over="ignore", under="ignore"):
        lengths: FloatArray = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return lengths


def half_norms(points: FloatArray) -> FloatArray:
    """Return |x|²/2 for each row."""
    return np.asarray(np.einsum("ij,ij->i", points, points) * points.dtype.type(0.5), dtype=points.dtype)
