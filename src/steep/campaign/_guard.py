"""The process between a campaign and what it runs: whatever happens, it leaves nothing behind.

Run as a script, in three roles:

    _guard.py worker JOBS ANSWERS     makes run after run in a child process, which it replaces when it ends
    _guard.py program ORDER REPORT    runs one program in a folder of its own
    _guard.py task BATCH              makes the runs of one task of a SLURM array, SLURM_ARRAY_TASK_ID says which

JOBS, ANSWERS, ORDER and REPORT are file descriptors. A guard ends, and with it every process it started
and its scratch folder, when a run is over its time, when its child dies, and when the campaign's end of
the pipe closes, be it by ``kill -9``. On Linux a guard adopts orphans (``PR_SET_CHILD_SUBREAPER``), so a
grandchild in a session of its own is found too. Elsewhere the process group of the child is killed.

In a BATCH a run is a file that moves: ``todo/7`` becomes ``running/7`` when a task begins it, and ``done/7`` holds its
answer. A move is one rename, so of a task and of a campaign that takes the run back, exactly one gets it. On SIGTERM
(``scancel``, the walltime, a preemption) a task begins no other run; an answer that comes within the grace period is
kept, and a run without an answer stays in ``running``: it was preempted, and did not fail.

Only the standard library is imported, not steep: a guard starts quickly, has no threads, and may fork.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import pickle
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

# Frames: a tag, the length of the body, the body.
SETUP, JOB, QUIT = b"F", b"J", b"Q"
READY, STARTED, ANSWER, UNLOADABLE, BROKEN = b"R", b"S", b"A", b"L", b"B"
HEADER = struct.Struct(">cQ")

# Where programs of a run make their folders: removed with the child that ran them.
SCRATCH = "STEEP_SCRATCH"

# Seconds: between two looks at whether the campaign still runs; for killed processes to vanish; for a
# child to end by itself; to import what a function needs.
_PACE = 1.0
_VANISH = 10.0
_FAREWELL = 2.0
_LOADING = 600.0
# Times a child may die while it loads the function before that is taken as the function's fault.
_LOADS = 3
# Of a task, in seconds: for SIGTERM to reach it after it ended a run; between two tries to write an answer; for all.
_ECHO, _PAUSE, _PATIENCE = 0.3, 2.0, 1800.0

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # of prctl(2)


# ---------------------------------------------------------------- processes


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def descendants() -> list[int]:
    """Every process below this one, as /proc tells; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                # The second field, the command in parentheses, may hold blanks and parentheses itself.
                fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(name))
    found, below = [], [os.getpid()]
    while below:
        below = [child for pid in below for child in children.get(pid, [])]
        found += below
    return found


def end_descendants(group: int | None = None) -> None:
    """Kill everything below this process, and ``group``, until nothing is left to wait for."""
    deadline = time.monotonic() + _VANISH
    while time.monotonic() < deadline:
        if group is not None:
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        for pid in descendants():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return  # orphans are adopted, so no child means no descendant
        time.sleep(0.002)


