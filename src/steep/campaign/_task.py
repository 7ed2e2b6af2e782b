"""One task of a SLURM array: makes the runs of its line of ``tasks.json``, each result a whole file. No database.

    python _task.py BATCH        with SLURM_ARRAY_TASK_ID in the environment

A run is a file that moves: ``todo/7`` becomes ``running/7`` when a task begins it, and ``done/7`` holds its answer. A
move is one rename, so of a task and of a campaign that takes the run back, exactly one gets it.

On SIGTERM (``scancel``, the walltime, a preemption) no other run is begun; an answer that comes within the grace period
is kept, and a run without an answer stays in ``running``: it was preempted, and did not fail.

Only the standard library is imported, and not steep: a task starts in a few hundredths of a second.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

# Seconds between two looks at a run; for SIGTERM to reach this process after it ended the run; between two tries to
# write an answer on a full disk, and for all of them.
_PACE, _ECHO, _PAUSE, _PATIENCE = 1.0, 0.3, 2.0, 1800.0


class Stop:
    """Whether SIGTERM came."""

    came = False

    def note(self, *_: Any) -> None:
        """Remember it: the handler of the signal."""
        self.came = True


def main(batch: Path) -> int:
    """Make every run of this task that can still be begun; 0 when all are answered."""
    guard, plain = _load("_guard"), _load("simulate")
    guard.adopt_orphans()
    stop = Stop()
    signal.signal(signal.SIGTERM, stop.note)
    task = json.loads((batch / "task.json").read_text())
    numbers = json.loads((batch / "tasks.json").read_text())[int(os.environ["SLURM_ARRAY_TASK_ID"])]
    os.chdir(task["cwd"])
    for number in numbers:
        if stop.came:
            return 1
        if not _claim(batch, number):
            continue
        inputs = json.loads((batch / "running" / str(number)).read_text())
        answer = _make(task, inputs, guard, plain, stop)
        if answer is None:
            return 1
        _deliver(batch, number, answer, stop)
        guard.end_descendants()  # not before: an answer is worth more than order
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


def _make(task: dict[str, Any], inputs: Any, guard: ModuleType, plain: ModuleType, stop: Stop) -> bytes | None:
    """The answer of one run, made in a child with all it starts; None when the run was preempted."""
    answers, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(answers)
        _live(task, inputs, guard, plain, theirs)
    os.close(theirs)
    inbox, found, code, is_late = guard.Inbox(answers), None, None, False
    deadline = None if task["timeout"] is None else time.monotonic() + task["timeout"]
    while found is None and code is None and not is_late:
        left = _PACE if deadline is None else min(_PACE, max(0.0, deadline - time.monotonic()))
        # Without an answer the end of the child closes the pipe, unless something it forked holds it.
        select.select([answers], [], [], left) if not inbox.closed else time.sleep(0.01)
        pid, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if pid else None
        found = next((body for _, body in inbox.read()), None)
        is_late = deadline is not None and time.monotonic() > deadline
    if found is None:
        guard.end_descendants(child)
    os.close(answers)
    if found is not None and plain.unpack(found).failure is None:
        return bytes(found)
    time.sleep(_ECHO)  # SIGTERM goes to all processes of a task: it may be what ended the run
    if stop.came:
        return None
    if found is not None:
        return bytes(found)
    why = ("worker", f"the process of the run {guard.ended(code)}") if code is not None else None
    failure = plain.Failure(*(why or ("timeout", f"the run took more than {task['timeout']:g} s and was stopped")))
    return bytes(plain.pack(plain.Answer([], None, failure)))


def _live(task: dict[str, Any], inputs: Any, guard: ModuleType, plain: ModuleType, answers: int) -> NoReturn:
    """The life of a child: load the simulator, make one run, never return."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            simulator = _simulator(task)
        except BaseException as error:
            failure = plain.Failure("load", f"the simulator cannot be loaded: {plain.describe(error)}")
            answer = plain.Answer([], None, failure)
        else:
            answer = plain.simulate(simulator, task["style"], inputs, catch=BaseException)
        guard.send(answers, guard.ANSWER, plain.pack(answer))
        code = 0
    finally:
        os._exit(code)


def _simulator(task: dict[str, Any]) -> Any:
    """The function to run: a program, or an attribute of a module or of a script."""
    sys.path[:0] = [place for place in task["path"] if place not in sys.path]
    if "command" in task:
        from steep.campaign.command import command_simulator

        return command_simulator(**task["command"])
    if task["script"] is not None:
        spec = importlib.util.spec_from_file_location("steep_script", task["script"])
        assert spec is not None
        assert spec.loader is not None
        found: Any = importlib.util.module_from_spec(spec)
        sys.modules["steep_script"] = found
        spec.loader.exec_module(found)
    else:
        found = importlib.import_module(task["module"])
    for part in task["name"].split("."):
        found = getattr(found, part)
    return found


def _deliver(batch: Path, number: int, answer: bytes, stop: Stop) -> None:
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
            if stop.came or time.monotonic() > last:
                raise
            time.sleep(_PAUSE)
    (batch / "running" / str(number)).unlink(missing_ok=True)


def _load(name: str) -> ModuleType:
    """A module next to this one, without steep."""
    spec = importlib.util.spec_from_file_location(
        f"_steep_{name}", os.path.join(os.path.dirname(__file__), f"{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    if os.path.abspath(sys.path[0] or ".") == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]  # Python put the folder of this script there
    sys.exit(main(Path(sys.argv[1])))
