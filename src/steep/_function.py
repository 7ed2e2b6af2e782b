"""Calling the user's function: once for all points or point by point, its arguments and answers checked.

A function is given a copy of the points, never the arrays steep itself works with: what it does to them stays with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from steep._outputs import numbers
from steep._validation import FloatArray, check_flag, shown
from steep.exceptions import FunctionError, InputError, InputTypeError

Function = Callable[[Any], Any]
PassAs = Literal["auto", "array", "point", "keywords", "mapping"]


def evaluate(function: Function, X: FloatArray, *, vectorized: bool = True) -> FloatArray:
    """Values ``(n_samples, n_outputs)`` at the rows of ``X``, in one call of a vectorized function or one per row."""
    check_function(function)
    if check_flag(vectorized, name="vectorized"):
        values = output_rows(function_values(function(X.copy()), "function"), len(X))
    else:
        values = stack_rows([np.ravel(function_values(function(x.copy()), "function")) for x in X])
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        places = ", ".join(format_point(X[i]) for i in bad[:3]) + (", …" if bad.size > 3 else "")
        raise FunctionError(
            f"function returned NaN or infinity at {bad.size} of {len(X)} points: {places}; expected finite "
            "values; shrink the bounds or fix the function there"
        )
    return values


def output_rows(values: FloatArray, n_points: int) -> FloatArray:
    """What a function of all points returned, as ``(n_points, n_outputs)``."""
    if values.ndim not in (1, 2) or values.shape[0] != n_points or not values.size:
        raise FunctionError(
            f"function returned shape {values.shape} for {n_points} points; expected ({n_points},) or ({n_points}, "
            "n_outputs), at least one; to be called once per point use pass_as='point' or vectorized=False"
        )
    return values.reshape(n_points, -1)


def stack_rows(rows: list[FloatArray], n_outputs: int | None = None) -> FloatArray:
    """Values of single points as ``(n_samples, n_outputs)``, if there are as many of each, and as many as before."""
    sizes = sorted({row.size for row in rows} | ({n_outputs} if n_outputs else set()))
    if len(sizes) > 1 or sizes == [0]:
        raise FunctionError(
            f"function returned different sizes for different points: {sizes}; expected the same number of outputs "
            "everywhere, at least one"
        )
    return np.array(rows).reshape(len(rows), sizes[0] if sizes else 0)


def calling_style(
    function: Callable[..., Any], names: tuple[str, ...], pass_as: PassAs = "auto", *, alone: PassAs = "array"
) -> PassAs:
    """How a function is called: ``pass_as``, or what its arguments say, after a check that it can be called so.

    "auto" is "keywords" for a function whose arguments have the names of the inputs, otherwise "array". ``alone`` is
    the answer for a function of one argument that has the name of the only input: it may want the array of all points,
    or the value.
    """
    check_function(function)
    style = _style(function, names, alone) if pass_as == "auto" else pass_as
    check_signature(function, style, names)
    return style


def _style(function: Callable[..., Any], names: tuple[str, ...], alone: PassAs) -> PassAs:
    try:
        signature = inspect.signature(function)
        signature.bind(**dict.fromkeys(names))
    except (TypeError, ValueError):
        return "array"
    try:
        signature.bind(None)
    except TypeError:
        return "keywords"
    if set(names) <= set(signature.parameters):
        return "keywords" if len(names) > 1 else alone
    return "array"


def check_function(function: Any, *, name: str = "function", of: str = "X") -> None:
    """Reject what cannot be called."""
    if not callable(function):
        raise InputTypeError(f"{name} is a {type(function).__name__}; expected a callable of {of}")


def check_signature(function: Callable[..., Any], style: str, names: tuple[str, ...]) -> None:
    """Reject a function whose arguments are not the inputs, before the first run."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins do not tell
        return
    try:
        if style == "keywords":
            signature.bind(**dict.fromkeys(names))
        else:
            signature.bind(None)
    except TypeError as error:
        given = ", ".join(f"{name}=…" for name in names) if style == "keywords" else f"one {style}"
        raise InputError(
            f"function takes {signature} and is given {given} ({error}); rename its arguments or the "
            "inputs of the bounds, or in Python pass pass_as='keywords', 'array' or 'mapping'"
        ) from error


def function_values(raw: Any, name: str) -> FloatArray:
    """What a caller's function returned, as an array of float64."""
    try:
        return numbers(raw)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise FunctionError(
            f"{name} returned a {type(raw).__name__} that is not an array of numbers ({shown(error)}); expected "
            "real numbers"
        ) from error


def check_variation(variation: FloatArray) -> FloatArray:
    """Reject variation that is too large for a float: squares reach further than the values they are of."""
    bad = np.flatnonzero(~np.isfinite(variation))
    if bad.size:
        raise FunctionError(
            f"variation is too large for a float at {bad.size} of {len(variation)} points, first at row {bad[0]}; "
            "expected smaller values; scale the function or lower epsilon"
        )
    return variation


def format_point(x: FloatArray) -> str:
    """A point as errors show it."""
    return "(" + ", ".join(f"{value:.6g}" for value in x[:8]) + (", …)" if len(x) > 8 else ")")
