"""Where runs happen: in this thread, in threads or processes of our own, or in an executor given.

A crew starts runs and hands back their answers. Processes are supervised one by one, each under a guard
(see :mod:`steep.campaign._guard`): a run that dies, hangs or forks touches no other.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from multiprocessing import current_process, spawn
from typing import Any, NamedTuple

from steep._validation import check_count
from steep.campaign import _guard
from steep.campaign.simulate import Answer, Failure, Style, describe, simulate, unpack
from steep.exceptions import CampaignError, InputTypeError

# Seconds given to a guard to end all it started, before it is killed itself.
_GRACE = 15.0
# Seconds a broken executor may keep silent about its runs.
_SILENCE = 10.0
# Times a worker may die while it loads the function before that is taken as the function's fault.
_LOADS = 3

Landing = tuple[int, Answer]


class Task(NamedTuple):
    """What every run of a campaign has in common."""

    function: Callable[..., Any]
    style: Style
    timeout: float | None


class Crew(ABC):
    """Makes up to ``n`` runs at the same time; each started run lands exactly once."""

    n: int
    inline = False

    @abstractmethod
    def start(self, ticket: int, inputs: Any) -> None:
        """Begin a run; ``ticket`` comes back with its answer."""

    @abstractmethod
    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended, waiting at most so long for the first."""

    def close(self, *, at_once: bool) -> None:
        """End all that is still running; ``at_once`` when the campaign was interrupted."""
        return


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
    return Given(task, executor, n or _offered(executor))


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


