"""Mistakes that would burn a budget: a function that cannot be called as it will be, runs that all fail alike."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from steep._validation import check_count
from steep.campaign.simulate import Failure, Style
from steep.exceptions import InputError

# Runs that may fail alike before any run of a call worked: so many are hardly chance.
_FIRST = 5

_NUMBERS = re.compile(r"[-+]?\d+\.?\d*(e[-+]?\d+)?", re.IGNORECASE)


def check_signature(function: Callable[..., Any], style: Style, names: tuple[str, ...]) -> None:
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
            f"function takes {shown_signature(signature)} and is given {given} ({error}); rename its arguments or the "
            "inputs of the bounds, or choose pass_as= 'keywords', 'array' or 'mapping'"
        ) from error


def shown_signature(signature: inspect.Signature) -> str:
    """The arguments of a function, short."""
    bare = [p.replace(annotation=p.empty, default=p.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return text if len(text) <= 80 else f"{text[:60]}…"


class Streak:
    """Runs in a row that failed alike, and how many are too many.

    Parameters
    ----------
    most : int or None
        Runs in a row that may fail alike; fewer while no run has worked yet. None: any number.

    Examples
    --------
    >>> streak = Streak(2)
    >>> streak.failed(1, Failure("exception", "ValueError: 3 is odd"))
    >>> print(streak.failed(2, Failure("exception", "ValueError: 5 is odd")))
    2 runs in a row failed alike (ValueError: 5 is odd); none of them is given up: ...
    """

    def __init__(self, most: int | None) -> None:
        self.most = None if most is None else check_count(most, name="max_failures")
        self.runs: list[int] = []
        self._alike: tuple[str, str] | None = None
        self._has_worked = False

    def worked(self) -> None:
        """A run gave a result."""
        self.runs, self._alike, self._has_worked = [], None, True

    def failed(self, number: int, failure: Failure) -> str | None:
        """Note a failed attempt; why to stop, when it is one too many."""
        # Messages that differ in their numbers alone are alike.
        alike = (failure.kind, _NUMBERS.sub("#", failure.message)[:500])
        if alike != self._alike:
            self.runs, self._alike = [], alike
        if number not in self.runs:
            self.runs.append(number)
        if self.most is None or len(self.runs) < (self.most if self._has_worked else min(self.most, _FIRST)):
            return None
        message = " ".join(failure.message.split())
        return (
            f"{len(self.runs)} runs in a row failed alike ({message[:300]}); none of them is given up: fix the cause "
            "and repeat the call, or pass max_failures=None where so many failures are to be expected"
        )
