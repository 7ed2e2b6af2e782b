"""Runs as tasks of SLURM job arrays, without a daemon: each call moves the campaign on, and any call may be the last.

    STORE.slurm/lock          held while one process moves the campaign
    STORE.slurm/BATCH/        one job array: task.json, tasks.json, job.sh, todo/, running/, done/, out/

The journal knows the runs of each batch before ``sbatch`` is called, and a job is found by its name: whatever is killed
in between, the next call finds the job, or that there is none. A run ends

    done, failed    its answer is in done/ (a failure of the simulator counts towards the retries)
    rejected        the simulator said so: it is not tried again, and its surroundings are avoided
    preempted       its task has left the queue and there is no answer: it is asked again, and nothing is counted

A run is taken back by one rename of its file, which a task that has just begun it, or finished it, would win.
Nodes need the folder and the Python of the campaign, never the database (see :mod:`steep.campaign._guard`).
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steep._validation import check_count, check_real
from steep.campaign import _guard
from steep.campaign.command import command_simulator
from steep.campaign.journal import Journal, StoreGoneError
from steep.campaign.results import aligned, check_runs
from steep.campaign.runner import Streak
from steep.campaign.shared_disk import lock_error
from steep.campaign.simulate import Answer, Failure, Style, unpack
from steep.exceptions import CampaignError, InputError, InputTypeError, StorageError

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign
    from steep.campaign.planner import Job

# Tasks of one array: most clusters allow 1001.
_MOST_TASKS = 1000
# Times a run may vanish after it began before that is taken as its own fault.
_MOST_LOST = 10
# Arrays in a row whose tasks fail before they begin a run.
_MOST_UNBEGUN = 3
# Seconds: for a command of SLURM; between two looks; for which a run belongs to its batch: until the batch ends.
_SILENCE, _PACE, _FOREVER = 120.0, 2.0, 3e9
# Seconds that SLURM may be silent before the loop of a campaign gives up, and that another process may hold the lock.
_OUTAGE, _PATIENCE = 900.0, 60.0
# What a look finds of a run whose answer is on its way, and how long it may be, in seconds.
_WAIT, _LAG = Answer([]), 120.0
# States in which a task has ended; in any other it may still run, or run again.
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
}  # fmt: skip


@dataclass(frozen=True)
class Slurm:
    """How runs become tasks of SLURM: ``executor=Slurm(time="2:00:00")`` of :meth:`Campaign.run`.

    Parameters
    ----------
    in_flight : int, optional
        Runs in the queue at the same time; default an eighth of the budget, at least ten.
    runs_per_task : int, default 1
        Runs that one task makes, one after another: for runs of seconds.
    time : str, optional
        Walltime of a task, such as "2:00:00"; default that of the partition.
    partition, account : str, optional
        Partition and account of the jobs.
    options : sequence of str, default ()
        Further options of sbatch, as ``["--mem=4G", "--constraint=avx2"]``.

    Examples
    --------
    >>> Slurm(time="2:00:00", in_flight=50, options=["--mem=4G"]).options
    ('--mem=4G',)

    See Also
    --------
    steep.Campaign.run
    """

    in_flight: int | None = None
    runs_per_task: int = 1
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.in_flight is not None:
            check_count(self.in_flight, name="in_flight")
        check_count(self.runs_per_task, name="runs_per_task")
        for name in ("time", "partition", "account"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and re.fullmatch(r"[\w:.,@+-]+", value)):
                raise InputError(f"{name} is {value!r}; expected text such as '2:00:00' or 'batch', without blanks")
        given: Any = self.options
        if isinstance(given, str) or not all(isinstance(text, str) for text in given):
            raise InputTypeError(f"options is {self.options!r}; expected a list of options of sbatch")
        object.__setattr__(self, "options", tuple(self.options))
        for text in self.options:
            if not text.startswith("-") or any(ord(mark) < 32 for mark in text):
                raise InputError(f"options has {text!r}; expected options of sbatch such as '--mem=4G'")
            if re.match(r"--(array|wrap|job-name|chdir|output|parsable|wait)\b|-[aJDoW]", text):
                raise InputError(f"options has {text!r}, which steep sets itself; leave it out")

    def _arguments(self) -> list[str]:
        """These options as sbatch takes them."""
        named = {"time": self.time, "partition": self.partition, "account": self.account}
        return [*(f"--{name}={value}" for name, value in named.items() if value), *self.options]


class Progress(NamedTuple):
    """What one call did, and what is in the queue now."""

    n_recorded: int
    n_submitted: int
    n_in_flight: int
    n_preempted: int
    waits_for: str | None
    stopped: str | None

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to wait for."""
        return self.n_in_flight == 0 and self.n_submitted == 0


