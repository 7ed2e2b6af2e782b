"""A trial of a scale that takes too long to run: start every kind of job, and tell how long all of them would take.

Jobs of one experiment with the same arms are of one *kind*: they differ by their seed or split. One job of each kind
is started with its real settings in a process of its own, at each of its parts (:class:`steep.paper.jobs.Job`), and
stopped after some seconds. What it would take is read off the bars it opens (:func:`steep._progress.open_bars`): with
share s₀ of a stage done after c₀ CPU seconds and s₁ after c₁, the stage ends at

    c₁ + (1 − s₁)(c₁ − c₀)/(s₁ − s₀)

Stages that would follow are not counted. Each trial is one line of ``results/<scale>/trials.jsonl``; its seed is the
number of seconds it was given, so that a longer trial adds a line.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from steep._progress import open_bars, progress
from steep._validation import check_choice, check_real
from steep.exceptions import SteepError, StorageError
from steep.paper.data import Data, StandIns
from steep.paper.jobs import SCALES, Context, Job, Scale
from steep.paper.registry import EXPERIMENTS, module
from steep.paper.runner import CACHE, one_thread, plain, resolve
from steep.records import Records

FILE = "trials.jsonl"
_EVERY_SECONDS = 0.2
# Importing torch on a busy machine takes long; who waits longer waits for a process that hangs.
_START_SECONDS = 300.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Kind:
    """A job that stands for ``n_jobs`` of one experiment with the same arms, and the part of it to start."""

    table: str
    number: int  # of the job among those of its table
    job: Job
    n_jobs: int
    part: str

    @property
    def key(self) -> tuple[str, str]:
        """Experiment and arm of its line."""
        return f"{self.table}, {self.job.experiment}", self.part or ", ".join(_arms(self.job))


@dataclass(frozen=True)
class Sight:
    """How far a job was at some time: CPU seconds since its start, and the share of the stage it is in."""

    cpu: float
    stage: int = 0
    share: float = 0.0
    label: str = ""
    done: int = 0
    total: int = 0


def _arms(job: Job) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arm for arm, _ in job.lines))


def kinds(name: str, scale: Scale) -> list[Kind]:
    """Every kind of job of a table or figure, part by part.

    Examples
    --------
    >>> [(kind.n_jobs, kind.part) for kind in kinds("table6", "laptop")[:2]]
    [(1, 'training'), (1, 'heads')]
    """
    groups: dict[Any, list[tuple[int, Job]]] = {}
    for number, job in enumerate(module(name).jobs(scale)):
        groups.setdefault((job.experiment, _arms(job)), []).append((number, job))
    return [
        Kind(name, *group[0], len(group), part)
        for group in groups.values()
        for part in group[0][1].parts or ("",)
    ]


def run_trials(
    names: str | Sequence[str] = ("all",),
    *,
    seconds: float,
    scale: Scale = "paper",
    data: str | Path | None = None,
    cache: str | Path | None = None,
    results: str | Path = "results",
    say: Callable[[str], object] = print,
) -> int:
    """Start every kind of job for some seconds, and write what it would take.

    Parameters
    ----------
    names, scale, data, cache, results, say
        See :func:`steep.paper.reproduce`. Nothing but ``trials.jsonl`` is written to ``results``, and no network to
        ``cache``.
    seconds : float
        What each trial is given, at least 1; rounded to whole seconds.

    Returns
    -------
    int
        Lines written; a trial that has a line of as many seconds, or that ended before, is not started again.
    """
    check_choice(scale, name="scale", choices=SCALES)
    given = round(check_real(seconds, name="seconds", minimum=1.0))
    records = trials_of(results, scale)
    known = check_trials(records, scale)
    todo = [
        kind for name in resolve(names) for kind in kinds(name, scale)
        if not any(line["result"]["finished"] or line["seed"] == given for line in known.get(kind.key, []))
    ]  # fmt: skip
    for kind in progress(todo, total=len(todo), label="trials"):
        sights, finished = _watch(kind, scale, given, data, Path(cache or CACHE).expanduser())
        result = outcome(kind, sights, finished)
        records.add(
            *kind.key, given, result=result, settings=kind.job.settings, seconds=round(sights[-1].cpu, 3)
        )
        say(f"{': '.join(kind.key)}: {told(result)}")
    return len(todo)


def trials_of(results: str | Path, scale: str) -> Records:
    """The lines of the trials of a scale."""
    return Records(Path(results) / scale / FILE)


def check_trials(records: Records, scale: Scale) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Lines by (experiment, arm); rejects a line of an unknown job or of other settings."""
    settings = {kind.key: plain(kind.job.settings) for name in EXPERIMENTS for kind in kinds(name, scale)}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number, line in enumerate(records, start=1):
        key = (line["experiment"], line["arm"])
        if not isinstance(line.get("result"), dict) or line.get("settings") != settings.get(key):
            raise StorageError(
                f"{records.path} entry {number} was recorded with different settings; delete it"
            )
        found.setdefault(key, []).append(line)
    return found


