"""The space S: a box in the user's units, worked on as the unit cube.

Inputs with long axes would otherwise decide every distance and every derivative, so measures and
samplers see ``unit(X)`` and callers see ``from_unit(U)``. An axis may be logarithmic, whole-numbered or
a category (see :mod:`steep.domain.axes`), and a constraint may cut the box down to any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from steep._outputs import labelled
from steep._validation import FloatArray, Seed, check_count, check_generator, check_points, refuse_masked, shown
from steep.domain.axes import Axis, make_axis
from steep.exceptions import AcceptanceError, InputError, InputTypeError

Bounds = Sequence[Any] | Mapping[str, Any] | npt.NDArray[Any]
Constraint = Callable[[FloatArray], Any]

# Rejection that keeps fewer than one point in this many is given up: drawing would take forever.
_MOST_DRAWS_PER_SAMPLE = 1000
# Points of a box of whole numbers and categories that are listed one by one at most.
_MOST_LISTED = 2**20
# Numbers drawn at once: 2^34 doubles are 128 GiB.
_MOST_NUMBERS = 2**34
# What scipy's Sobol sequences reach to.
_MOST_SOBOL_POINTS = 2**30


class Box:
    """A box ``[lower, upper]`` in any units, with or without a constraint.

    Parameters
    ----------
    bounds : sequence or mapping of name to (low, high), Log, Integer, Category or a list of names
        One entry per input. Reversed, equal, NaN or infinite bounds raise an error that names the axis.
    constraint : callable, optional
        ``constraint(X)`` gets points of the box, shape ``(n, n_features)``, and says which belong to
        S: an array of n booleans. Nothing is ever evaluated where it says False. It is given a copy.

    Attributes
    ----------
    names : tuple of str
        Names of the inputs; ``x0, x1, …`` when none were given.
    axes : tuple of Axis
        Kind and ends of each input.
    lower, upper, width : ndarray of shape (n_features,)
        Bounds and their differences.

    Examples
    --------
    >>> box = Box({"u0": (0.0, 1.0), "t": (0.0, 10.0)})
    >>> box.unit([[0.5, 2.5]])
    array([[0.5 , 0.25]])
    >>> box.contains([[0.5, 11.0]])
    array([False])
    >>> triangle = Box([(0, 1), (0, 1)], constraint=lambda X: X.sum(axis=1) <= 1)
    >>> triangle.contains([[0.2, 0.2], [0.8, 0.8]])
    array([ True, False])
    """

    def __init__(self, bounds: Bounds | Box, *, constraint: Constraint | None = None) -> None:
        if isinstance(bounds, Box):
            names, axes = bounds.names, bounds.axes
            constraint = bounds.constraint if constraint is None else constraint
        else:
            names, axes = _named_axes(bounds)
        if constraint is not None and not callable(constraint):
            raise InputTypeError(
                f"constraint is a {type(constraint).__name__}; expected a callable of X that returns booleans"
            )
        self.names: tuple[str, ...] = names
        self.axes: tuple[Axis, ...] = axes
        self.constraint: Constraint | None = constraint
        self.lower: npt.NDArray[np.float64] = np.array([axis.low for axis in axes])
        self.upper: npt.NDArray[np.float64] = np.array([axis.high for axis in axes])
        self.width: npt.NDArray[np.float64] = self.upper - self.lower

    @property
    def n_features(self) -> int:
        """Number of inputs, n_i in the paper."""
        return len(self.names)

    @property
    def n_points(self) -> float:
        """How many different points the box holds, the constraint left aside: infinity with a real axis."""
        return float(np.prod([axis.n_values for axis in self.axes]))

    def every_point(self) -> FloatArray:
        """Every point of S, where all axes are whole numbers or categories."""
        if not self.n_points <= _MOST_LISTED:
            raise InputError(f"the box holds {self.n_points:g} points; expected at most {_MOST_LISTED} to list them")
        values = [np.arange(axis.low, axis.high + 1) for axis in self.axes]
        points = np.column_stack([grid.ravel() for grid in np.meshgrid(*values, indexing="ij")])
        return points[self.contains(points)]

    def points(self, X: Any) -> FloatArray:
        """Points as numbers: a table or mapping by the names of its columns, with categories as values.

        Anything without names is taken in the order of the inputs, with categories as codes.

        Examples
        --------
        >>> Box({"u": (0, 1), "m": ["steel", "copper"]}).points({"m": ["copper"], "u": [0.5]})
        array([[0.5, 1. ]])
        """
        named = None if type(X) is np.ndarray else labelled(X)
        if named is None or self._is_unknown([name for name, _ in named]):
            return check_points(X, n_features=self.n_features)
        for name, column in named:
            refuse_masked(column, f"column {name!r} of X")
        columns = {name: [column] if np.ndim(column) == 0 else list(column) for name, column in named}
        if len({len(column) for column in columns.values()}) > 1:
            raise InputError(
                f"columns of X have {[len(column) for column in columns.values()]} rows; expected columns of the "
                "same length"
            )
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return check_points(self.encode(rows), n_features=self.n_features)

    def _is_unknown(self, names: list[str]) -> bool:
        """Whether names say nothing about inputs that have none; names of other inputs are an error."""
        if sorted(names) == sorted(self.names):
            return False
        if self.names == tuple(f"x{i}" for i in range(self.n_features)) and not {*names} & {*self.names}:
            return True
        raise InputError(
            f"X has columns {shown(names)}; expected {shown(list(self.names))}, each once; rename or drop columns"
        )

    def unit(self, X: Any) -> FloatArray:
        """Map points of the box to the unit cube."""
        points = self.points(X)
        with np.errstate(over="ignore"):  # far outside is outside
            return np.column_stack([axis.unit(x) for axis, x in zip(self.axes, points.T, strict=True)])

    def from_unit(self, U: Any) -> FloatArray:
        """Map points of the unit cube to the box; what lies inside the cube lands inside the box."""
        unit = check_points(U, name="U", n_features=self.n_features)
        with np.errstate(over="ignore"):
            return np.column_stack([axis.from_unit(u) for axis, u in zip(self.axes, unit.T, strict=True)])

    def embed(self, U: FloatArray) -> FloatArray:
        """Coordinates of unit points in which distances are meant: categories take a column per value."""
        if all(axis.kind != "category" for axis in self.axes):
            return U
        return np.hstack([axis.embed(u) for axis, u in zip(self.axes, U.T, strict=True)])

    def contains(self, X: Any) -> npt.NDArray[np.bool_]:
        """Tell for each point whether it lies in S: in the box, edges included, and allowed."""
        points = self.points(X)
        inside: npt.NDArray[np.bool_] = np.all(
            [axis.contains(x) for axis, x in zip(self.axes, points.T, strict=True)], axis=0
        )
        if self.constraint is not None and inside.any():
            inside[inside] = self._allowed(points[inside])
        return inside

    def _allowed(self, points: FloatArray) -> npt.NDArray[np.bool_]:
        """What the constraint says about points of the box."""
        assert self.constraint is not None
        raw = self.constraint(points.copy())
        refuse_masked(raw, "what constraint returned")
        try:
            allowed = np.asarray(raw)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"constraint returned {shown(raw)}, which is not an array ({shown(error)}); expected "
                f"{len(points)} booleans"
            ) from error
        if allowed.shape != (len(points),) or allowed.dtype != bool:
            raise InputError(
                f"constraint returned {allowed.dtype} of shape {allowed.shape} for {len(points)} points; expected "
                f"booleans of shape ({len(points)},); write it for arrays, as X[:, 0] + X[:, 1] <= 1"
            )
        return allowed

    def draw_unit(
        self,
        draw: Callable[[int], FloatArray],
        n_samples: int,
        *,
        may_leave: bool = False,
        advice: str = "tighten the bounds around the domain",
    ) -> FloatArray:
        """First ``n_samples`` unit points of ``draw(n)`` in S; ``may_leave``: draws may lie outside the unit cube."""
        if n_samples == 0 or (self.constraint is None and not may_leave):
            return draw(n_samples)
        kept: list[FloatArray] = [np.empty((0, self.n_features))]
        n_kept = n_drawn = 0
        while n_kept < n_samples:
            if n_drawn > _MOST_DRAWS_PER_SAMPLE * max(n_samples, 64):
                raise AcceptanceError(
                    f"only {n_kept} of {n_drawn} points drawn lie in the domain (acceptance rate "
                    f"{n_kept / n_drawn:.2g}), expected {n_samples}; {advice}"
                )
            batch = draw(max(2 * (n_samples - n_kept), 64))
            kept.append(batch[self.contains_unit(batch)])
            n_kept, n_drawn = n_kept + len(kept[-1]), n_drawn + len(batch)
        return np.vstack(kept)[:n_samples]

    def contains_unit(self, U: FloatArray) -> npt.NDArray[np.bool_]:
        """Tell for each point of the unit cube's space whether it stands for a point of S."""
        inside: npt.NDArray[np.bool_] = np.all((U >= 0) & (U <= 1), axis=1)
        if self.constraint is not None and inside.any():
            inside[inside] = self.contains(self.from_unit(U[inside]))
        return inside

    def decode(self, X: Any) -> list[dict[str, Any]]:
        """Name the inputs of each point: floats, ints and categories as a function wants them."""
        points = self.points(X)
        named = list(zip(self.names, self.axes, strict=True))
        return [{name: axis.value(x) for (name, axis), x in zip(named, row, strict=True)} for row in points]

    def encode(self, rows: Sequence[Mapping[str, Any]]) -> FloatArray:
        """Undo :meth:`decode`: named inputs as numbers, categories as their codes."""
        if isinstance(rows, Mapping | str) or not isinstance(rows, Sequence):
            raise InputTypeError(f"rows is a {type(rows).__name__}; expected a list of mappings from name to value")
        pairs = list(zip(self.names, self.axes, strict=True))
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise InputTypeError(f"row {i} is a {type(row).__name__}; expected a mapping from name to value")
            if {*row} != {*self.names}:
                raise InputError(f"row {i} names {shown(list(row))}; expected the inputs {shown(list(self.names))}")
        coded = [[axis.code(name, row[name]) for name, axis in pairs] for row in rows]
        return np.array(coded, dtype=np.float64).reshape(len(rows), self.n_features)

    def uniform(self, n_samples: int, *, random_state: Seed = None) -> FloatArray:
        """Draw points from U(S)."""
        n_samples = check_count(n_samples, name="n_samples")
        if n_samples * self.n_features > _MOST_NUMBERS:
            raise InputError(
                f"n_samples={n_samples} points of {self.n_features} inputs are too many; expected at most "
                f"{_MOST_NUMBERS} numbers; draw in parts"
            )
        generator = check_generator(random_state)
        return self.from_unit(self.draw_unit(lambda n: generator.random((n, self.n_features)), n_samples))

    def sobol(self, n_samples: int, *, random_state: Seed = None) -> FloatArray:
        """Draw a scrambled Sobol sequence; any ``n_samples``, though powers of two are the most even."""
        n_samples = check_count(n_samples, name="n_samples")
        if n_samples > _MOST_SOBOL_POINTS or self.n_features > qmc.Sobol.MAXDIM:
            raise InputError(
                f"{n_samples} Sobol points of {self.n_features} inputs are too many; expected at most "
                f"{_MOST_SOBOL_POINTS} points of {qmc.Sobol.MAXDIM} inputs; use uniform"
            )
        sequence = qmc.Sobol(self.n_features, rng=check_generator(random_state))

        def following(n: int) -> FloatArray:
            """The next points: a whole power of two at first, cut, whose balance is its own."""
            if sequence.num_generated:
                return np.asarray(sequence.random(n))
            return np.asarray(sequence.random_base2(int(np.ceil(np.log2(n))))[:n])

        return self.from_unit(self.draw_unit(following, n_samples))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        return self.names == other.names and self.axes == other.axes and self.constraint is other.constraint

    def __hash__(self) -> int:
        return hash((self.names, self.axes))

    def __repr__(self) -> str:
        entries = zip(self.names, self.axes, strict=True)
        inside = ", ".join(f"{name!r}: {axis!r}" for name, axis in entries)
        return f"Box({{{inside}}}{'' if self.constraint is None else ', constraint=…'})"


def _named_axes(bounds: Any) -> tuple[tuple[str, ...], tuple[Axis, ...]]:
    if isinstance(bounds, Mapping):
        names, rows = tuple(str(name) for name in bounds), list(bounds.values())
        if len(set(names)) < len(names):
            raise InputError(f"bounds names {shown(list(bounds))} are not all different as text; rename some")
    else:
        is_row = isinstance(bounds, np.ndarray) and bounds.ndim > 0
        if isinstance(bounds, str | bytes) or not (is_row or isinstance(bounds, Sequence)):
            raise InputTypeError(f"bounds is {shown(bounds)}; expected a list of (low, high), one pair per input")
        names, rows = tuple(f"x{i}" for i in range(len(bounds))), list(bounds)
    if not rows:
        raise InputError("bounds is empty; expected one (low, high) pair per input")
    return names, tuple(make_axis(name, row) for name, row in zip(names, rows, strict=True))