def submit(
    campaign: Campaign, function: Any, n_runs: int, how: Slurm, *, style: Style, retries: int = 1,
    timeout: float | None = None, max_failures: int | None = 20,
) -> Progress:  # fmt: skip
    """Note in the journal what is to be run, up to ``n_runs`` in all, and submit the first tasks."""
    if campaign.journal.path == ":memory:":
        raise InputError("storage is ':memory:'; SLURM needs a file; pass storage=")
    _check_command("sbatch")
    total = check_runs(n_runs, name="n_runs")
    order = {
        "task": task_of(function, style, None if timeout is None else check_real(timeout, name="timeout", above=0.0)),
        "how": asdict(how), "n_runs": total, "retries": check_count(retries, name="retries", minimum=0),
        "max_failures": None if max_failures is None else check_count(max_failures, name="max_failures"),
        "n_initial": campaign._n_initial_of(total), "stopped": None, "streak": [None, [], False],
        "n_unbegun": 0,
    }  # fmt: skip
    with _locked(campaign.journal, wait=True) as lock:
        with campaign.journal.transaction():
            known = _orders(campaign.journal)
            kept = {"name": secrets.token_hex(4), "batches": {}, "lost": {}}
            campaign.journal.set_meta("slurm", kept | known | order)
            campaign.journal.set_meta("n_initial", order["n_initial"])
        return _Queue(campaign, lock).move()


def advance(campaign: Campaign, *, wait: bool = True) -> Progress | None:
    """Record what has ended and fill the queue; None without an order, or where another process is at it."""
    if not _orders(campaign.journal):
        return None
    with _locked(campaign.journal, wait=wait) as lock:
        return None if lock is None else _Queue(campaign, lock).move()


def cancel(campaign: Campaign) -> Progress:
    """Take everything back from the queue; runs that have ended are recorded, the others are asked again later."""
    if not _orders(campaign.journal):
        raise InputError(f"storage {campaign.journal.path!r} has nothing in SLURM; submit it first")
    with _locked(campaign.journal, wait=True) as lock:
        return _Queue(campaign, lock).cancel("it was cancelled")


def stop(campaign: Campaign, reason: str) -> None:
    """Submit nothing more; what is in the queue ends."""
    with _locked(campaign.journal, wait=True) as lock:
        queue = _Queue(campaign, lock)
        with campaign.journal.transaction():
            queue.order["stopped"] = reason
            queue.note()


def run(
    campaign: Campaign, progress: Progress, *, stopper: Callable[[], str | None] = lambda: None, pace: float = _PACE,
    show: Callable[[Progress], object] = lambda _: None,
) -> Progress:  # fmt: skip
    """Move a campaign until it is over; ending this process leaves the queue as it is."""
    heard = time.monotonic()
    while show(progress) or not progress.is_over:
        if campaign.stop_reason is None and (reason := stopper()) is not None:
            campaign.stop_reason = reason
            stop(campaign, reason)
        time.sleep(pace)
        try:
            progress, heard = advance(campaign) or progress, time.monotonic()
        except StoreGoneError:
            raise
        except (CampaignError, StorageError):  # SLURM is silent, or a disk is full: for a while
            if time.monotonic() - heard > _OUTAGE:
                raise
    if progress.stopped is not None and campaign.stop_reason is None:
        raise CampaignError(progress.stopped)
    return progress


