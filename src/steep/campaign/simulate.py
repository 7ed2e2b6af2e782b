"""One run of a simulator, in whatever process it happens: the answer is always plain data."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from steep._validation import FloatArray
from steep.exceptions import InputError

Style = Literal["keywords", "array", "mapping"]
# kind, message, traceback
Report = tuple[str, str, str]


def simulate(function: Callable[..., Any], style: Style, inputs: Any) -> tuple[Any, Report | None]:
    """Call the simulator; an exception becomes a report, since not every exception can travel."""
    try:
        value = function(**inputs) if style == "keywords" else function(inputs)
        return _plain(value), None
    except Exception as error:  # a failing run is data: it is recorded by the caller, with all of this
        kind = "timeout" if isinstance(error, TimeoutError) else "exception"
        return None, (kind, f"{type(error).__name__}: {error}", traceback.format_exc())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): float(entry) for name, entry in value.items()}
    return np.asarray(value, dtype=np.float64)


def outputs_of(value: Any, names: tuple[str, ...] | None) -> tuple[FloatArray, tuple[str, ...]]:
    """A run's answer as a vector in the order of ``names``, which the first answer decides if open."""
    if isinstance(value, Mapping):
        names = names or tuple(value)
        if set(value) != set(names):
            raise InputError(
                f"outputs are {sorted(value)}, need {sorted(names)}; return every one by its name"
            )
        vector = np.array([value[name] for name in names])
    else:
        vector = np.asarray(value, dtype=np.float64).reshape(-1)
        names = names or tuple(f"y{i}" for i in range(len(vector)))
        if len(vector) != len(names):
            raise InputError(
                f"output has {len(vector)} values, need {len(names)} ({', '.join(names)}) as in every other run"
            )
    return vector, names
