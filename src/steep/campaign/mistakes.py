"""Mistakes that would burn a budget: runs that all fail alike."""

from __future__ import annotations

import re

from steep._validation import check_count
from steep.campaign.simulate import Failure

# Runs that may fail alike before any run of a call worked: so many are hardly chance.
_FIRST = 5

_NUMBERS = re.compile(r"[-+]?\d+\.?\d*(e[-+]?\d+)?", re.IGNORECASE)


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
            "and start again, or allow that many failures with max_failures=None (--max-failures 0)"
        )
