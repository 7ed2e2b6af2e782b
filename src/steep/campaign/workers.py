"""Workers: in this thread, in threads of ours, in an executor or a cluster of the caller.

A crew makes up to n runs at a time. Each started run lands exactly once, whatever happens to it.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from steep.campaign.simulate import Answer, Failure, Style, simulate

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
    def start(self, number: int, inputs: Any) -> None:
        """Begin a run; ``number`` comes back with its answer."""

    @abstractmethod
    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended, waiting at most so long for the first."""

    def close(self, *, at_once: bool) -> None:
        """End all that is still running; ``at_once`` when the campaign was interrupted."""
        return


@dataclass
class Attempt:
    """One start of a run: a retry is another attempt, so that a late answer is never taken for its own."""

    number: int
    began: float | None = None


class Clocked(Crew):
    """Attempts that no one can stop; subclasses set ``Attempt.began``."""

    late: str

    def __init__(self, task: Task) -> None:
        self.task = task
        self._attempts = itertools.count()
        self._flying: dict[int, Attempt] = {}

    def _board(self, number: int) -> int:
        """Number a new attempt."""
        serial = next(self._attempts)
        self._flying[serial] = Attempt(number)
        return serial

    def _overdue(self) -> list[Landing]:
        timeout, now = self.task.timeout, time.monotonic()
        if timeout is None:
            return []
        begun = [(serial, attempt.began) for serial, attempt in self._flying.items()]
        overdue = [serial for serial, began in begun if began is not None and now - began > timeout]
        failure = Failure("timeout", f"the run took more than {timeout:g} s; {self.late}")
        found = []
        for serial in overdue:
            found.append((self._flying.pop(serial).number, Answer([], None, failure)))
            self._gave_up(serial)
        return found

    def _gave_up(self, serial: int) -> None:
        """An attempt is over its time."""
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


class Inline(Crew):
    """Runs in the caller's thread, one at a time."""

    n = 1
    inline = True

    def __init__(self, task: Task) -> None:
        self.task = task
        self._done: list[Landing] = []

    def start(self, number: int, inputs: Any) -> None:
        """Make the run now."""
        self._done.append((number, simulate(self.task.function, self.task.style, inputs)))

    def landed(self, seconds: float) -> list[Landing]:
        """The run just made."""
        done, self._done = self._done, []
        return done


class Threads(Clocked):
    """One thread a run; a thread that hangs hinders neither the others nor the end of the interpreter."""

    n = 0
    late = "its thread cannot be stopped and runs until it ends by itself"

    def __init__(self, task: Task, n: int) -> None:
        super().__init__(task)
        self.n = n
        self._answers: queue.Queue[tuple[int, Answer]] = queue.Queue()

    def start(self, number: int, inputs: Any) -> None:
        """Begin a run in a thread of its own."""
        serial = self._board(number)
        threading.Thread(target=self._run, args=(serial, inputs), name=f"steep-run-{number}", daemon=True).start()

    def _run(self, serial: int, inputs: Any) -> None:
        self._flying[serial].began = time.monotonic()
        answer = simulate(self.task.function, self.task.style, inputs, catch=BaseException)
        self._answers.put((serial, answer))

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended or are over their time; the answer of a late one is dropped."""
        found = []
        for serial, answer in drain(self._answers, seconds):
            if (attempt := self._flying.pop(serial, None)) is not None:
                found.append((attempt.number, answer))
        return found + self._overdue()
