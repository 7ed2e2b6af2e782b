"""What makes runs: up to n at a time, each answered exactly once, whatever happens to it."""

from __future__ import annotations

import itertools
import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from steep.campaign.simulate import Answer, Failure, Style

# A run by its number, and what came of it.
Landing = tuple[int, Answer]


class Task(NamedTuple):
    """What every run of a campaign has in common."""

    function: Callable[..., Any]
    style: Style
    timeout: float | None


class Crew(ABC):
    """Makes runs; each started run lands exactly once."""

    inline = False

    @property
    @abstractmethod
    def n(self) -> int:
        """Runs it can make at the same time now; 0 while all its places are taken by runs that hang."""

    @abstractmethod
    def start(self, ticket: int, inputs: Any) -> None:
        """Begin a run; ``ticket`` comes back with its answer."""

    @abstractmethod
    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended, waiting at most so long for the first."""

    def close(self, *, at_once: bool) -> None:
        """End all that is still running; ``at_once`` when the campaign was interrupted."""
        return


@dataclass
class Attempt:
    """One start of a run: a retry is another attempt, so that a late answer is never taken for its own."""

    ticket: int
    began: float | None = None


class Clocked(Crew):
    """Attempts that nobody can stop when their time is over, which counts from their own beginning.

    Subclasses put ``(attempt, answer)`` into ``_answers`` and set ``Attempt.began``.
    """

    late: str

    def __init__(self, task: Task) -> None:
        self.task = task
        self._serials = itertools.count()
        self._flying: dict[int, Attempt] = {}
        self._answers: queue.Queue[tuple[int, Answer]] = queue.Queue()

    def _board(self, ticket: int) -> int:
        """Number a new attempt."""
        serial = next(self._serials)
        self._flying[serial] = Attempt(ticket)
        return serial

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended or are over their time; the answer of a late one is dropped."""
        found = []
        for serial, answer in drain(self._answers, seconds):
            if (attempt := self._flying.pop(serial, None)) is not None:
                found.append((attempt.ticket, answer))
            else:
                self._came_late(serial)
        return found + self._overdue()

    def _overdue(self) -> list[Landing]:
        timeout, now = self.task.timeout, time.monotonic()
        if timeout is None:
            return []
        begun = [(serial, attempt.began) for serial, attempt in self._flying.items()]
        overdue = [serial for serial, began in begun if began is not None and now - began > timeout]
        failure = Failure("timeout", f"the run took more than {timeout:g} s; {self.late}")
        found = []
        for serial in overdue:
            found.append((self._flying.pop(serial).ticket, Answer([], None, failure)))
            self._gave_up(serial)
        return found

    def _gave_up(self, serial: int) -> None:
        """An attempt is over its time."""
        return

    def _came_late(self, serial: int) -> None:
        """An attempt that was given up ended after all."""
        return


def drain(source: queue.Queue[Any], seconds: float) -> list[Any]:
    """Everything in a queue, waiting at most so long for the first entry."""
    found = []
    try:
        found.append(source.get(timeout=seconds) if seconds > 0 else source.get_nowait())
        while True:
            found.append(source.get_nowait())
    except queue.Empty:
        return found
