"""Runs in an executor of the caller's: anything with ``submit`` that returns futures."""

from __future__ import annotations

import os
import pickle
import queue
import time
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any

from steep.campaign.crew import Clocked, Landing, Task, drain
from steep.campaign.simulate import Answer, Failure, describe, simulate
from steep.exceptions import CampaignError

# Seconds a broken executor may keep silent about its runs.
_SILENCE = 10.0
# Seconds to wait, at least, for one of the places of an executor all of which are taken by runs over their time.
_GRACE = 10.0


class Given(Clocked):
    """The caller's own executor.

    The clock of a run starts when its future says that it runs; a future that cannot say so counts from when it was
    handed over. A run over its time cannot be stopped: its place in the executor stays taken until it ends.
    """

    late = "this executor cannot stop it, so its place stays taken until it ends by itself"

    def __init__(self, task: Task, executor: Any, n: int | None) -> None:
        super().__init__(task)
        self.executor = executor
        offered = _offered(executor)
        self._places = min(n or offered or os.cpu_count() or 1, offered or n or 10**6)
        self._futures: dict[int, Future[Any]] = {}
        self._stuck: set[int] = set()
        self._broken: queue.Queue[tuple[int, BaseException]] = queue.Queue()
        self._silent_since: float | None = None
        self._blocked_since: float | None = None

    @property
    def n(self) -> int:
        """Places that no hanging run has taken."""
        return max(0, self._places - len(self._stuck))

    def start(self, ticket: int, inputs: Any) -> None:
        """Hand a run over."""
        try:
            future = self.executor.submit(simulate, self.task.function, self.task.style, inputs)
        except RuntimeError as error:  # a BrokenExecutor, or one that was shut down
            raise _broke(error) from error
        serial = self._board(ticket)
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
        self._futures = {
            serial: future
            for serial, future in self._futures.items()
            if serial in self._flying or serial in self._stuck
        }
        if not found:
            self._check_broken()
            self._check_blocked()
        return found

    def _gave_up(self, serial: int) -> None:
        if not self._futures[serial].done():
            self._stuck.add(serial)

    def _came_late(self, serial: int) -> None:
        self._stuck.discard(serial)

    def _check_broken(self) -> None:
        for serial, error in drain(self._broken, 0.0):
            self._stuck.discard(serial)
            if serial in self._flying:
                raise _broke(error) from error
        if not getattr(self.executor, "_broken", False):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = time.monotonic()
        elif time.monotonic() - self._silent_since > _SILENCE:
            raise _broke("it says nothing about its runs")

    def _check_blocked(self) -> None:
        """Every place taken by a run over its time: wait a while for one to end, not for ever."""
        if self.n > 0 or self._flying:
            self._blocked_since = None
            return
        now = time.monotonic()
        if self._blocked_since is None:
            self._blocked_since = now
        patience = max(_GRACE, self.task.timeout or 0.0)
        if now - self._blocked_since > patience:
            raise CampaignError(blocked(len(self._stuck), patience))

    def close(self, *, at_once: bool) -> None:
        """Take back what has not begun; what runs cannot be stopped."""
        for future in self._futures.values():
            future.cancel()


def blocked(n_stuck: int, seconds: float) -> str:
    """What to say when every place is taken by a run that hangs."""
    return (
        f"all {n_stuck} places of the executor are taken by runs over their time, which it cannot stop, and none ended "
        f"within {seconds:g} s more; pass executor='processes', whose runs are stopped, or restart its workers; the "
        "same call resumes where the journal ends"
    )


def _broke(error: Any) -> CampaignError:
    reason = describe(error) if isinstance(error, BaseException) else str(error)
    return CampaignError(
        f"the executor broke ({reason}); pass executor='processes', whose workers are replaced when they die, or "
        "make a new executor; the same call resumes where the journal ends"
    )


def _offered(executor: Any) -> int | None:
    """Workers an executor says it has."""
    for name in ("_max_workers", "num_workers"):
        if isinstance(getattr(executor, name, None), int):
            return max(1, int(getattr(executor, name)))
    return None
