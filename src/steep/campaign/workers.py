"""Where runs happen: in this thread, in threads or processes of our own, in an executor or a cluster given."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from steep._validation import check_count
from steep.campaign.crew import Clocked, Crew, Landing, Task
from steep.campaign.executors import Given
from steep.campaign.processes import Processes
from steep.campaign.simulate import simulate
from steep.exceptions import InputTypeError


def make_crew(executor: Any, n_workers: int | None, task: Task) -> Crew:
    """The crew for an ``executor`` argument."""
    n = None if n_workers is None else check_count(n_workers, name="n_workers")
    if executor is None:
        return Inline(task)
    if executor == "threads":
        return Threads(task, n or os.cpu_count() or 1)
    if executor == "processes":
        return Processes(task, n or os.cpu_count() or 1)
    if isinstance(executor, str) or not callable(getattr(executor, "submit", None)):
        raise InputTypeError(
            f"executor={executor!r} is unknown; need None, 'threads', 'processes' or an object with submit(), "
            "as client.get_executor() of Dask gives"
        )
    if type(executor).__module__.split(".")[0] == "distributed":
        from steep.campaign.dask_cluster import Cluster

        return Cluster(task, executor, n)
    return Given(task, executor, n)


class Inline(Crew):
    """Runs in the caller's thread, one at a time."""

    n = 1
    inline = True

    def __init__(self, task: Task) -> None:
        self.task = task
        self._done: list[Landing] = []

    def start(self, ticket: int, inputs: Any) -> None:
        """Make the run now."""
        self._done.append((ticket, simulate(self.task.function, self.task.style, inputs)))

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

    def start(self, ticket: int, inputs: Any) -> None:
        """Begin a run in a thread of its own."""
        serial = self._board(ticket)
        threading.Thread(target=self._run, args=(serial, inputs), name=f"steep-run-{ticket}", daemon=True).start()

    def _run(self, serial: int, inputs: Any) -> None:
        self._flying[serial].began = time.monotonic()
        answer = simulate(self.task.function, self.task.style, inputs, catch=BaseException)
        self._answers.put((serial, answer))
