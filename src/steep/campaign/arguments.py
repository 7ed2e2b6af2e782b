"""Numbers that callers give a campaign, checked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd

from steep._validation import FloatArray, check_count, check_points, check_real, refuse_masked, shown
from steep.exceptions import InputError, InputTypeError, SteepError

# More runs than this are a typo.
_MOST_RUNS = 10**9
# A hundred years.
_LONGEST = 3.2e9


def check_runs(value: Any, *, name: str, minimum: int = 1) -> int:
    """Return a number of runs, within what a campaign can be."""
    count = check_count(value, name=name, minimum=minimum)
    if count > _MOST_RUNS:
        raise InputError(f"{name} is above {_MOST_RUNS}; need fewer runs")
    return count


def check_seconds(value: Any, *, name: str) -> float:
    """Return a length of time in seconds; a text needs its unit.

    Examples
    --------
    >>> check_seconds("12 h", name="lease"), check_seconds(90, name="lease")
    (43200.0, 90.0)
    """
    if isinstance(value, str) and value.strip().replace(".", "").isdigit():
        raise InputTypeError(f"{name}={shown(value)} has no unit; need a text such as '12 h' or '90 s'; add it")
    if isinstance(value, str | timedelta):
        try:
            value = pd.Timedelta(value).total_seconds()
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"{name}={shown(value)} is no length of time ({error}); need seconds or a text such as '12 h'"
            ) from error
    return check_real(value, name=name, above=0.0, maximum=_LONGEST)


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


def label_column(column: Any, n: int, name: str) -> FloatArray:
    """Results of one output as ``(n, 1)``."""
    refuse_masked(column, f"output {name!r}")
    return label_rows(np.reshape(np.asarray(column), (-1, 1)), n)


def _as_rows(y: Any, n: int) -> Any:
    refuse_masked(y, "y")
    shape = np.shape(y) if not hasattr(y, "shape") else y.shape
    if len(shape) > 1:
        return y
    # One point: a vector is its outputs.
    return np.reshape(np.asarray(y), (1, -1) if n == 1 else (-1, 1))
