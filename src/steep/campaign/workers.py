"""Workers: in this thread, in threads of ours, in an executor or a cluster of the caller.

A crew makes up to n runs at a time. Each started run lands exactly once, whatever happens to it.
"""

from __future__ import annotations

import itertools
import os
import pickle
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from steep.campaign._interpreter import is_broken, n_workers_of
from steep.campaign.simulate import Answer, Failure, Style, describe, simulate
from steep.exceptions import CampaignError

# A run by its number, and what came of it.
Landing = tuple[int, Answer]
# Seconds a broken executor may keep silent about its runs.
_SILENCE = 10.0
# Seconds to wait, at least, for one of the places of an executor all of which are taken by runs over their time.
_GRACE = 10.0


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
    """Attempts that no one can stop; subclasses put answers into ``_answers`` and set ``Attempt.began``."""

    late: str

    def __init__(self, task: Task) -> None:
        self.task = task
        self._stuck: dict[int, Any] = {}  # futures of runs over their time, whose places stay taken
        self._blocked_since: float | None = None
        self._attempts = itertools.count()
        self._flying: dict[int, Attempt] = {}
        self._answers: queue.Queue[tuple[int, Answer]] = queue.Queue()

    def _board(self, number: int) -> int:
        """Number a new attempt."""
        serial = next(self._attempts)
        self._flying[serial] = Attempt(number)
        return serial

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended or are over their time; the answer of a late one is dropped."""
        found = []
        for serial, answer in drain(self._answers, seconds):
            if (attempt := self._flying.pop(serial, None)) is not None:
                found.append((attempt.number, answer))
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
            found.append((self._flying.pop(serial).number, Answer([], None, failure)))
            self._gave_up(serial)
        return found

    def _check_blocked(self) -> None:
        """Every place taken by a run over its time: wait a while for one to end, not without end."""
        if not self._stuck or self.n > 0 or self._flying:
            self._blocked_since = None
            return
        now = time.monotonic()
        self._blocked_since = self._blocked_since or now
        patience = max(_GRACE, self.task.timeout or 0.0)
        if now - self._blocked_since > patience:
            raise CampaignError(
                f"all {len(self._stuck)} places of the executor are taken by runs over their time, which it cannot "
                f"stop, and none ended within {patience:g} s more; pass executor='processes', whose runs are stopped, "
                "or restart its workers; the same call resumes where the journal ends"
            )

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


class Given(Clocked):
    """The caller's own executor; the clock starts when a future runs, or at submission where it cannot say."""

    late = "this executor cannot stop it, so its place stays taken until it ends by itself"

    def __init__(self, task: Task, executor: Any, n: int | None) -> None:
        super().__init__(task)
        self.executor = executor
        offered = n_workers_of(executor)
        self._places = min(n or offered or os.cpu_count() or 1, offered or n or 10**6)
        self._futures: dict[int, Future[Any]] = {}
        self._broken: queue.Queue[tuple[int, BaseException]] = queue.Queue()
        self._silent_since: float | None = None

    @property
    def n(self) -> int:
        """Places that no hanging run has taken."""
        return max(0, self._places - len(self._stuck))

    def start(self, number: int, inputs: Any) -> None:
        """Hand a run over."""
        try:
            future = self.executor.submit(simulate, self.task.function, self.task.style, inputs)
        except RuntimeError as error:  # a BrokenExecutor, or one that was shut down
            raise _broke(error) from error
        serial = self._board(number)
        if not callable(getattr(future, "running", None)):
            self._flying[serial].began = time.monotonic()
        self._futures[serial] = future
        future.add_done_callback(lambda done: self._note(serial, done))

    def _note(self, serial: int, future: Future[Any]) -> None:
        try:
            self._answers.put((serial, future.result(timeout=0)))
        except (BrokenExecutor, CancelledError, pickle.PicklingError) as error:
            self._broken.put((serial, error))
        except BaseException as error:
            self._answers.put((serial, Answer([], None, Failure("worker", describe(error)))))

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended; an executor that broke is an error, since it is not ours to replace."""
        now = time.monotonic()
        for serial, attempt in self._flying.items():
            if attempt.began is None and self._futures[serial].running():
                attempt.began = now
        found = super().landed(seconds)
        self._futures = {serial: future for serial, future in self._futures.items() if serial in self._flying}
        self._stuck = {serial: future for serial, future in self._stuck.items() if not future.done()}
        if not found:
            self._check_broken()
            self._check_blocked()
        return found

    def _gave_up(self, serial: int) -> None:
        self._stuck[serial] = self._futures.pop(serial)

    def _check_broken(self) -> None:
        for serial, error in drain(self._broken, 0.0):
            if serial in self._flying:
                raise _broke(error) from error
        if not is_broken(self.executor):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = time.monotonic()
        elif time.monotonic() - self._silent_since > _SILENCE:
            raise _broke("it says nothing about its runs")

    def close(self, *, at_once: bool) -> None:
        """Take back what has not begun; what runs cannot be stopped."""
        for future in [*self._futures.values(), *self._stuck.values()]:
            future.cancel()


def _broke(error: Any) -> CampaignError:
    reason = describe(error) if isinstance(error, BaseException) else str(error)
    return CampaignError(
        f"the executor broke ({reason}); pass executor='processes', whose workers are replaced when they die, or "
        "make a new executor; the same call resumes where the journal ends"
    )


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

    def start(self, number: int, inputs: Any) -> None:
        """Begin a run in a thread of its own."""
        serial = self._board(number)
        threading.Thread(target=self._run, args=(serial, inputs), name=f"steep-run-{number}", daemon=True).start()

    def _run(self, serial: int, inputs: Any) -> None:
        self._flying[serial].began = time.monotonic()
        answer = simulate(self.task.function, self.task.style, inputs, catch=BaseException)
        self._answers.put((serial, answer))