def ended(code: int) -> str:
    """How a process ended, by its exit code."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


# ---------------------------------------------------------------- frames


def send(fd: int, tag: bytes, body: bytes = b"") -> None:
    """Write one frame."""
    _write(fd, HEADER.pack(tag, len(body)) + body)


def _write(fd: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]


def read_exactly(fd: int, size: int) -> bytes:
    """Read ``size`` bytes; fewer when the other end closed."""
    parts = []
    while size and (part := os.read(fd, min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive(fd: int) -> tuple[bytes, bytes] | None:
    """Wait for one frame; None when the other end closed."""
    header = read_exactly(fd, HEADER.size)
    if len(header) < HEADER.size:
        return None
    tag, size = HEADER.unpack(header)
    body = read_exactly(fd, size)
    return (tag, body) if len(body) == size else None


class Inbox:
    """Frames from a pipe, as they come: half a frame never blocks."""

    def __init__(self, fd: int) -> None:
        self.fd, self.closed = fd, False
        self._bytes = bytearray()

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """Take what has arrived and yield the frames it completes."""
        while not self.closed and select.select([self.fd], [], [], 0)[0]:
            part = os.read(self.fd, 1 << 16)
            self.closed = not part
            self._bytes += part
            while len(self._bytes) >= HEADER.size:
                tag, size = HEADER.unpack_from(self._bytes)
                end = HEADER.size + size
                if len(self._bytes) < end:
                    break
                body = bytes(self._bytes[HEADER.size : end])
                del self._bytes[:end]
                yield tag, body


# ---------------------------------------------------------------- a worker


class Child:
    """The process in which runs are made, one after another."""

    def __init__(self, setup: dict[str, Any], close: list[int]) -> None:
        self.scratch = os.path.join(tempfile.gettempdir(), f"steep-{os.urandom(8).hex()}")
        jobs, self.jobs = os.pipe()
        answers, theirs = os.pipe()
        self.inbox, self.ready = Inbox(answers), False
        guard = os.getpid()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            for fd in (*close, self.jobs, answers):
                os.close(fd)
            _live(setup, guard, self.scratch, jobs, theirs)
        os.close(jobs)
        os.close(theirs)

    def end(self) -> None:
        """Kill it with all that it started, and remove its scratch folder."""
        end_descendants(self.pid)
        shutil.rmtree(self.scratch, ignore_errors=True)
        os.close(self.jobs)
        os.close(self.inbox.fd)


class Worker:
    """Takes jobs from the campaign, has them done, and answers each exactly once."""

    def __init__(self, jobs: int, answers: int) -> None:
        self.campaign, self.inbox, self.answers = os.getppid(), Inbox(jobs), answers
        self.setup: dict[str, Any] = {}
        self.child: Child | None = None
        self.job: bytes | None = None  # the run to be answered
        self.deadline: float | None = None
        self.n_deaths = 0  # of children that were loading the function, in a row
        self.wakes = _wake_on_children()

    def serve(self) -> None:
        """Work until the campaign is done or gone."""
        try:
            while os.getppid() == self.campaign and not self.inbox.closed:
                self._wait()
                if self.child is not None:
                    self._hear()
                if self.child is not None and self.deadline is not None and time.monotonic() > self.deadline:
                    self._late(self.child)
                for tag, body in self.inbox.read():
                    if tag == QUIT:
                        return self._farewell()
                    self._take(tag, body)
        finally:
            if self.child is not None:
                self.child.end()

    def _wait(self) -> None:
        left = _PACE if self.deadline is None else min(_PACE, max(0.0, self.deadline - time.monotonic()))
        pipes = [self.inbox.fd, self.wakes]
        if self.child is not None and not self.child.inbox.closed:
            pipes.append(self.child.inbox.fd)
        if self.wakes in select.select(pipes, [], [], left)[0]:
            os.read(self.wakes, 4096)

    def _take(self, tag: bytes, body: bytes) -> None:
        if tag == SETUP:
            self.setup = pickle.loads(body)  # from our own parent, over a pipe that no other process holds
        else:
            self.job = body
        if self.child is None:
            self._start_child()
        elif self.child.ready and tag == JOB:
            send(self.child.jobs, JOB, body)

    def _start_child(self) -> None:
        """Start a child, which loads the function first."""
        self.child = Child(self.setup, [self.inbox.fd, self.answers, self.wakes])
        self.deadline = time.monotonic() + _LOADING

    def _hear(self) -> None:
        """What the child says, and whether it is still there."""
        assert self.child is not None
        status = _reap(self.child.pid)
        for tag, body in self.child.inbox.read():
            self._relay(self.child, tag, body)
            if tag == UNLOADABLE:
                return self._drop()
        if status is not None:
            was_ready = self.child.ready
            self._drop()
            if not was_ready:
                self._load_again(f"{ended(status)} while it loaded the function")
            elif self.job is not None:
                self._answer(ANSWER, _failed("worker", f"the worker process died: it {ended(status)}"))
        return None

    def _load_again(self, how: str) -> None:
        """Loading is tried again, a few times: the machine may have been short of memory."""
        self.n_deaths += 1
        if self.n_deaths < _LOADS:
            return self._start_child()
        why = f"a worker process {how}, {_LOADS} times in a row; call the function directly to see why it crashes"
        return self._answer(BROKEN, why.encode())

    def _relay(self, child: Child, tag: bytes, body: bytes) -> None:
        if tag == READY:
            child.ready, self.deadline, self.n_deaths = True, None, 0
            send(self.answers, READY)
            if self.job is not None:
                send(child.jobs, JOB, self.job)
        elif tag == STARTED:
            timeout = self.setup["timeout"]
            self.deadline = None if timeout is None else time.monotonic() + timeout
        else:
            self._answer(tag, body)

    def _late(self, child: Child) -> None:
        self._drop()
        if child.ready:
            message = f"the run took more than {self.setup['timeout']:g} s and was stopped"
            return self._answer(ANSWER, _failed("timeout", message))
        why = f"a worker process took more than {_LOADING:g} s to load the function; make its imports faster"
        return self._answer(BROKEN, why.encode())

    def _answer(self, tag: bytes, body: bytes) -> None:
        self.job = self.deadline = None
        send(self.answers, tag, body)

    def _drop(self) -> None:
        assert self.child is not None
        self.child.end()
        self.child = None

    def _farewell(self) -> None:
        """Let the child end by itself, so that what it registered with atexit is done."""
        if self.child is None or not self.child.ready or self.job is not None:
            return
        send(self.child.jobs, QUIT)
        deadline = time.monotonic() + _FAREWELL
        while _reap(self.child.pid) is None and time.monotonic() < deadline:
            time.sleep(0.005)


def _failed(kind: str, message: str) -> bytes:
    """The answer of a run that failed, as bytes."""
    plain = _load("simulate")
    return bytes(plain.pack(plain.Answer([], None, plain.Failure(kind, message))))


def _wake_on_children() -> int:
    """A pipe that becomes readable when a child ends."""
    wakes, write = os.pipe()
    os.set_blocking(write, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wakes


def _reap(child: int) -> int | None:
    """Collect processes that ended; the exit code of ``child`` when it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
    return code


