"""Calling the user's function: once for all points or point by point, its arguments and answers checked.

A function is given a copy of the points, never the arrays steep itself works with: what it does to them
stays with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from steep._outputs import numbers
from steep._validation import FloatArray, check_flag, shown
from steep.exceptions import FunctionError, InputError, InputTypeError

Function = Callable[[Any], Any]


def evaluate(function: Function, X: FloatArray, *, vectorized: bool = True) -> FloatArray:
    """Call ``function`` on the rows of ``X`` and return its values as ``(n_samples, n_outputs)``.

    A vectorized function is called once with the ``(n_samples, n_features)`` array and may return
    ``(n_samples,)`` or ``(n_samples, n_outputs)``; otherwise it is called once for each row and may
    return a number or a vector.
    """
    check_function(function)
    if check_flag(vectorized, name="vectorized"):
        values = function_values(function(X.copy()), "function")
        if values.ndim not in (1, 2) or values.shape[0] != len(X):
            raise FunctionError(
                f"function returned shape {values.shape} for {len(X)} points; need ({len(X)},) or "
                f"({len(X)}, n_outputs); pass vectorized=False if it takes one point at a time"
            )
    else:
        values = stack_rows([function_values(function(x.copy()), "function") for x in X])
    if values.size == 0:
        raise FunctionError(f"function returned no outputs (shape {values.shape}); need at least one a point")
    values = values.reshape(len(X), -1)
    _check_function_finite(values, X)
    return values


def check_function(function: Any, *, name: str = "function", of: str = "X") -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise InputTypeError(f"{name} is a {type(function).__name__}; need a callable of {of}")


def check_signature(function: Callable[..., Any], style: str, names: tuple[str, ...]) -> None:
    """Refuse a function whose arguments are not the inputs, before the first run.

    Examples
    --------
    >>> check_signature(lambda u0, t: 0.0, "keywords", ("u0", "t"))
    >>> check_signature(lambda u0, time: 0.0, "keywords", ("u0", "t"))
    Traceback (most recent call last):
    steep.exceptions.InputError: function takes (u0, time) and is given u0=…, t=… (missing ... 'time'); ...
    """
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
            f"function takes {_shown_signature(signature)} and is given {given} ({error}); rename its arguments or the "
            "inputs of the bounds, or choose pass_as= 'keywords', 'array' or 'mapping'"
        ) from error


def _shown_signature(signature: inspect.Signature) -> str:
    """The arguments of a function, short."""
    bare = [p.replace(annotation=p.empty, default=p.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return text if len(text) <= 80 else f"{text[:60]}…"


def function_values(raw: Any, name: str) -> FloatArray:
    """What a caller's function returned, as an array of float64."""
    try:
        return numbers(raw)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise FunctionError(
            f"{name} returned a {type(raw).__name__} that is not an array of numbers ({shown(error)}); need "
            "real numbers"
        ) from error


def check_variation(variation: FloatArray) -> FloatArray:
    """Refuse variation that is too large for a float: squares reach further than the values they are of."""
    bad = np.flatnonzero(~np.isfinite(variation))
    if bad.size:
        raise FunctionError(
            f"variation is too large for a float at {bad.size} of {len(variation)} points, first at row {bad[0]}; need "
            "smaller values; scale the function or lower epsilon"
        )
    return variation


def stack_rows(rows: list[FloatArray]) -> FloatArray:
    """Values of single points as ``(n_samples, n_outputs)``, if there are as many of each."""
    shapes = {row.reshape(-1).shape for row in rows}
    if len(shapes) != 1:
        raise FunctionError(
            f"function returned different sizes for different points: {sorted(s[0] for s in shapes)}; "
            "need the same number of outputs everywhere"
        )
    return np.stack([row.reshape(-1) for row in rows])


def _check_function_finite(values: FloatArray, X: FloatArray) -> None:
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        places = ", ".join(format_point(X[i]) for i in bad[:3]) + (", …" if bad.size > 3 else "")
        raise FunctionError(
            f"function returned NaN or infinity at {bad.size} of {len(X)} points: {places}; need finite "
            "values; shrink the bounds or fix the function there"
        )


def format_point(x: FloatArray) -> str:
    """A point as errors show it."""
    return "(" + ", ".join(f"{value:.6g}" for value in x[:8]) + (", …)" if len(x) > 8 else ")")
