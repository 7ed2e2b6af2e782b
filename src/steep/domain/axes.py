"""The kinds of input a domain is made of, each with its map to the unit interval.

    (low, high)           a real number, mapped linearly
    Log(low, high)        a positive number whose ratio matters, mapped by its logarithm
    Integer(low, high)    a whole number, both ends included; each takes an equal share of [0, 1]
    Category(*values)     one of several values without an order, stored as the code 0, 1, …

Two different categories are one apart however they are listed: :meth:`Axis.embed` gives the
coordinates in which distances are taken.
"""

from __future__ import annotations

import json
import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from steep._validation import FloatArray, shown
from steep.exceptions import InputError, InputTypeError

# Whole numbers beyond this one have no exact float, and inputs are floats.
_LARGEST_WHOLE = 2**53


class Axis:
    """A real number in ``[low, high]``; the other kinds change its map to the unit interval."""

    kind = "linear"

    def __init__(self, low: float, high: float) -> None:
        self.low = _number(low, f"low end of {type(self).__name__}")
        self.high = _number(high, f"high end of {type(self).__name__}")

    @property
    def n_values(self) -> float:
        """How many different values the axis has: a whole number, or infinity."""
        return np.inf

    def unit(self, x: FloatArray) -> FloatArray:
        """Map values of the axis to [0, 1]."""
        return np.asarray((x - self.low) / (self.high - self.low))

    def from_unit(self, u: FloatArray) -> FloatArray:
        """Map [0, 1] to values of the axis; what lies inside lands inside, whatever the rounding."""
        x = self._stretched(u)
        return np.where((u >= 0) & (u <= 1), np.clip(x, self.low, self.high), x)

    def _stretched(self, u: FloatArray) -> FloatArray:
        return self.low + u * (self.high - self.low)

    def contains(self, x: FloatArray) -> Any:
        """Tell which numbers are values of the axis."""
        return (x >= self.low) & (x <= self.high)

    def embed(self, u: FloatArray) -> FloatArray:
        """Coordinates for distances, one column or more."""
        return u[:, None]

    def value(self, x: float) -> Any:
        """The value a function should get for the number ``x``."""
        return float(x)

    def code(self, name: str, value: Any) -> float:
        """The number that stands for ``value``."""
        return _number(value, f"value of {name!r}")

    def check(self, name: str) -> None:
        """Reject ends that are not finite, reversed or equal."""
        low, high = self.low, self.high
        if not np.isfinite(high - low):
            raise InputError(
                f"bounds of axis {name!r} are ({low:g}, {high:g}); expected finite numbers, not further apart than "
                "floats reach; choose another range or unit"
            )
        if low > high:
            raise InputError(f"bounds of axis {name!r} are reversed: ({low:g}, {high:g}); use ({high:g}, {low:g})")
        if low == high:
            raise InputError(
                f"bounds of axis {name!r} are equal: ({low:g}, {high:g}); expected low < high; leave a fixed input "
                "out of the bounds and set it inside the function"
            )

    def key(self) -> tuple[Any, ...]:
        """What makes two axes the same; also their form in a storage."""
        return (self.kind, self.low, self.high)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Axis) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __repr__(self) -> str:
        ends = f"({self.low:g}, {self.high:g})"
        return ends if self.kind == "linear" else f"{type(self).__name__}{ends}"


class Log(Axis):
    """A positive number whose ratios matter: each decade gets the same room.

    Parameters
    ----------
    low, high : float > 0
        The ends, both included.

    Examples
    --------
    >>> Log(1e-3, 1e3).from_unit(np.array([0.0, 0.5, 1.0])).round(6)
    array([1.e-03, 1.e+00, 1.e+03])
    """

    kind = "log"

    def unit(self, x: FloatArray) -> FloatArray:
        """Map values of the axis to [0, 1]."""
        # Numbers that have no logarithm are not values of the axis: they land below 0.
        least = max(1e-300 * self.low, 5e-324)
        return np.asarray(np.log(np.maximum(x, least) / self.low) / np.log(self.high / self.low))

    def _stretched(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.low * (self.high / self.low) ** u)

    def check(self, name: str) -> None:
        """Reject ends without a logarithm."""
        super().check(name)
        if self.low <= 0:
            raise InputError(f"log axis {name!r} starts at {self.low:g}; expected low > 0; raise it or drop Log")
        ratio = self.high / self.low
        if not 1 < ratio < np.inf:
            raise InputError(
                f"log axis {name!r} goes from {self.low!r} to {self.high!r}, whose ratio is {ratio:g} in floats; "
                "need a finite ratio above 1; choose another range or unit"
            )


class _Counted(Axis):
    """Whole numbers from ``low`` to ``high``, each with an equal share of [0, 1]."""

    @property
    def n_values(self) -> float:
        """How many different values the axis has."""
        return self.high - self.low + 1

    def unit(self, x: FloatArray) -> FloatArray:
        """Map each whole number to the middle of its share of [0, 1]."""
        return np.asarray((x - self.low + 0.5) / (self.high - self.low + 1))

    def _stretched(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.low + np.floor(u * (self.high - self.low + 1)))

    def contains(self, x: FloatArray) -> Any:
        """Tell which numbers are whole and within the ends."""
        return super().contains(x) & (x == np.round(x))