# ---------------------------------------------------------------- inside the child


def _live(setup: dict[str, Any], guard: int, scratch: str, jobs: int, answers: int) -> NoReturn:
    """The life of a child: load the function, make runs, never return."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == guard:  # else it died before the line above
            os.environ[SCRATCH] = scratch
            serve_runs(setup, jobs, answers)
    except BaseException:
        traceback.print_exc()
    finally:
        _leave()


def _leave() -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)


def serve_runs(setup: dict[str, Any], jobs: int, answers: int) -> None:
    """Load the function, then make one run for each job until told to quit."""
    me = os.getpid()
    try:
        simulate = _load("simulate")
        function = _load_function(setup) if "function" in setup else _simulator(setup)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        return send(answers, UNLOADABLE, text.encode(errors="backslashreplace"))
    send(answers, READY)
    while (frame := receive(jobs)) is not None and frame[0] == JOB:
        inputs = pickle.loads(frame[1])  # from our own grandparent
        send(answers, STARTED)
        answer = simulate.simulate(function, setup["style"], inputs, catch=BaseException)
        if os.getpid() != me:
            _leave()  # a fork of the user's came back from the function: its parent answers
        send(answers, ANSWER, simulate.pack(answer))
    if frame is not None:
        atexit._run_exitfuncs()  # which os._exit skips
    return None


def _load(name: str) -> ModuleType:
    """A module next to this one, without steep, whose import takes seconds that most functions do not need."""
    return _loaded(f"_steep_{name}", os.path.join(os.path.dirname(__file__), f"{name}.py"))


def _loaded(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load_function(setup: dict[str, Any]) -> Any:
    """The function to run, its module found as it was in the campaign's process."""
    from multiprocessing import current_process, spawn

    if setup["style"] == "array":
        import numpy  # noqa: F401 - the inputs are an array: loading it is not part of a run
    process: Any = current_process()
    process._inheriting = True  # the script of the campaign is imported, and starts nothing again
    try:
        spawn.prepare(setup["main"])
        return pickle.loads(setup["function"])
    finally:
        del process._inheriting


