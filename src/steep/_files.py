"""Files are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_whole(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let ``write`` fill a temporary file beside ``path``, then move it into place in one step.

    A crash, a full disk or an interrupt leaves the old file, or none, and never half a file. The
    temporary name keeps the suffix, which some writers choose their format by.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _umask() -> int:
    """Permission bits new files lack; mkstemp makes private files, users expect ordinary ones."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