class _Queue:
    """The batches of a campaign, with the lock held."""

    def __init__(self, campaign: Campaign, lock: int) -> None:
        self.campaign, self.journal = campaign, campaign.journal
        self.order = _orders(self.journal)
        self.folder, self.lock = _folder(self.journal), lock
        self.n_preempted = self.n_recorded = 0
        self.silence: CampaignError | None = None
        self.waits_for: str | None = None

    def note(self) -> None:
        """Write the order inside a transaction."""
        self.journal.set_meta("slurm", self.order)

    @property
    def n_in_flight(self) -> int:
        """Runs of all batches."""
        return sum(len(batch["runs"]) for batch in self.order["batches"].values())

    def move(self) -> Progress:
        """Record, take back, submit."""
        self.campaign._catch_up()
        # The queue first: an answer that came after this look is only found by the next one, never missed.
        tasks = self._tasks()
        for name in [*self.order["batches"]]:
            self._settle(name, tasks)
        if self.silence is not None:
            raise self.silence
        for path in self.folder.glob("b*"):
            if path.name not in self.order["batches"]:  # of a process that was killed
                shutil.rmtree(path, ignore_errors=True)
        n = 0 if self.order["stopped"] else self._fill()
        return self._progress(n)

    def cancel(self, reason: str) -> Progress:
        """Cancel every job, and take its runs back as they leave the queue."""
        self.order["stopped"] = reason
        with self.journal.transaction():
            self.note()
        for name in self.order["batches"]:
            # What has not begun cannot begin any more, whatever SLURM does.
            for file in (self.folder / name / "todo").glob("*"):
                _moved(file, self.folder / name / "taken")
            _call("scancel", f"--name={self._job_name(name)}")
        for name in [*self.order["batches"]]:
            self._settle(name, self._tasks())
        return self._progress(0)

    def _progress(self, n: int) -> Progress:
        counts = self.n_recorded, n, self.n_in_flight, self.n_preempted
        return Progress(*counts, self.waits_for, self.order["stopped"])

    def _job_name(self, batch: str) -> str:
        return f"steep-{self.order['name']}-{batch}"

    def _tasks(self) -> dict[str, dict[int, str]]:
        """State of every task that SLURM knows, by the name of its job."""
        found: dict[str, dict[int, str]] = {self._job_name(name): {} for name in self.order["batches"]}
        if found:
            try:
                text = _call(
                    "squeue", "--me", "-h", "-r", "-t", "all", "-o", "%j %K %T %r", f"--name={','.join(found)}"
                )
            except CampaignError as silence:
                self.silence = silence
                return {}
            for line in text.splitlines():
                name, index, state, *reason = line.split(maxsplit=3)
                if index.isdigit():
                    found.setdefault(name, {})[int(index)] = state
                if state == "PENDING" and reason:
                    self.waits_for = reason[0]
        return found

    def _settle(self, name: str, tasks: Mapping[str, Mapping[int, str]]) -> None:
        """Record the answers of a batch, and take back what its tasks left."""
        batch, folder = self.order["batches"][name], self.folder / name
        states, size = tasks.get(self._job_name(name), {}), batch["size"]
        answers: dict[int, Answer | None] = {}
        unbegun = None
        for place, number in enumerate(batch["all"]):
            if number not in batch["runs"]:
                continue
            state = states.get(place // size)
            if (answer := _answer(folder, number)) is not None:
                answers[number] = answer
            elif self.silence is None and (state or "COMPLETED") in _ENDED:
                if state in ("FAILED", "BOOT_FAIL") and (folder / "todo" / str(number)).exists():
                    unbegun = place // size
                answers[number] = self._take_back(folder, number, state)
        self._note_unbegun(folder, unbegun, works=any(answers.values()))
        if answers:
            self._record(name, {number: answer for number, answer in answers.items() if answer is not _WAIT})
        if not batch["runs"]:
            with self.journal.transaction():
                del self.order["batches"][name]
                self.note()
            shutil.rmtree(folder, ignore_errors=True)

    def _note_unbegun(self, folder: Path, task: int | None, *, works: bool) -> None:
        """Stop submitting when tasks fail again and again before they begin a run: nodes lack something."""
        n = self.order["n_unbegun"] = 0 if works else self.order["n_unbegun"] + (task is not None)
        if task is not None and n >= _MOST_UNBEGUN and not self.order["stopped"]:
            said = ""
            with contextlib.suppress(OSError):
                said = " ".join((folder / "out" / f"{task}.txt").read_text(errors="replace").split())[-300:]
            self.order["stopped"] = (
                f"the tasks of {n} arrays failed before they began a run ({said or 'they wrote nothing'}); nodes need "
                f"{sys.executable} and {self.folder}; fix it and submit again"
            )

    def _take_back(self, folder: Path, number: int, state: str | None) -> Answer | None:
        """The ending of a run whose task has left the queue without an answer."""
        if _moved(folder / "todo" / str(number), folder / "taken"):
            return None
        has_begun = _moved(folder / "running" / str(number), folder / "taken")
        if (answer := _answer(folder, number)) is not None:
            return answer
        if not has_begun:
            # It has just been finished, and over a network its answer is seen a little later; or it was taken before.
            with contextlib.suppress(OSError):
                is_new = time.time() - (folder / "done").stat().st_mtime < _LAG
                return _WAIT if is_new and not (folder / "taken" / str(number)).exists() else None
            return None
        lost = self.order["lost"][str(number)] = self.order["lost"].get(str(number), 0) + 1
        if state == "OUT_OF_MEMORY" or lost >= _MOST_LOST:
            why = f"its task ended as {state or 'a task that SLURM forgot'}, {lost} times without an answer"
            return Answer([], None, Failure("worker", why))
        return None

    def _record(self, name: str, answers: Mapping[int, Answer | None]) -> None:
        """Write down how runs ended; None is a preempted run, which is asked again. One transaction for all."""
        batch = self.order["batches"][name]
        with self.journal.transaction():
            for number, answer in answers.items():
                batch["runs"].remove(number)
                if answer is None:
                    self.journal.each("release", [number])
                    self.n_preempted += 1
                else:
                    self._end(number, answer)
                    self.n_recorded += 1
            self.note()

    def _end(self, number: int, answer: Answer) -> None:
        """Record an answer; after too many failures of one kind nothing more is submitted."""
        failure, streak = answer.failure, Streak(self.order["max_failures"], self.order["streak"])
        if failure is None and not (answer.values and np.isfinite(answer.values).all()):
            failure = Failure("nan", f"outputs are {answer.values}; expected finite numbers")
        if failure is None:
            try:
                self.journal.finish(number, aligned(self.journal, np.array(answer.values)[None], answer.names)[0])
                streak.worked()
            except InputError as wrong:
                failure = Failure("shape", str(wrong))
        if failure is not None:
            again, reason = streak.record(self.journal, number, failure, self.order["retries"])
            if again:
                self.journal.each("release", [number])
            self.order["stopped"] = reason or self.order["stopped"]
        self.order["streak"] = streak.kept()

    def _fill(self) -> int:
        """Submit as many runs as the queue has room for; how many."""
        how, total = Slurm(**self.order["how"]), self.order["n_runs"]
        most = how.in_flight or max(10, total // 8)
        room, n = most - self.n_in_flight, 0
        # Not an array for each run that ends: a tenth of the queue at once.
        while room > 0 and (room >= most // 10 or self.n_in_flight == 0):
            jobs = self.campaign._ask(
                min(room, _MOST_TASKS * how.runs_per_task), limit=total, n_initial=self.order["n_initial"]
            )
            if not jobs:
                break
            self._submit(jobs, how)
            room, n = room - len(jobs), n + len(jobs)
        return n

    def _submit(self, jobs: list[Job], how: Slurm) -> None:
        """Submit one array. Its runs belong to it from the transaction on; if all fails they are let go of."""
        name, numbers = f"b{secrets.token_hex(4)}", [number for number, _ in jobs]
        batch = {"runs": numbers, "all": [*numbers], "size": how.runs_per_task}
        _write_batch(self.campaign, self.folder / name, self.order["task"], jobs, how.runs_per_task)
        try:
            with self.journal.transaction():
                for number in numbers:
                    self.journal.take(number, "", lease=time.time() + _FOREVER)
                self.order["batches"][name] = batch
                self.note()
        except BaseException:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            raise
        n_tasks = -(-len(numbers) // how.runs_per_task)
        try:
            _call(
                "sbatch", "--parsable", f"--job-name={self._job_name(name)}", f"--array=0-{n_tasks - 1}",
                f"--chdir={self.folder / name}", "--output=out/%a.txt", *how._arguments(), "job.sh",
                cwd=self.folder / name, keeps=self.lock,
            )  # fmt: skip
        except CampaignError:
            with self.journal.transaction():
                self.journal.each("release", numbers)
                del self.order["batches"][name]
                self.note()
            shutil.rmtree(self.folder / name, ignore_errors=True)
            raise


def _write_batch(campaign: Campaign, folder: Path, task: Mapping[str, Any], jobs: list[Job], size: int) -> None:
    """Everything a batch needs on its nodes, or nothing."""
    numbers = [number for number, _ in jobs]
    try:
        for name in ("todo", "running", "done", "taken", "out"):
            (folder / name).mkdir(parents=True)
        for number, x in jobs:
            inputs = x.tolist() if task["style"] == "array" else campaign.box.decode(x[None])[0]
            (folder / "todo" / str(number)).write_text(json.dumps(inputs, default=_plain), encoding="utf-8")
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        (folder / "tasks.json").write_text(json.dumps([numbers[i : i + size] for i in range(0, len(numbers), size)]))
        line = shlex.join([sys.executable, _guard.__file__, "task", str(folder)])
        # A program that replaces the shell: the signals of SLURM reach it at once.
        (folder / "job.sh").write_text(f"#!/bin/sh\nexec {line}\n", encoding="utf-8")
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise StorageError(f"{folder} cannot be written ({error.strerror}); nothing was submitted") from error
        raise


def _plain(value: Any) -> Any:
    return value.item()  # of NumPy, as a category may hold


def _answer(folder: Path, number: int) -> Answer | None:
    """The answer of a run, once there is one."""
    try:
        return unpack((folder / "done" / str(number)).read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{folder} cannot be read ({error.strerror}); nothing was recorded") from error
    except (ValueError, TypeError) as error:
        return Answer([], None, Failure("worker", f"its answer is unreadable ({error})"))


def _moved(file: Path, folder: Path) -> bool:
    """Move a file that a task may be moving at the same moment; whether it was this one who did."""
    try:
        os.rename(file, folder / file.name)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _call(*command: str, cwd: Path | None = None, keeps: int | None = None) -> str:
    """Output of a command of SLURM. It ``keeps`` the lock open, so that it holds it even if we are killed."""
    _check_command(command[0])
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=_SILENCE, stdin=subprocess.DEVNULL,
            pass_fds=() if keeps is None else (keeps,),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise CampaignError(f"{command[0]} did not answer for {_SILENCE:g} s; nothing is lost: try again") from error
    if done.returncode:
        why = " ".join(done.stderr.split())[-300:] or f"code {done.returncode}"
        raise CampaignError(f"SLURM rejected {command[0]} ({why}); nothing is lost: fix the options or try again")
    return done.stdout


def _check_command(name: str) -> None:
    if shutil.which(name) is None:
        raise CampaignError(
            f"{name} was not found; expected the commands of SLURM in PATH; run this where jobs are submitted"
        )


def _folder(journal: Journal) -> Path:
    return Path(os.path.abspath(os.path.splitext(journal.path)[0] + ".slurm"))


@contextlib.contextmanager
def _locked(journal: Journal, *, wait: bool) -> Iterator[Any]:
    """The lock of the folder, as an open file; None where another process holds it and we do not ``wait``."""
    folder = _folder(journal)
    try:
        folder.mkdir(exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be written ({error.strerror}); expected a folder that nodes share"
        ) from error
    try:
        busy = lock_error(lock, _PATIENCE if wait else 0.0)
        if busy is not None and wait:
            raise CampaignError(
                f"another process has been submitting from {folder} for {_PATIENCE:g} s; wait for it, or end it"
            ) from busy
        yield lock if busy is None else None
    finally:
        os.close(lock)


def _orders(journal: Journal) -> dict[str, Any]:
    """What the journal says of SLURM; nothing before the first order."""
    return dict(journal.meta().get("slurm", {}))


def task_of(function: Any, style: Style, timeout: float | None) -> dict[str, Any]:
    """A simulator as text that a node can load it from: nothing is pickled."""
    common = {"style": style, "timeout": timeout, "cwd": os.getcwd(), "path": [p for p in sys.path if os.path.isdir(p)]}
    if isinstance(function, command_simulator):
        return common | {"command": function.described()}
    name, module = getattr(function, "__qualname__", "<"), getattr(function, "__module__", None)
    if "<" in name or not inspect.isfunction(function) or module is None:
        raise InputTypeError(
            f"function is {function!r}, which a node cannot find by its name; define it with def at the top of a "
            "module or script"
        )
    script = getattr(sys.modules.get(module), "__file__", None) if module == "__main__" else None
    if module == "__main__" and script is None:
        raise InputTypeError(f"function {name!r} is defined in no file; put it into a module that nodes can import")
    return common | {"module": module, "name": name, "script": None if script is None else os.path.abspath(script)}