# ---------------------------------------------------------------- a program


def guard_program(order: int, report: int) -> None:
    """Run one program in a fresh folder until it ends, or the other end of ``order`` closes.

    The file that holds its answer, if there is one, follows on its stdout; the report tells its size.
    """
    with open(order, "rb", closefd=False) as file:
        wanted = json.loads(file.readline())
    place = wanted["keep"] or wanted["scratch"]
    if place is not None:
        os.makedirs(place, mode=0o777 if wanted["keep"] else 0o700, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="run-" if wanted["keep"] else "steep-", dir=place)
    stdout = os.dup(1)
    try:
        wakes = _wake_on_children()
        for name, text in wanted["files"].items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            Path(folder, name).write_text(text, encoding="utf-8")
        program = _start_program(wanted, folder, report)
        if program is not None:
            code = _watch(program, order, wakes)
            with contextlib.suppress(BrokenPipeError):
                _tell(report, code=code, folder=folder, **_append(stdout, folder, wanted["file"]))
    finally:
        end_descendants()
        if not wanted["keep"]:
            shutil.rmtree(folder, ignore_errors=True)


def _append(stdout: int, folder: str, name: str | None) -> dict[str, Any]:
    """Write a file of the folder to stdout; its size, or why there is none."""
    if name is None:
        return {}
    try:
        content = _content(Path(folder, name))
    except (OSError, ValueError) as error:
        return {"missing": getattr(error, "strerror", None) or str(error)}
    _write(stdout, content)
    return {"size": len(content)}


