"""Calling the user's function: once for all points or point by point, its answers checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steep._validation import FloatArray
from steep.exceptions import FunctionError, InputTypeError

Function = Callable[[Any], Any]


def evaluate(function: Function, X: FloatArray, *, vectorized: bool = True) -> FloatArray:
    """Call ``function`` on the rows of ``X`` and return its values as ``(n_samples, n_outputs)``.

    A vectorized function is called once with the ``(n_samples, n_features)`` array and may return
    ``(n_samples,)`` or ``(n_samples, n_outputs)``; otherwise it is called once for each row and may
    return a number or a vector.
    """
    if not callable(function):
        raise InputTypeError(f"function is a {type(function).__name__}; need a callable of X")
    if vectorized:
        values = _function_values(function(X))
        if values.ndim not in (1, 2) or values.shape[0] != len(X):
            raise FunctionError(
                f"function returned shape {values.shape} for {len(X)} points; need ({len(X)},) or "
                f"({len(X)}, n_outputs); pass vectorized=False if it takes one point at a time"
            )
    else:
        values = _stack_rows([_function_values(function(x)) for x in X])
    values = values.reshape(len(X), -1)
    _check_function_finite(values, X)
    return values


def _stack_rows(rows: list[FloatArray]) -> FloatArray:
    shapes = {row.reshape(-1).shape for row in rows}
    if len(shapes) != 1:
        raise FunctionError(
            f"function returned different sizes for different points: {sorted(s[0] for s in shapes)}; "
            "need the same number of outputs everywhere"
        )
    return np.stack([row.reshape(-1) for row in rows])


def _function_values(raw: Any) -> FloatArray:
    try:
        return np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FunctionError(
            f"function returned a {type(raw).__name__} that is not an array of numbers ({error}); "
            "need real numbers"
        ) from error


def _check_function_finite(values: FloatArray, X: FloatArray) -> None:
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        shown = ", ".join(_format_point(X[i]) for i in bad[:3]) + (", …" if bad.size > 3 else "")
        raise FunctionError(
            f"function returned NaN or infinity at {bad.size} of {len(X)} points: {shown}; need finite "
            "values; shrink the bounds or mend the function there"
        )


def _format_point(x: FloatArray) -> str:
    return "(" + ", ".join(f"{value:.6g}" for value in x) + ")"
