"""Numbers that callers give a campaign, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steep._validation import FloatArray, check_count, check_points
from steep.exceptions import InputError, SteepError

# More runs than this are a slip of the pen.
_MOST_RUNS = 10**9


def check_runs(value: Any, *, name: str, minimum: int = 1) -> int:
    """Return a number of runs, within what a campaign can be."""
    count = check_count(value, name=name, minimum=minimum)
    if count > _MOST_RUNS:
        raise InputError(f"{name} is above {_MOST_RUNS}; need fewer runs")
    return count


def numbers_of(name: str, read: Callable[[], FloatArray]) -> FloatArray:
    """What ``read`` returns, as float64 of our own."""
    try:
        return np.array(read(), dtype=np.float64)
    except SteepError:
        raise
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{name} is no array of numbers ({error}); need finite numbers in rows") from error


def label_rows(y: Any, n: int) -> FloatArray:
    """Results as ``(n, n_outputs)``; never transposed by guessing."""
    values = numbers_of("y", lambda: check_points(_as_rows(y, n), name="y"))
    if len(values) != n:
        raise InputError(f"y has {len(values)} rows for {n} points; need one row, or one number, for each")
    return values


def _as_rows(y: Any, n: int) -> Any:
    shape = np.shape(y) if not hasattr(y, "shape") else y.shape
    if len(shape) > 1:
        return y
    # One point: a vector is its outputs.
    return np.reshape(np.asarray(y), (1, -1) if n == 1 else (-1, 1))