def _content(path: Path) -> bytes:
    """Content of a regular file: opening a pipe, or reading a device, may never end."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("not a regular file")
        return opened.read()


def _start_program(wanted: dict[str, Any], folder: str, report: int) -> int | None:
    try:
        program = subprocess.Popen(wanted["arguments"], cwd=folder, env=wanted["env"], start_new_session=True)
    except (OSError, ValueError) as error:
        _tell(report, error=str(error))
        return None
    # Only the program and its children hold its pipes now.
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    program.returncode = 0  # it is reaped here, not by subprocess
    return program.pid


def _watch(program: int, order: int, wakes: int) -> int:
    """Wait for the end of the program; what it left running ends with it."""
    parent, code = os.getppid(), None
    while code is None:
        ready = select.select([order, wakes], [], [], _PACE)[0]
        if order in ready or os.getppid() != parent:
            sys.exit()  # over its time, or no process wants the answer any more
        if wakes in ready:
            os.read(wakes, 4096)
        code = _reap(program)
    end_descendants(program)
    return code


def _tell(report: int, **entries: Any) -> None:
    os.write(report, json.dumps(entries).encode() + b"\n")


# ---------------------------------------------------------------- a task of SLURM


def make_task(batch: Path) -> int:
    """Make every run of this task that can still be begun; 0 when all are answered."""
    plain, stops = _load("simulate"), list[int]()
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    task = json.loads((batch / "task.json").read_text())
    numbers = json.loads((batch / "tasks.json").read_text())[int(os.environ["SLURM_ARRAY_TASK_ID"])]
    os.chdir(task["cwd"])
    for number in numbers:
        if stops:
            return 1
        if not _claim(batch, number):
            continue
        inputs = json.loads((batch / "running" / str(number)).read_text())
        child = Child(task, [])
        try:
            if (answer := _made(child, task, inputs, plain, stops)) is None:
                return 1
            _deliver(batch, number, answer, stops)
        finally:
            child.end()  # not before: an answer is worth more than order
    return 0


def _claim(batch: Path, number: int) -> bool:
    """Take a run; one that an earlier start of this very task began, before it was requeued, is taken again."""
    running = batch / "running" / str(number)
    try:
        os.rename(batch / "todo" / str(number), running)
    except FileNotFoundError:
        has_begun = int(os.environ.get("SLURM_RESTART_COUNT") or 0) > 0
        return has_begun and running.exists() and not (batch / "done" / str(number)).exists()
    return True


def _made(child: Child, task: dict[str, Any], inputs: Any, plain: ModuleType, stops: list[int]) -> bytes | None:
    """The answer of one run; None when it was preempted."""
    with contextlib.suppress(BrokenPipeError):  # a child that died at once is noticed below
        send(child.jobs, JOB, pickle.dumps(inputs))
    found, code, is_late = None, None, False
    deadline = None if task["timeout"] is None else time.monotonic() + task["timeout"]
    while found is None and code is None and not is_late:
        left = _PACE if deadline is None else min(_PACE, max(0.0, deadline - time.monotonic()))
        # Without an answer the end of the child closes the pipe, unless something it forked holds it.
        select.select([child.inbox.fd], [], [], left) if not child.inbox.closed else time.sleep(0.01)
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if pid else None
        found = next((frame for frame in child.inbox.read() if frame[0] in (ANSWER, UNLOADABLE)), None)
        is_late = deadline is not None and time.monotonic() > deadline
    if found is None:
        end_descendants(child.pid)
        why = ("worker", f"the process of the run {ended(code)}") if code is not None else None
        failure = why or ("timeout", f"the run took more than {task['timeout']:g} s and was stopped")
    elif found[0] == UNLOADABLE:
        failure = ("load", f"the simulator cannot be loaded: {found[1].decode()}")
    elif plain.unpack(found[1]).failure is None:
        return found[1]
    time.sleep(_ECHO)  # SIGTERM goes to all processes of a task: it may be what ended the run
    if stops:
        return None
    if found is not None and found[0] == ANSWER:
        return found[1]
    return _failed(*failure)


def _simulator(task: dict[str, Any]) -> Any:
    """The function to run: a program, or an attribute of a module or of a script."""
    sys.path[:0] = [place for place in task["path"] if place not in sys.path]
    if "command" in task:
        from steep.campaign.command import command_simulator

        return command_simulator(**task["command"])
    if task["script"] is not None:
        found: Any = _loaded("steep_script", task["script"])
    else:
        found = importlib.import_module(task["module"])
    for part in task["name"].split("."):
        found = getattr(found, part)
    return found


def _deliver(batch: Path, number: int, answer: bytes, stops: list[int]) -> None:
    """Write an answer whole or not at all, with patience where the disk is full."""
    last = time.monotonic() + _PATIENCE
    temporary, done = batch / "done" / f".{number}-{os.getpid()}", batch / "done" / str(number)
    while True:
        try:
            with temporary.open("wb") as file:
                file.write(answer)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, done)
            break
        except OSError:
            if stops or time.monotonic() > last:
                raise
            time.sleep(_PAUSE)
    (batch / "running" / str(number)).unlink(missing_ok=True)


def main() -> None:
    """Play the role asked for."""
    if sys.path and os.path.abspath(sys.path[0] or ".") == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]  # Python put the folder of this script there
    _prctl(_SUBREAPER, 1)  # become the parent of every descendant whose own parent ends
    if sys.argv[1] == "task":
        sys.exit(make_task(Path(sys.argv[2])))
    # A handler, since programs would inherit that a signal is ignored.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Small numbers, which select needs; not inherited by programs.
    first, second = (os.dup(int(fd)) for fd in sys.argv[2:4])
    for fd in sys.argv[2:4]:
        os.close(int(fd))
    if sys.argv[1] == "worker":
        Worker(first, second).serve()
    else:
        guard_program(first, second)


if __name__ == "__main__":
    main()
