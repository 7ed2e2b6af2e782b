"""One run of a simulator, in whatever process it happens: the answer is always plain data.

Only the standard library is imported at first, since worker processes load this file without steep.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

Style = Literal["keywords", "array", "mapping"]


class Failure(NamedTuple):
    """Why a run gave no result."""

    kind: str
    message: str
    traceback: str = ""


class Answer(NamedTuple):
    """Outputs of a run, with their names when it gave some; or its failure."""

    values: list[float]
    names: tuple[str, ...] | None = None
    failure: Failure | None = None


def simulate(
    function: Callable[..., Any], style: Style, inputs: Any, *, catch: type[BaseException] = Exception
) -> Answer:
    """Call the simulator; an exception becomes a failure, since not every exception can travel."""
    try:
        if style == "array":
            import numpy as np

            # An array of the run's own: what the function does to it stays there.
            return _plain(function(np.array(inputs, dtype=np.float64)))
        return _plain(function(**inputs) if style == "keywords" else function(dict(inputs)))
    except catch as error:  # a failing run is data: it is recorded by the campaign, with all of this
        kind = "timeout" if isinstance(error, TimeoutError) else getattr(error, "failure_kind", "exception")
        return Answer([], None, Failure(kind, describe(error), _trace(error)))


def describe(error: BaseException) -> str:
    """Name and message of an error, even of one that cannot be printed."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as worse:
        return f"{type(error).__name__} (its message raises {type(worse).__name__})"


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as worse:
        return f"no traceback: formatting it raises {type(worse).__name__}"


def _plain(value: Any) -> Answer:
    if isinstance(value, int | float):
        return Answer([float(value)])
    # Not before a run: until the function is loaded, a worker may not find steep.
    from steep._outputs import named_outputs, numbers, one_number

    named = named_outputs(value)
    if named is not None:
        return Answer([one_number(entry, name) for name, entry in named.items()], tuple(named))
    return Answer(numbers(value).reshape(-1).tolist())


def pack(answer: Answer) -> bytes:
    """An answer as bytes that hold nothing but text and numbers, to the last digit."""
    return json.dumps(answer).encode()


def unpack(body: bytes) -> Answer:
    """Undo :func:`pack`."""
    values, names, failure = json.loads(body)
    return Answer(values, None if names is None else tuple(names), None if failure is None else Failure(*failure))
