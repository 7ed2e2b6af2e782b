"""Files to write: checked before any work is done, so that an hour's work does not end at a missing folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from steep.exceptions import InputError


def check_destination(
    path: Path, *, inputs: Iterable[Path] = (), force: bool = False, option: str = "--output"
) -> Path:
    """Return a path that may be written, or say why not.

    Parameters
    ----------
    path : Path
        The file to write.
    inputs : iterable of Path
        Files that were read; none of them is replaced without ``force``.
    force : bool
        Whether the user allows replacing a file.
    option : str
        How the user named the file.
    """
    if not path.name:
        raise InputError(f"{option} {path} has no file name; add one")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path} cannot be written: its folder does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; expected a file; add a file name")
    if force or not path.exists():
        return _writable(path, option)
    if any(_is_same(path, other) for other in inputs):
        raise InputError(
            f"{option} {path} is the table itself; need another file; name one, or pass --force to write onto it"
        )
    raise InputError(f"{option} {path} is there already; need a new file; name one, or pass --force to replace it")


def _writable(path: Path, option: str) -> Path:
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{option} {path} cannot be written: its folder is read-only; choose another folder")
    return path


def _is_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
