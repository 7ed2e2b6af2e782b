"""Who runs which job, when several processes share the work: one lock file a job, freed by the system on death."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    CAN_LOCK = True
except ImportError:  # Windows: there one process at a time does the work
    CAN_LOCK = False


@contextmanager
def turn(folder: Path, name: str) -> Iterator[bool]:
    """Take the lock of ``name``, or say that somebody else has it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with turn(folder, "job") as mine, turn(folder, "job") as again:
    ...     mine, again
    (True, False)
    """
    if not CAN_LOCK:
        yield True
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.lock"
    with path.open("w") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