def outcome(kind: Kind, sights: Sequence[Sight], finished: bool) -> dict[str, Any]:
    """What a line holds: how far the job got, and the hours of one and of all jobs of its kind."""
    last, seconds = sights[-1], extrapolate(sights, finished)
    hours = None if seconds is None else seconds / 3600
    return {
        "table": kind.table, "n_jobs": kind.n_jobs, "finished": finished, "reached": last.label, "done": last.done,
        "of": last.total, "share": 1.0 if finished else last.share, "hours_per_job": hours,
        "hours": None if hours is None else hours * kind.n_jobs,
    }  # fmt: skip


def extrapolate(sights: Sequence[Sight], finished: bool) -> float | None:
    """CPU seconds to the end of the stage that was reached; None when it did not move.

    Examples
    --------
    >>> extrapolate([Sight(2.0, 1, 0.0), Sight(3.0, 1, 0.1), Sight(4.0, 1, 0.2)], finished=False)
    12.0
    """
    last = sights[-1]
    if finished:
        return last.cpu
    first = next(sight for sight in sights if sight.stage == last.stage)
    if not last.share > first.share:
        return None
    return last.cpu + (1 - last.share) * (last.cpu - first.cpu) / (last.share - first.share)


def _watch(kind: Kind, scale: Scale, seconds: int, data: Any, cache: Path) -> tuple[list[Sight], bool]:
    """Run a kind of job in a process of its own for some seconds; what was seen, and whether it ended."""
    with tempfile.TemporaryDirectory(prefix="steep-trial-") as folder:
        arguments = (kind.table, kind.number, kind.part, scale, data, cache, Path(folder))
        with _process(arguments) as reader:
            return _read(reader, seconds)


@contextmanager
def _process(arguments: tuple[Any, ...]) -> Iterator[Connection]:
    """A process that runs the job and reports; it is ended when the block is left."""
    spawn = multiprocessing.get_context("spawn")
    reader, writer = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_run, args=(writer, *arguments), daemon=True)
    process.start()
    writer.close()
    try:
        yield reader
    finally:
        process.terminate()
        process.join(_STOP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join(_STOP_SECONDS)
        reader.close()


def _read(reader: Connection, seconds: int) -> tuple[list[Sight], bool]:
    sights: list[Sight] = []
    end = time.monotonic() + _START_SECONDS
    while reader.poll(max(0.0, end - time.monotonic())):
        try:
            word, sight = reader.recv()
        except EOFError:
            raise StorageError(
                "a trial ended without a word; need memory for it; close other programs"
            ) from None
        if word == "error":
            raise StorageError(sight)
        if not sights:
            end = time.monotonic() + seconds
        sights.append(sight)
        if word == "end":
            return sights, True
    if not sights:
        raise StorageError(f"a trial did not start in {_START_SECONDS:g} s; need a machine that is less busy")
    return sights, False


def _run(
    writer: Connection, table: str, number: int, part: str, scale: Scale, data: Any, cache: Path, folder: Path
) -> None:
    """In the process of its own: run the job while a thread reports how far it is."""
    job = module(table).jobs(scale)[number]
    source = StandIns() if scale == "smoke" else Data(data, cache)
    context = Context(source, folder, progress=False, only=part or None)
    with one_thread():  # imports torch, which is not to count
        began, ended = time.process_time(), threading.Event()
        reporter = threading.Thread(target=_report, args=(writer, began, ended), daemon=True)
        reporter.start()
        try:
            job.run(context)
            word: tuple[str, Any] = ("end", Sight(time.process_time() - began, share=1.0))
        except SteepError as error:
            word = ("error", str(error))
        ended.set()
        reporter.join()
    writer.send(word)


def _report(writer: Connection, began: float, ended: threading.Event) -> None:
    stage, outermost = 0, None
    while True:
        bars = open_bars()
        if bars and bars[0] is not outermost:
            stage, outermost = stage + 1, bars[0]
        share = 0.0
        for bar in reversed(bars):
            share = (bar.done + share) / bar.total if bar.total else 0.0
        label = " › ".join(bar.label for bar in bars)
        done, total = (bars[-1].done, bars[-1].total) if bars else (0, 0)
        writer.send(("at", Sight(time.process_time() - began, stage, min(share, 1.0), label, done, total)))
        if ended.wait(_EVERY_SECONDS):
            return


def told(result: dict[str, Any]) -> str:
    """How far a trial got and what it would take, in one line."""
    far = "ended" if result["finished"] else f"{result['reached'] or 'before its first step'}"
    if not result["finished"] and result["of"]:
        far += f", {result['done']} of {result['of']}"
    return f"{far}; {hours_told(result['hours'])} for {result['n_jobs']} such jobs"


def hours_told(hours: float | None) -> str:
    """Hours as people read them.

    Examples
    --------
    >>> hours_told(None), hours_told(0.001), hours_told(0.25), hours_told(1234.5)
    ('unknown', '4 s', '15 min', '1,234 h')
    """
    if hours is None:
        return "unknown"
    if hours < 1 / 30:
        return f"{hours * 3600:.0f} s"
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:,.0f} h"


def longest(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Of the trials of one kind, the one that tells most: that ended, or was given most."""
    return max(lines, key=lambda line: (line["result"]["finished"], line["seed"]))
