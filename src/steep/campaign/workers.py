"""Workers: in this thread, in threads of ours, in processes of ours.

A crew makes up to n runs at a time. Each started run lands exactly once, whatever happens to it.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from multiprocessing import current_process, spawn
from typing import Any, NamedTuple

from steep.campaign import _guard
from steep.campaign.simulate import Answer, Failure, Style, describe, simulate, unpack
from steep.exceptions import CampaignError, InputTypeError

# Seconds given to a guard to end all it started, before it is killed itself.
_GRACE = 15.0
# A run by its number, and what came of it.
Landing = tuple[int, Answer]


class Task(NamedTuple):
    """What every run of a campaign has in common."""

    function: Callable[..., Any]
    style: Style
    timeout: float | None


class Crew(ABC):
    """Makes runs; each started run lands exactly once."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Runs it can make at the same time now; 0 for a cluster that has no worker yet."""

    @abstractmethod
    def start(self, number: int, inputs: Any) -> None:
        """Begin a run; ``number`` comes back with its answer."""

    @abstractmethod
    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended, waiting at most so long for the first."""

    def close(self, *, at_once: bool) -> None:
        """End all that is still running; ``at_once`` when the campaign was interrupted."""
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


class Threads(Crew):
    """One thread a run; a thread that hangs does not hinder the end of the interpreter."""

    n = 0

    def __init__(self, task: Task, n: int) -> None:
        self.task, self.n = task, n
        self._answers: queue.Queue[Landing] = queue.Queue()

    def start(self, number: int, inputs: Any) -> None:
        """Begin a run in a thread of its own."""
        threading.Thread(target=self._run, args=(number, inputs), name=f"steep-run-{number}", daemon=True).start()

    def _run(self, number: int, inputs: Any) -> None:
        self._answers.put((number, simulate(self.task.function, self.task.style, inputs, catch=BaseException)))

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended."""
        return drain(self._answers, seconds)


class Processes(Crew):
    """Processes of ours, each under a guard that ends whatever its run started: no run touches another."""

    n = 0

    def __init__(self, task: Task, n: int) -> None:
        self.n = n
        self._setup = _setup(task)
        self._events: queue.Queue[tuple[_Worker, bytes, bytes]] = queue.Queue()
        self._workers: list[_Worker] = []
        try:
            first = self._hire()
            while not first.ready:  # a function that cannot be loaded fails here, before any run
                self.landed(0.1)
        except BaseException:
            self.close(at_once=True)
            raise

    def _hire(self) -> _Worker:
        worker = _Worker(self._setup, self._events)
        self._workers.append(worker)
        return worker

    def start(self, number: int, inputs: Any) -> None:
        """Give the run to an idle worker, or to a new one."""
        idle = [worker for worker in self._workers if worker.number is None]
        worker = idle[0] if idle else self._hire()
        # An array goes as a list: the worker makes its own, and needs no NumPy to read the pipe.
        plain = inputs if isinstance(inputs, dict) else inputs.tolist()
        worker.assign(number, pickle.dumps(plain))

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended, were stopped, or died with their worker."""
        events = drain(self._events, seconds)
        landings = [self._read(worker, tag, body) for worker, tag, body in events]
        return [landing for landing in landings if landing is not None]

    def _read(self, worker: _Worker, tag: bytes, body: bytes) -> Landing | None:
        if tag == _guard.ANSWER:
            return worker.land(unpack(body))
        if tag == _guard.READY:
            worker.ready = True
            return None
        if tag == _guard.BROKEN:
            raise CampaignError(body.decode())
        if tag == _guard.UNLOADABLE:
            raise CampaignError(
                f"a worker process cannot load the function ({body.decode()}); define it in a module or script file "
                "that can be imported, with the call of run under if __name__ == '__main__':, or use executor='threads'"
            )
        # The guard itself is gone.
        self._workers.remove(worker)
        worker.end(at_once=True)
        if not worker.ready and worker.number is None:
            raise CampaignError("a worker process was killed from outside before it was ready; start again")
        return worker.land(Answer([], None, Failure("worker", "the worker process died: it was killed from outside")))

    def close(self, *, at_once: bool) -> None:
        """End every worker and all it started."""
        for worker in self._workers:
            worker.dismiss(at_once=at_once)
        deadline = time.monotonic() + _GRACE
        for worker in self._workers:
            worker.end(at_once=False, deadline=deadline)
        self._workers = []


class _Worker:
    """A guard process, the pipe to it, and the run it is at."""

    def __init__(self, setup: bytes, events: queue.Queue[tuple[_Worker, bytes, bytes]]) -> None:
        self.number: int | None = None
        self.ready = False
        theirs, self._jobs = os.pipe()
        self._answers, ours = os.pipe()
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        try:
            self.process = subprocess.Popen(
                [sys.executable, *flags, _guard.__file__, "worker", str(theirs), str(ours)],
                stdin=subprocess.DEVNULL, pass_fds=(theirs, ours), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(theirs)
            os.close(ours)
        self._reader = threading.Thread(target=self._read, args=(events,), daemon=True)
        self._reader.start()
        self._send(_guard.SETUP, setup)

    def _read(self, events: queue.Queue[tuple[_Worker, bytes, bytes]]) -> None:
        while (frame := _guard.receive(self._answers)) is not None:
            events.put((self, *frame))
        events.put((self, b"", b""))

    def _send(self, tag: bytes, body: bytes = b"") -> None:
        try:
            _guard.send(self._jobs, tag, body)
        except BrokenPipeError:
            return  # the reader sees the end of the pipe, too, and reports it

    def assign(self, number: int, job: bytes) -> None:
        """Give it a run."""
        self.number = number
        self._send(_guard.JOB, job)

    def land(self, answer: Answer) -> Landing | None:
        """The answer of the run it was at."""
        number, self.number = self.number, None
        return None if number is None else (number, answer)

    def dismiss(self, *, at_once: bool) -> None:
        """Tell it to end: politely, or by closing its pipe, upon which it kills."""
        if self._jobs < 0:
            return
        if not at_once:
            self._send(_guard.QUIT)
        os.close(self._jobs)
        self._jobs = -1

    def end(self, *, at_once: bool, deadline: float = 0.0) -> None:
        """Wait for its end, and see to it."""
        self.dismiss(at_once=at_once)
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()) if deadline else 0.1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(_GRACE)
        self._reader.join(_GRACE)
        if not self._reader.is_alive():
            os.close(self._answers)


def _setup(task: Task) -> bytes:
    """All a worker has to know, as bytes."""
    if sys.platform == "win32":
        raise CampaignError("executor='processes' needs fork, which Windows lacks; use 'threads' or a Dask cluster")
    if getattr(current_process(), "_inheriting", False):
        raise CampaignError(
            "a worker process imports this script and would start the campaign again; put the call under "
            "if __name__ == '__main__':"
        )
    try:
        function = pickle.dumps(task.function)
    except Exception as error:
        raise InputTypeError(
            f"function cannot be sent to a process ({describe(error)}); define it with def at the top of a module, or "
            "use executor='threads'"
        ) from error
    data = spawn.get_preparation_data("steep worker")
    wanted = ["sys_path", "sys_argv", "dir", "orig_dir"]
    if b"__main__" in function:  # otherwise the script need not be imported at all
        wanted += ["init_main_from_name", "init_main_from_path"]
    return pickle.dumps(
        {
            "main": {name: data[name] for name in wanted if name in data},
            "function": function,
            "style": task.style,
            "timeout": task.timeout,
        }
    )
