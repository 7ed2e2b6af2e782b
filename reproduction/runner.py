"""Run what is missing of an experiment, and write one line for each (experiment, arm, seed)."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from reproduction.data import Data, StandIns
from reproduction.jobs import ALIASES, EXPERIMENTS, SCALES, Context, Job, Line, Scale, module
from reproduction.records import Records, cpu_seconds, turn
from steep import _blas
from steep._progress import progress_bar
from steep._validation import check_choice
from steep.exceptions import InputError, StorageError

CACHE = Path("~/.cache/steep/paper")


def reproduce(
    names: str | Sequence[str] = ("all",), *, scale: Scale = "smoke", data: str | Path | None = None,
    cache: str | Path | None = None, results: str | Path = "results", device: str = "cpu",
    progress: bool | None = None, say: Callable[[str], object] = print,
) -> int:  # fmt: skip
    """Run the experiments of the paper that have no line yet; return the number of lines written.

    ``names`` are tables and figures ("table1", "figure2", …), or "all". ``scale`` "smoke" uses stand-ins for data, the
    others the real sets. ``data`` is the folder of the data sets (:mod:`reproduction.data`), ``cache`` that of trained
    networks and downloads, ``results`` that of the lines, one file for each experiment and scale. Networks are trained
    on ``device``: "cpu", "cuda" or "mps".
    """
    check_choice(scale, name="scale", choices=SCALES)
    place = _folder(Path(cache or CACHE).expanduser(), "cache")
    _folder(Path(results), "results")
    source = StandIns() if scale == "smoke" else Data(data, place)
    context = Context(source, place, progress, check_device(device))
    plans = [(records_of(results, scale, name), module(name).jobs(scale)) for name in resolve(names)]
    for records, jobs in plans:
        check_lines(records, jobs)
    with one_thread():
        return _run([(records, job) for records, jobs in plans for job in jobs], context, f"{scale} ", say)


def check_device(name: str) -> str:
    """A device that torch can use here."""
    import torch

    check_choice(name, name="device", choices=("cpu", "cuda", "mps"))
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available[name]:
        has = ", ".join(device for device, usable in available.items() if usable)
        raise InputError(f"device={name!r} is not available to torch on this machine; expected {has}; leave it out")
    return name


def _folder(path: Path, name: str) -> Path:
    if path.exists() and not path.is_dir():
        raise StorageError(f"{name} is {path}, which is a file; expected a folder; name another")
    return path


def resolve(names: str | Sequence[str]) -> list[str]:
    """Names of experiments in the paper's order; "all" is all of them."""
    names = [names] if isinstance(names, str) else [str(name) for name in names]
    names = [ALIASES.get(name, name) for name in names]
    unknown = [repr(name) for name in names if name != "all" and name not in EXPERIMENTS]
    if unknown or not names:
        given = ", ".join(unknown) or "nothing"
        raise InputError(f"{given} is not a table or figure; expected 'all' or some of {', '.join(EXPERIMENTS)}")
    return [name for name in EXPERIMENTS if name in names or "all" in names]


def records_of(results: str | Path, scale: str, name: str) -> Records:
    """The lines of one experiment at one scale."""
    return Records(Path(results) / scale / f"{name}.jsonl")


def check_lines(records: Records, jobs: Sequence[Job]) -> None:
    """Reject a file with lines that are not of these jobs, or were run with other settings."""
    known: dict[Any, Any] = {(job.experiment, arm, seed): job.settings for job in jobs for arm, seed in job.lines}
    for number, line in enumerate(records, start=1):
        where, key = f"{records.path} entry {number}", _key(line)
        if key not in known:
            raise StorageError(f"{where} does not belong to this experiment ({key or 'not a line'}); delete it")
        wanted, found = json.loads(json.dumps(dict(known[key]))), line.get("settings")
        if found != wanted:
            found = found if isinstance(found, dict) else {}
            differ = [name for name in {*wanted, *found} if wanted.get(name) != found.get(name)]
            raise StorageError(
                f"{where} was run with other settings ({', '.join(sorted(differ))}); delete it to "
                "run it again, or use another --results folder"
            )


def _key(line: Any) -> tuple[str, str, int] | None:
    """(experiment, arm, seed) of a line; None if it is not one."""
    if not isinstance(line, dict) or not isinstance(line.get("result"), dict):
        return None
    experiment, arm, seed = (line.get(part) for part in ("experiment", "arm", "seed"))
    if isinstance(experiment, str) and isinstance(arm, str) and isinstance(seed, int):
        return experiment, arm, seed
    return None


def _run(jobs: list[tuple[Records, Job]], context: Context, label: str, say: Callable[[str], object]) -> int:
    total = sum(len(job.lines) for _, job in jobs)
    done = sum(len(job.lines) - len(_missing(records, job)) for records, job in jobs)
    written, elsewhere = 0, 0
    with progress_bar(total=total, done=done, label=f"{label}lines", shown=context.progress) as bar:
        for records, job in jobs:
            if not _missing(records, job):
                continue
            with turn(context.cache / "locks", f"{records.path.resolve()}/{job.experiment}/{job.name}") as mine:
                # Another process may have written the lines before we had the lock.
                new = _run_job(records, job, context) if mine else 0
            elsewhere += not mine
            written += new
            bar.update(new)
    if elsewhere:
        say(f"{elsewhere} jobs are being run by another process")
    return written


def _run_job(records: Records, job: Job, context: Context) -> int:
    """Run a job and write the lines that are missing."""
    missing = _missing(records, job)
    if missing:
        with cpu_seconds() as spent:
            results = job.run(context)
        share = round(spent["seconds"] / len(job.lines), 3)
        for line in missing:
            records.add(job.experiment, *line, result=results[line], settings=job.settings, seconds=share)
    return len(missing)


def _missing(records: Records, job: Job) -> list[Line]:
    return [(arm, seed) for _, arm, seed in records.missing((job.experiment, *line) for line in job.lines)]


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Sums depend on how many threads share them: one thread gives the same line every time."""
    import_module("steep.nn")  # says what to install where torch is missing
    with _blas.one_thread():
        yield
