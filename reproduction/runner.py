"""Run what is missing of an experiment, and write one line for each (experiment, arm, seed)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from reproduction.data import Data, StandIns
from reproduction.jobs import SCALES, Context, Job, Scale
from reproduction.locks import turn
from reproduction.records import Records, cpu_seconds
from reproduction.registry import ALIASES, EXPERIMENTS, module
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
    """Run the experiments of the paper that have no line yet.

    Parameters
    ----------
    names : str or sequence of str
        Tables and figures ("table1", "figure2", …), or "all".
    scale : {"smoke", "laptop", "paper"}, default "smoke"
        How many networks and epochs; "smoke" uses stand-ins for data, the others the real sets.
    data : path, optional
        Folder of the data sets; see :mod:`reproduction.data`.
    cache : path, optional
        Folder of trained networks and downloads; default ``~/.cache/steep/paper``.
    results : path, default "results"
        Folder of the lines, one file for each experiment and scale.
    device : {"cpu", "cuda", "mps"}, default "cpu"
        Where networks are trained. The fused loop of Table 2 always runs on the CPU.
    progress : bool, optional
        Whether to show a bar; default on a terminal.
    say : callable
        Takes what is to be told.

    Returns
    -------
    int
        Lines written.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> reproduce(["lemma1"], results=folder, cache=folder, say=lambda text: None) > 0
    True
    >>> reproduce(["lemma1"], results=folder, cache=folder, say=lambda text: None)
    0
    """
    check_choice(scale, name="scale", choices=SCALES)
    place = _folder(Path(cache or CACHE).expanduser(), "cache")
    _folder(Path(results), "results")
    source = StandIns() if scale == "smoke" else Data(data, place)
    context = Context(source, place, progress, check_device(device))
    chosen = resolve(names)
    jobs = [(records_of(results, scale, name), job) for name in chosen for job in module(name).jobs(scale)]
    for records, own in _by_file(jobs):
        check_lines(records, own)
    with one_thread():
        return _run(jobs, context, f"{scale} ", say)


def check_device(name: str) -> str:
    """A device that torch can use here."""
    import torch

    check_choice(name, name="device", choices=("cpu", "cuda", "mps"))
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available[name]:
        has = ", ".join(device for device, there in available.items() if there)
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
        raise InputError(
            f"{', '.join(unknown) or 'nothing'} asked for; expected 'all' or some of {', '.join(EXPERIMENTS)}"
        )
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
        wanted, found = plain(known[key]), line.get("settings")
        if found != wanted:
            found = found if isinstance(found, dict) else {}
            differ = [name for name in {*wanted, *found} if wanted.get(name) != found.get(name)]
            raise StorageError(
                f"{where} was run with other settings ({', '.join(sorted(differ))}); delete it to "
                "run it again, or use another --results folder"
            )


def _key(line: Any) -> tuple[str, str, int] | None:
    """(experiment, arm, seed) of a line; None where it is not one."""
    if not isinstance(line, dict) or not isinstance(line.get("result"), dict):
        return None
    experiment, arm, seed = (line.get(part) for part in ("experiment", "arm", "seed"))
    if isinstance(experiment, str) and isinstance(arm, str) and isinstance(seed, int):
        return experiment, arm, seed
    return None


def plain(settings: Any) -> dict[str, Any]:
    """Settings as they come back from JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(settings)))
    return plain


def _by_file(jobs: Iterable[tuple[Records, Job]]) -> Iterator[tuple[Records, list[Job]]]:
    files: dict[Path, tuple[Records, list[Job]]] = {}
    for records, job in jobs:
        files.setdefault(records.path, (records, []))[1].append(job)
    yield from files.values()


def _run(jobs: list[tuple[Records, Job]], context: Context, label: str, say: Callable[[str], object]) -> int:
    total = sum(len(job.lines) for _, job in jobs)
    done = sum(len(job.lines) - len(_missing(records, job)) for records, job in jobs)
    written, elsewhere = 0, 0
    with progress_bar(total=total, done=done, label=f"{label}lines", shown=context.progress) as bar:
        for records, job in jobs:
            if not _missing(records, job):
                continue
            with turn(context.cache / "locks", f"{records.path.resolve()}/{job.experiment}/{job.name}") as mine:
                if not mine:
                    elsewhere += 1
                    continue
                new = _run_job(records, job, context)
            written += new
            bar.update(new)
    if elsewhere:
        say(f"{elsewhere} jobs are being run by another process")
    return written


def _run_job(records: Records, job: Job, context: Context) -> int:
    """Run a job and write the lines that are missing; another process may have written them before we had the lock."""
    missing = _missing(records, job)
    if not missing:
        return 0
    with cpu_seconds() as spent:
        results = job.run(context)
    share = spent["seconds"] / len(job.lines)
    for arm, seed in missing:
        records.add(
            job.experiment, arm, seed, result=results[arm, seed], settings=job.settings, seconds=round(share, 3)
        )
    return len(missing)


def _missing(records: Records, job: Job) -> list[tuple[str, int]]:
    wanted = [(job.experiment, arm, seed) for arm, seed in job.lines]
    return [(arm, seed) for _, arm, seed in records.missing(wanted)]


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Sums depend on how many threads share them: one thread gives the same line every time."""
    import_module("steep.nn")  # says what to install where torch is missing
    with _blas.one_thread():
        yield
