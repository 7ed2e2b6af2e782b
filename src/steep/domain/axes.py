"""The kinds of input a domain is made of, each with its map to the unit interval.

    (low, high)           a real number, mapped linearly
    Log(low, high)        a positive number whose ratio matters, mapped by its logarithm
    Integer(low, high)    a whole number, both ends included; each takes an equal share of [0, 1]
    Category(*values)     one of several values without an order, stored as the code 0, 1, …

Two different categories are one apart however they are listed: :meth:`Axis.embed` gives the
coordinates in which distances are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steep._validation import FloatArray
from steep.exceptions import InputError, InputTypeError


class Axis:
    """A real number in ``[low, high]``; the other kinds change its map to the unit interval."""

    kind = "linear"

    def __init__(self, low: float, high: float) -> None:
        self.low = float(low)
        self.high = float(high)

    def unit(self, x: FloatArray) -> FloatArray:
        """Map values of the axis to [0, 1]."""
        u: FloatArray = (x - self.low) / (self.high - self.low)
        return u

    def from_unit(self, u: FloatArray) -> FloatArray:
        """Map [0, 1] to values of the axis; what lies inside lands inside, whatever the rounding."""
        x: FloatArray = self.low + u * (self.high - self.low)
        inside = (u >= 0) & (u <= 1)
        return np.where(inside, np.clip(x, self.low, self.high), x)

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
        return float(value)

    def check(self, name: str) -> None:
        """Refuse ends that make no axis."""
        check_ends(name, self.low, self.high)

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
        # Numbers that have no logarithm are no values of the axis: they land below 0.
        u: FloatArray = np.log(np.maximum(x, 1e-300) / self.low) / np.log(self.high / self.low)
        return u

    def from_unit(self, u: FloatArray) -> FloatArray:
        """Map [0, 1] to values of the axis."""
        x: FloatArray = self.low * (self.high / self.low) ** u
        inside = (u >= 0) & (u <= 1)
        return np.where(inside, np.clip(x, self.low, self.high), x)

    def check(self, name: str) -> None:
        """Refuse ends without a logarithm."""
        super().check(name)
        if self.low <= 0:
            raise InputError(f"log axis {name!r} starts at {self.low:g}; need low > 0; raise it or drop Log")


class Integer(Axis):
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

    def unit(self, x: FloatArray) -> FloatArray:
        """Map each whole number to the middle of its share of [0, 1]."""
        u: FloatArray = (x - self.low + 0.5) / (self.high - self.low + 1)
        return u

    def from_unit(self, u: FloatArray) -> FloatArray:
        """Map [0, 1] to whole numbers."""
        x: FloatArray = self.low + np.floor(u * (self.high - self.low + 1))
        return np.where((u >= 0) & (u <= 1), np.clip(x, self.low, self.high), x)

    def contains(self, x: FloatArray) -> Any:
        """Tell which numbers are whole and within the ends."""
        return super().contains(x) & (x == np.round(x))

    def value(self, x: float) -> Any:
        """An int."""
        return round(x)

    def check(self, name: str) -> None:
        """Refuse ends that are not whole."""
        super().check(name)
        if self.low != round(self.low) or self.high != round(self.high):
            raise InputError(f"integer axis {name!r} is {self!r}; need whole ends; round them")


class Category(Integer):
    """One of several values without an order, stored as its code 0, 1, ….

    Parameters
    ----------
    *values
        The values, each different; anything that can be compared, such as strings.

    Examples
    --------
    >>> Category("steel", "copper").value(1.0)
    'copper'
    """

    kind = "category"

    def __init__(self, *values: Any) -> None:
        self.values = tuple(values)
        super().__init__(0, len(values) - 1)

    def embed(self, u: FloatArray) -> FloatArray:
        """One column for each value, so that any two values are one apart."""
        codes = self.from_unit(u)
        columns: FloatArray = (codes[:, None] == np.arange(len(self.values))) / np.sqrt(2)
        return columns

    def value(self, x: float) -> Any:
        """The value itself."""
        return self.values[round(x)]

    def code(self, name: str, value: Any) -> float:
        """Place of the value in the list."""
        if value not in self.values:
            raise InputError(
                f"{value!r} is no value of {name!r}; need one of {', '.join(map(repr, self.values))}"
            )
        return float(self.values.index(value))

    def check(self, name: str) -> None:
        """Refuse fewer than two values, or the same one twice."""
        if len(self.values) < 2 or len(set(self.values)) < len(self.values):
            raise InputError(f"category axis {name!r} is {self!r}; need two or more different values")

    def key(self) -> tuple[Any, ...]:
        """Kind and values."""
        return (self.kind, *self.values)

    def __repr__(self) -> str:
        return f"Category({', '.join(map(repr, self.values))})"


def make_axis(name: str, entry: Any) -> Axis:
    """Return the axis for one entry of ``bounds``: an axis, a pair of numbers, or a list of strings."""
    if isinstance(entry, Axis):
        axis = entry
    elif _is_names(entry):
        axis = Category(*entry)
    else:
        try:
            low, high = (float(value) for value in entry)
        except (TypeError, ValueError) as error:
            raise InputTypeError(
                f"bounds of axis {name!r} are {entry!r}; need two numbers (low, high), Log, Integer or Category"
            ) from error
        axis = Axis(low, high)
    axis.check(name)
    return axis


def axis_from_key(key: Sequence[Any]) -> Axis:
    """Rebuild an axis from :meth:`Axis.key`, as read back from a storage."""
    kinds: dict[str, type[Axis]] = {"linear": Axis, "log": Log, "integer": Integer, "category": Category}
    return kinds[key[0]](*key[1:])


def check_ends(name: str, low: float, high: float) -> None:
    """Refuse ends that are not finite, reversed or equal."""
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InputError(
            f"bounds of axis {name!r} are ({low:g}, {high:g}); need finite numbers; choose a range"
        )
    if low > high:
        raise InputError(
            f"bounds of axis {name!r} are reversed: ({low:g}, {high:g}); use ({high:g}, {low:g})"
        )
    if low == high:
        raise InputError(
            f"bounds of axis {name!r} are equal: ({low:g}, {high:g}); need low < high; leave a fixed input "
            "out of the bounds and set it inside the function"
        )


def _is_names(entry: Any) -> bool:
    """Whether an entry is a list of two or more names: a category in short."""
    return isinstance(entry, list) and len(entry) > 1 and all(isinstance(value, str) for value in entry)
