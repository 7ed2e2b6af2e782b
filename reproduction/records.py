"""Results kept as lines: one JSON object for each (experiment, arm, seed), appended and never rewritten.

A run that was killed and started again asks :meth:`Records.missing` for what is left. Several processes may
append to one file: each holds a lock for the length of one line, so lines are never mixed. A last line that was
cut off by a crash is passed over when reading and closed off before the next is written.
"""

import fcntl
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from steep._files import write_whole
from steep.exceptions import InputError, InputTypeError, StorageError

Key = tuple[str, str, int]

# What closes a line that a crash cut off while it was written, so that it is known for what it is.
_CUT_OFF = b" #cut off"
# A line takes milliseconds: who waits longer waits for a process that was stopped.
_LOCK_SECONDS = 60.0


class Records:
    """The lines of one file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for _, record in self._read(0):
            yield record

    def keys(self) -> set[Key]:
        """(experiment, arm, seed) of every line."""
        return {_key(line) for line in self}

    def by_key(self) -> dict[Key, dict[str, Any]]:
        """Lines by (experiment, arm, seed); of a key that two processes wrote, the first."""
        found: dict[Key, dict[str, Any]] = {}
        for line in self:
            found.setdefault(_key(line), line)
        return found

    def missing(self, wanted: Iterable[Key]) -> Iterator[Key]:
        """Yield what has no line yet; what others have written meanwhile is read before each."""
        known, end = set[Key](), 0
        for key in wanted:
            for end, line in self._read(end):  # noqa: B007, B020 - it goes on after the last line
                known.add(_key(line))
            if tuple(key) not in known:
                yield key

    def add(
        self, experiment: str, arm: str, seed: int, *, result: Mapping[str, Any],
        settings: Mapping[str, Any] | None = None, seconds: float | None = None,
    ) -> None:  # fmt: skip
        """Append one line; it is on the disk when this returns."""
        line = {"experiment": experiment, "arm": arm, "seed": seed, "settings": dict(settings or {}),
                "result": dict(result), "cpu_seconds": seconds, "at": time.time(), **machine()}  # fmt: skip
        self._append(_to_json(line).encode())

    def _read(self, start: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Lines from byte ``start`` on, each with the byte it ends at."""
        if not self.path.exists():
            return
        try:
            with gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb") as file:
                file.seek(start)
                for line in file:
                    start += len(line)
                    if line.strip() and (record := self._parse(line, start)) is not None:
                        yield start, record
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise StorageError(f"{self.path} is a broken archive ({error}); expected a whole one") from error

    def _parse(self, line: bytes, end: int) -> dict[str, Any] | None:
        """One line as an object; None for one that a crash cut off, or that is still being written."""
        try:
            record = json.loads(line)
            _key(record)
        except (ValueError, KeyError, TypeError) as error:
            if not line.endswith(b"\n") or line.endswith(_CUT_OFF + b"\n"):
                return None
            raise StorageError(
                f"{self.path} has a line that is not a record, the one that ends at byte {end} ({error!r}); expected "
                "JSON with experiment, arm and seed; delete that line"
            ) from error
        return record  # type: ignore[no-any-return]

    def _append(self, text: bytes) -> None:
        if self.path.suffix == ".gz":
            raise InputError(f"{self.path} is compressed; expected a plain .jsonl file to append to; unpack it first")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+", buffering=0) as file:
                self._lock(file.fileno())  # given back when the file is closed, or the process ends
                rest = memoryview(_closing(file.fileno()) + text + b"\n")
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(
                f"{self.path} cannot be written ({error.strerror}); expected a writable folder with "
                "room; run again, what exists is kept"
            ) from error

    def _lock(self, handle: int) -> None:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise StorageError(
                        f"{self.path} has been locked for {_LOCK_SECONDS:g} s by another process; expected "
                        "a lock of one line; end the process that holds it"
                    ) from None
            time.sleep(0.005)


def _key(record: Mapping[str, Any]) -> Key:
    return record["experiment"], record["arm"], record["seed"]


def _closing(handle: int) -> bytes:
    """What ends the last line, when nothing does: a whole one lacks its line end alone."""
    size = os.fstat(handle).st_size
    tail, start = b"", size
    while start and b"\n" not in tail:
        step = min(start, 4096)
        start -= step
        tail = os.pread(handle, step, start) + tail
    last = tail.rpartition(b"\n")[2]
    if not last:
        return b""
    try:
        json.loads(last)
    except ValueError:
        return _CUT_OFF + b"\n"
    return b"\n"


def _to_json(value: Any, **options: Any) -> str:
    try:
        return json.dumps(value, default=_plain, **options)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputTypeError(
            f"a result cannot be kept as JSON ({error}); expected numbers, text, lists and mappings; convert it first"
        ) from error


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r:.60}")


def write_json(path: str | Path, value: Any) -> Path:
    """Write a value as indented JSON, whole or not at all."""
    text = _to_json(value, indent=1, ensure_ascii=False) + "\n"
    return write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextmanager
def turn(folder: Path, name: str) -> Iterator[bool]:
    """Take the lock of a job; False if another process has it. The system frees it if its holder dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def cpu_seconds() -> Iterator[dict[str, float]]:
    """Count the CPU seconds of a block: ``spent["seconds"]`` once it is left."""
    spent = {"seconds": 0.0}
    began = time.process_time()
    try:
        yield spent
    finally:
        spent["seconds"] = time.process_time() - began


@cache
def code_version() -> str:
    """The commit of the repository this file belongs to, 12 digits; the version of steep where there is none."""
    git = Path(__file__).parents[1] / ".git"
    try:
        head = (git / "HEAD").read_text(encoding="ascii").strip()
        if head.startswith("ref: "):
            loose, packed = git / head[5:], git / "packed-refs"
            lines = [] if loose.is_file() else packed.read_text(encoding="ascii").splitlines()
            head = (
                loose.read_text(encoding="ascii") if loose.is_file() else next(x for x in lines if x.endswith(head[5:]))
            )
        return head[:12]
    except (OSError, UnicodeDecodeError):
        pass
    return f"steep {importlib.metadata.version('steep')}"


def machine(packages: Iterable[str] = ("steep", "numpy", "scipy", "scikit-learn", "torch")) -> dict[str, Any]:
    """Versions and processor a result was measured with; packages that are not installed are left out."""
    versions = {"python": platform.python_version()}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {"code": code_version(), "versions": versions,
            "machine": f"{platform.machine()}, {os.cpu_count()} processors"}  # fmt: skip
