"""The space S: a box in the user's units, worked on as the unit cube.

Inputs with long axes would otherwise decide every distance and every derivative, so measures and
samplers see ``unit(X)`` and callers see ``from_unit(U)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from steep._validation import FloatArray, Seed, check_count, check_generator, check_points
from steep.exceptions import InputError, InputTypeError

Bounds = Sequence[tuple[float, float]] | Mapping[str, tuple[float, float]] | npt.NDArray[Any]


class Box:
    """An axis-parallel box ``[lower, upper]`` in any units.

    Parameters
    ----------
    bounds : sequence of (low, high), or mapping of name to (low, high)
        One pair per input. Reversed, equal, NaN or infinite bounds are refused by name of the axis.

    Attributes
    ----------
    names : tuple of str
        Names of the inputs; ``x0, x1, …`` when none were given.
    lower, upper, width : ndarray of shape (n_features,)
        Bounds and their differences.

    Examples
    --------
    >>> box = Box({"u0": (0.0, 1.0), "t": (0.0, 10.0)})
    >>> box.unit([[0.5, 2.5]])
    array([[0.5 , 0.25]])
    >>> box.contains([[0.5, 11.0]])
    array([False])
    """

    def __init__(self, bounds: Bounds | Box) -> None:
        if isinstance(bounds, Box):
            names, pairs = bounds.names, np.column_stack([bounds.lower, bounds.upper])
        else:
            names, pairs = _named_pairs(bounds)
        self.names: tuple[str, ...] = names
        self.lower: npt.NDArray[np.float64] = pairs[:, 0].copy()
        self.upper: npt.NDArray[np.float64] = pairs[:, 1].copy()
        self.width: npt.NDArray[np.float64] = self.upper - self.lower

    @property
    def n_features(self) -> int:
        """Number of inputs, n_i in the paper."""
        return len(self.names)

    def unit(self, X: Any) -> FloatArray:
        """Map points of the box to the unit cube."""
        unit: FloatArray = (check_points(X, n_features=self.n_features) - self.lower) / self.width
        return unit

    def from_unit(self, U: Any) -> FloatArray:
        """Map points of the unit cube to the box; what lies inside the cube lands inside the box."""
        unit = check_points(U, name="U", n_features=self.n_features)
        points: FloatArray = self.lower + unit * self.width
        # Rounding may push a point of the cube's edge just outside the box.
        inside = (unit >= 0) & (unit <= 1)
        return np.where(inside, np.clip(points, self.lower, self.upper), points)

    def contains(self, X: Any) -> npt.NDArray[np.bool_]:
        """Tell for each point whether it lies in the box, edges included."""
        points = check_points(X, n_features=self.n_features)
        inside: npt.NDArray[np.bool_] = np.all((points >= self.lower) & (points <= self.upper), axis=1)
        return inside

    def uniform(self, n_samples: int, *, random_state: Seed = None) -> FloatArray:
        """Draw points from U(S)."""
        n_samples = check_count(n_samples, name="n_samples")
        return self.from_unit(check_generator(random_state).random((n_samples, self.n_features)))

    def grid(self, n_samples: int) -> FloatArray:
        """Lay a regular grid, edges included, with the same number of points on every axis."""
        n_samples = check_count(n_samples, name="n_samples")
        per_axis = round(n_samples ** (1 / self.n_features))
        if per_axis**self.n_features != n_samples:
            below, above = (_grid_size(n_samples, self.n_features, up=up) for up in (False, True))
            raise InputError(
                f"a grid in {self.n_features} dimensions needs p^{self.n_features} points, got {n_samples}; "
                f"use {below} or {above}"
            )
        axis = np.linspace(0.0, 1.0, per_axis) if per_axis > 1 else np.array([0.5])
        axes = np.meshgrid(*[axis] * self.n_features, indexing="ij")
        return self.from_unit(np.column_stack([a.ravel() for a in axes]))

    def sobol(self, n_samples: int, *, random_state: Seed = None) -> FloatArray:
        """Draw a scrambled Sobol sequence; any ``n_samples``, though powers of two are the most even."""
        n_samples = check_count(n_samples, name="n_samples")
        sequence = qmc.Sobol(self.n_features, rng=check_generator(random_state))
        # A whole power of two, cut: the balance of the first n points is the sequence's own.
        points = sequence.random_base2(int(np.ceil(np.log2(n_samples))))[:n_samples]
        return self.from_unit(points)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        same = np.array_equal(self.lower, other.lower) and np.array_equal(self.upper, other.upper)
        return self.names == other.names and same

    def __hash__(self) -> int:
        return hash((self.names, self.lower.tobytes(), self.upper.tobytes()))

    def __repr__(self) -> str:
        pairs = zip(self.names, self.lower, self.upper, strict=True)
        return "Box({" + ", ".join(f"{name!r}: ({low:g}, {high:g})" for name, low, high in pairs) + "})"


def _named_pairs(bounds: Any) -> tuple[tuple[str, ...], npt.NDArray[np.float64]]:
    if isinstance(bounds, Mapping):
        names, rows = tuple(str(name) for name in bounds), list(bounds.values())
    else:
        if isinstance(bounds, str) or not hasattr(bounds, "__len__"):
            raise InputTypeError(f"bounds is {bounds!r}; need a list of (low, high), one pair per input")
        names, rows = tuple(f"x{i}" for i in range(len(bounds))), list(bounds)
    if not rows:
        raise InputError("bounds is empty; need one (low, high) pair per input")
    return names, np.array([_check_pair(name, row) for name, row in zip(names, rows, strict=True)])


def _check_pair(name: str, row: Any) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in row)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"bounds of axis {name!r} are {row!r}; need two numbers (low, high)") from error
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
    return low, high


def _grid_size(n_samples: int, n_features: int, *, up: bool) -> int:
    per_axis = int(np.floor(n_samples ** (1 / n_features) + 1e-9)) + up
    return int(max(per_axis, 1) ** n_features)