class _Clocked(Crew):
    """Runs that report over a queue, and that nobody can stop when their time is over."""

    late = "its thread cannot be stopped and runs until it ends by itself"

    def __init__(self, task: Task, n: int) -> None:
        self.task, self.n = task, n
        self._landed: queue.Queue[Landing] = queue.Queue()
        self._started: dict[int, float | None] = {}

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended or are over their time; the answer of a late one is dropped."""
        found = [landing for landing in _drain(self._landed, seconds) if landing[0] in self._started]
        for ticket, _ in found:
            self._started.pop(ticket, None)
        timeout, now = self.task.timeout, time.monotonic()
        if timeout is not None:
            started = [(ticket, at) for ticket, at in self._started.items() if at is not None]
            for ticket in [ticket for ticket, at in started if now - at > timeout]:
                del self._started[ticket]
                message = f"the run took more than {timeout:g} s; {self.late}"
                found.append((ticket, Answer([], None, Failure("timeout", message))))
        return found


class Threads(_Clocked):
    """One thread a run; a thread that hangs hinders neither the others nor the end of the interpreter."""

    def start(self, ticket: int, inputs: Any) -> None:
        """Begin a run in a thread of its own."""
        self._started[ticket] = None
        threading.Thread(
            target=self._run, args=(ticket, inputs), name=f"steep-run-{ticket}", daemon=True
        ).start()

    def _run(self, ticket: int, inputs: Any) -> None:
        self._started[ticket] = time.monotonic()
        answer = simulate(self.task.function, self.task.style, inputs, catch=BaseException)
        self._landed.put((ticket, answer))


class Given(_Clocked):
    """The caller's own executor. It does not say when a run begins: its clock starts when it is handed over."""

    late = "this executor cannot stop it"

    def __init__(self, task: Task, executor: Any, n: int) -> None:
        super().__init__(task, n)
        self.executor = executor
        self._silent_since: float | None = None
        self._futures: dict[int, Future[Any]] = {}
        self._broken: queue.Queue[tuple[int, BaseException]] = queue.Queue()
        # A Dask client takes a call with the same inputs for the same result: a retry would be no run.
        is_dask = type(executor).__module__.split(".")[0] == "distributed"
        self._options = {"pure": False} if is_dask else {}

    def start(self, ticket: int, inputs: Any) -> None:
        """Hand a run over."""
        try:
            future = self.executor.submit(
                simulate, self.task.function, self.task.style, inputs, **self._options
            )
        except RuntimeError as error:  # a BrokenExecutor, or one that was shut down
            raise _executor_broke(error) from error
        self._started[ticket] = time.monotonic()
        self._futures[ticket] = future
        future.add_done_callback(lambda done: self._note(ticket, done))

    def _note(self, ticket: int, future: Future[Any]) -> None:
        try:
            self._landed.put((ticket, future.result(timeout=0)))
        except (BrokenExecutor, CancelledError, pickle.PicklingError) as error:
            self._broken.put((ticket, error))
        except BaseException as error:
            self._landed.put((ticket, Answer([], None, Failure("worker", describe(error)))))

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended; an executor that broke is an error, since it is not ours to replace."""
        found = super().landed(seconds)
        for ticket, _ in found:
            if (future := self._futures.pop(ticket, None)) is not None:
                future.cancel()
        if not found:
            self._check()
        return found

    def _check(self) -> None:
        for ticket, error in _drain(self._broken, 0.0):
            if ticket in self._started:  # else it was cancelled here, being late
                raise _executor_broke(error) from error
        if not getattr(self.executor, "_broken", False):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = time.monotonic()
        elif time.monotonic() - self._silent_since > _SILENCE:
            raise _executor_broke("it says nothing about its runs")


def _executor_broke(error: Any) -> CampaignError:
    reason = describe(error) if isinstance(error, BaseException) else str(error)
    return CampaignError(
        f"the executor broke ({reason}); pass executor='processes', whose workers are replaced when they die, or "
        "make a new executor; the same call resumes where the journal ends"
    )


class Processes(Crew):
    """Processes of our own, each under a guard that ends whatever its run started."""

    def __init__(self, task: Task, n: int) -> None:
        self.n = n
        self._setup = _setup(task)
        self._timeout = task.timeout
        self._events: queue.Queue[tuple[_Worker, bytes, bytes]] = queue.Queue()
        self._workers: list[_Worker] = []
        self._deaths = 0
        try:
            self._try_out()
        except BaseException:
            self.close(at_once=True)
            raise

    def _try_out(self) -> None:
        """Load the function in a first worker: one that cannot be loaded fails here, before any run."""
        self._hire()
        deadline = time.monotonic() + _guard._LOADING + _GRACE
        while self._workers and not self._workers[0].ready:
            if time.monotonic() > deadline:
                raise CampaignError("a worker process did not start; look for what its imports wait for")
            self.landed(0.1)
            if not self._workers:
                self._hire()

    def _hire(self) -> _Worker:
        worker = _Worker(self._setup, self._events)
        self._workers.append(worker)
        return worker

    def start(self, ticket: int, inputs: Any) -> None:
        """Give the run to an idle worker, or to a new one."""
        idle = [worker for worker in self._workers if worker.ticket is None]
        worker = idle[0] if idle else self._hire()
        # An array goes as a list: the worker makes its own, and needs no NumPy to read the pipe.
        plain = inputs if isinstance(inputs, dict) else inputs.tolist()
        worker.assign(ticket, pickle.dumps(plain))

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended, were stopped, or died with their worker."""
        events = _drain(self._events, seconds)
        landings = [self._read(worker, tag, body) for worker, tag, body in events]
        return [landing for landing in landings if landing is not None]

    def _read(self, worker: _Worker, tag: bytes, body: bytes) -> Landing | None:
        if tag == _guard.READY:
            worker.ready, self._deaths = True, 0
            return None
        if tag == _guard.UNLOADABLE:
            raise CampaignError(_unloadable(body.decode()))
        if tag == _guard.DIED:
            code, was_ready = json.loads(body)
            if not was_ready:
                return self._died_loading(worker, f"{_ended(code)} while it loaded the function")
            return worker.land(Failure("worker", f"the worker process died: it {_ended(code)}"))
        if tag == _guard.LATE:
            if not json.loads(body):
                raise CampaignError(
                    f"a worker process took more than {_guard._LOADING:g} s to load the function; make its imports "
                    "faster"
                )
            message = f"the run took more than {self._timeout:g} s and was stopped"
            return worker.land(Failure("timeout", message))
        if tag == _guard.ANSWER:
            return worker.land(unpack(body))
        return self._lost(worker)

    def _died_loading(self, worker: _Worker, how: str) -> Landing | None:
        """Loading is tried again, a few times: the machine may have been short of memory."""
        self._deaths += 1
        if self._deaths >= _LOADS:
            raise CampaignError(
                f"a worker process {how}, {_LOADS} times in a row; run the function by itself"
            )
        worker.load_again()
        return None

    def _lost(self, worker: _Worker) -> Landing | None:
        """A guard itself is gone, killed from outside."""
        self._workers.remove(worker)
        worker.end(at_once=True)
        if not worker.ready:
            self._deaths += 1
            if self._deaths >= _LOADS:
                raise CampaignError(f"a worker process ended before it was ready, {_LOADS} times in a row")
        return worker.land(Failure("worker", "the worker process died: it was killed from outside"))

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
        self.ticket: int | None = None
        self.ready = False
        self._setup, self._job = setup, b""
        theirs, self._jobs = os.pipe()
        self._answers, ours = os.pipe()
        try:
            self.process = subprocess.Popen(
                [*interpreter(), _guard.__file__, "worker", str(theirs), str(ours)],
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

    def assign(self, ticket: int, job: bytes) -> None:
        """Give it a run."""
        self.ticket, self._job = ticket, job
        self._send(_guard.JOB, job)

    def load_again(self) -> None:
        """Start over after a death while loading, with the same run if it had one."""
        if self.ticket is None:
            self._send(_guard.SETUP, self._setup)
        else:
            self._send(_guard.JOB, self._job)

    def land(self, outcome: Answer | Failure) -> Landing | None:
        """The answer of the run it was at."""
        ticket, self.ticket = self.ticket, None
        answer = Answer([], None, outcome) if isinstance(outcome, Failure) else outcome
        return None if ticket is None else (ticket, answer)

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


def interpreter() -> list[str]:
    """The Python that runs now, with the flags it was started with."""
    return [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]


def _setup(task: Task) -> bytes:
    """All a worker has to know, as bytes."""
    if sys.platform == "win32":
        raise CampaignError(
            "executor='processes' needs fork, which Windows lacks; use 'threads' or a Dask cluster"
        )
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


def _unloadable(reason: str) -> str:
    return (
        f"a worker process cannot load the function ({reason}); define it in a module or script file that can be "
        "imported, with the call of run under if __name__ == '__main__':, or use executor='threads'"
    )


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _drain(source: queue.Queue[Any], seconds: float) -> list[Any]:
    """Everything in a queue, waiting at most so long for the first entry."""
    found = []
    try:
        found.append(source.get(timeout=seconds) if seconds > 0 else source.get_nowait())
        while True:
            found.append(source.get_nowait())
    except queue.Empty:
        return found


def _offered(executor: Any) -> int:
    """Workers an executor says it has."""
    for name in ("_max_workers", "num_workers"):
        if isinstance(getattr(executor, name, None), int):
            return int(getattr(executor, name))
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "ncores"):
        return max(1, int(sum(client.ncores().values())))
    return os.cpu_count() or 1