class Integer(_Counted):
    """A whole number from ``low`` to ``high``, both included.

    Parameters
    ----------
    low, high : int
        The ends, both included.

    Examples
    --------
    >>> Integer(1, 4).from_unit(np.array([0.0, 0.26, 0.99, 1.0]))
    array([1., 2., 4., 4.])
    """

    kind = "integer"

    def value(self, x: float) -> Any:
        """An int."""
        return round(x)

    def check(self, name: str) -> None:
        """Reject ends that are not whole."""
        super().check(name)
        if self.low != round(self.low) or self.high != round(self.high):
            raise InputError(f"integer axis {name!r} is {self!r}; expected whole ends; round them")
        if max(-self.low, self.high) > _LARGEST_WHOLE:
            raise InputError(
                f"integer axis {name!r} is {self!r}; expected ends within ±2^53, where floats are whole; use Log"
            )


class Category(_Counted):
    """One of several values without an order, stored as its code 0, 1, ….

    Parameters
    ----------
    *values : str, int, float, bool or None
        The values, each different: what a campaign can write down and read back. NumPy's scalars become
        Python's. ``1``, ``1.0`` and ``True`` are equal in Python, so only one of them can be a value.

    Examples
    --------
    >>> Category("steel", "copper").value(1.0)
    'copper'
    """

    kind = "category"

    def __init__(self, *values: Any) -> None:
        self.values = tuple(_plain(value) for value in values)
        super().__init__(0, len(values) - 1)
        for i, value in enumerate(self.values):
            if value in self.values[:i]:
                pair = f"{shown(self.values[self.values.index(value)])} and {shown(value)}"
                raise InputError(f"Category has {pair}, which are equal; expected different values; drop one")

    def embed(self, u: FloatArray) -> FloatArray:
        """One column for each value, so that any two values are one apart."""
        codes = self.from_unit(u)
        return np.asarray((codes[:, None] == np.arange(len(self.values))) / np.sqrt(2))

    def value(self, x: float) -> Any:
        """The value itself."""
        if not self.contains(np.asarray(x, dtype=np.float64)):
            raise InputError(f"{x:g} is not a code of {shown(self)}; expected a whole number from 0 to {self.high:g}")
        return self.values[round(x)]

    def code(self, name: str, value: Any) -> float:
        """Place of the value in the list."""
        plain = value.item() if isinstance(value, np.generic) else value
        if type(plain) not in _PLAIN or plain not in self.values:
            known = ", ".join(map(shown, self.values[:20])) + (", …" if len(self.values) > 20 else "")
            raise InputError(f"{shown(value)} is not a value of {name!r}; expected one of {known}")
        return float(self.values.index(plain))

    def check(self, name: str) -> None:
        """Reject fewer than two values."""
        if len(self.values) < 2:
            raise InputError(f"category axis {name!r} is {shown(self)}; expected two or more different values")

    def key(self) -> tuple[Any, ...]:
        """Kind and values."""
        return (self.kind, *self.values)

    def __eq__(self, other: object) -> bool:
        # 1 and True are equal, but a function that is given one is not given the other.
        types = list(map(type, self.values))
        return super().__eq__(other) and types == [type(value) for value in other.values]  # type: ignore[attr-defined]

    __hash__ = Axis.__hash__

    def __repr__(self) -> str:
        return f"Category({', '.join(map(repr, self.values))})"


def make_axis(name: str, entry: Any) -> Axis:
    """Return the axis for one entry of ``bounds``: an axis, a pair of numbers, or a list of strings."""
    if isinstance(entry, Axis):
        axis = entry
    elif isinstance(entry, list) and len(entry) > 1 and all(isinstance(value, str) for value in entry):
        axis = Category(*entry)
    else:
        axis = Axis(*_pair(name, entry))
    axis.check(name)
    return axis


def axis_from_key(key: Sequence[Any]) -> Axis:
    """Rebuild an axis from :meth:`Axis.key`, as read back from a storage."""
    kinds: dict[str, type[Axis]] = {"linear": Axis, "log": Log, "integer": Integer, "category": Category}
    try:
        return kinds[key[0]](*key[1:])
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"stored axis {shown(key)} is none of {', '.join(kinds)} with its ends or values; is the file damaged?"
        ) from error


# What JSON gives back as it was.
_PLAIN = (str, int, float, bool, type(None))


def _plain(value: Any) -> Any:
    """A value of a category as Python's own, or an error: a file must give back what was written."""
    plain = value.item() if isinstance(value, np.generic) else value
    # Exact types: a subclass, such as an enum of strings, would come back as something else.
    if type(plain) not in _PLAIN:
        raise InputTypeError(
            f"Category value {shown(value)} is a {type(value).__name__}; expected str, int, float, bool or None; pass "
            "its name, and look the object up inside the function"
        )
    try:
        json.dumps(plain, allow_nan=False)
    except ValueError as error:  # NaN, infinity, or a whole number of thousands of digits
        raise InputError(
            f"Category value {shown(value)} cannot be stored; expected a finite number or another name"
        ) from error
    return plain


def _number(value: Any, what: str) -> float:
    """A number as a float; anything else, and what no float holds, is rejected."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | Decimal):
        raise InputTypeError(f"{what} is {shown(value)}, a {type(value).__name__}; expected a number")
    try:
        return float(value)
    except (OverflowError, ValueError) as error:  # ValueError: Decimal("sNaN")
        raise InputError(f"{what} is {shown(value)}, which no float holds; expected a smaller number") from error


def _pair(name: str, entry: Any) -> tuple[float, float]:
    """Both ends of a real axis."""
    is_row = isinstance(entry, np.ndarray | pd.Series) and entry.ndim == 1
    listed = isinstance(entry, Sequence) and not isinstance(entry, str | bytes)
    ends = list(entry) if is_row or listed else []
    if len(ends) != 2:
        raise InputTypeError(
            f"bounds of axis {name!r} are {shown(entry)}; expected two numbers (low, high), Log, Integer or Category"
        )
    what = f"bounds of axis {name!r} are {shown(entry)}: one"
    return _number(ends[0], what), _number(ends[1], what)
