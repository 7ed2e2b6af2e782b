"""Results kept as lines: one JSON object for each (experiment, arm, seed), appended and never rewritten.

A run that was killed and started again asks :meth:`Records.missing` for what is left. Several processes may
append to one file: a line is one write, so lines are never mixed, and a last line that was cut off by a crash
is passed over when reading and closed off before the next is written.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steep.exceptions import InputError, StorageError

Key = tuple[str, str, int]


class Records:
    """The lines of one file.

    Parameters
    ----------
    path : str or path
        A ``.jsonl`` file, made with its folder when the first line is written. One that ends in ``.gz`` can
        be read and not written.

    Examples
    --------
    >>> import tempfile
    >>> records = Records(Path(tempfile.mkdtemp()) / "table1.jsonl")
    >>> for key in records.missing([("runge", "uniform", 0), ("runge", "uniform", 1)]):
    ...     records.add(*key, result={"l2": 0.5})
    >>> [line["seed"] for line in records]
    [0, 1]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        with gzip.open(self.path, "rt") if self.path.suffix == ".gz" else self.path.open() as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    record = json.loads(line)
                except json.JSONDecodeError as error:
                    if not line.endswith("\n") or line.endswith(_CUT_OFF + "\n"):
                        continue
                    raise StorageError(
                        f"{self.path} line {number} is not JSON ({error}); need one object a line; delete that line"
                    ) from error
                yield record

    def keys(self) -> set[Key]:
        """(experiment, arm, seed) of every line."""
        return {(line["experiment"], line["arm"], line["seed"]) for line in self}

    def missing(self, wanted: Iterable[Key]) -> Iterator[Key]:
        """Yield what has no line yet; the file is read again when it has grown, for others may be writing."""
        size, known = -1, set[Key]()
        for key in wanted:
            if (now := self.path.stat().st_size if self.path.exists() else 0) != size:
                size, known = now, self.keys()
            if key not in known:
                yield key

    def add(
        self,
        experiment: str,
        arm: str,
        seed: int,
        *,
        result: Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        seconds: float | None = None,
    ) -> None:
        """Append one line, in one write.

        Parameters
        ----------
        experiment, arm, seed
            What was run.
        result, settings : mapping
            What came out, and what it was run with; anything JSON can hold.
        seconds : float, optional
            CPU seconds it took; see :func:`cpu_seconds`.
        """
        line = {"experiment": experiment, "arm": arm, "seed": seed, "settings": dict(settings or {}),
                "result": dict(result), "cpu_seconds": seconds, "at": time.time(), **machine()}  # fmt: skip
        self._append(json.dumps(line, ensure_ascii=False))

    def _append(self, text: str) -> None:
        if self.path.suffix == ".gz":
            raise InputError(
                f"{self.path} is compressed; need a plain .jsonl file to append to; unpack it first"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(handle, (_closing(handle) + text + "\n").encode())
        finally:
            os.close(handle)


# What closes a line that a crash cut off while it was written, so that it is known for what it is.
_CUT_OFF = " #cut off"


def _closing(handle: int) -> str:
    """What ends the last line, when nothing does."""
    size = os.fstat(handle).st_size
    return f"{_CUT_OFF}\n" if size and os.pread(handle, 1, size - 1) != b"\n" else ""


@contextmanager
def cpu_seconds() -> Iterator[dict[str, float]]:
    """Count the CPU seconds of a block: ``spent["seconds"]`` once it is left."""
    spent = {"seconds": 0.0}
    began = time.process_time()
    try:
        yield spent
    finally:
        spent["seconds"] = time.process_time() - began


def machine(packages: Iterable[str] = ("steep", "numpy", "scipy", "scikit-learn", "torch")) -> dict[str, Any]:
    """Versions and processor a result was measured with; packages that are not installed are left out."""
    versions = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"versions": versions, "machine": f"{platform.machine()}, {os.cpu_count()} processors"}
