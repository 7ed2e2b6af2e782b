"""Files are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from steep.exceptions import StorageError


def write_whole(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let ``write`` fill a temporary file next to ``path``, then move it into place in one step; return ``path``.

    A crash, a full disk or an interrupt leaves the old file, or none, and never half a file. A file that is
    replaced keeps its mode and owner; a symbolic link stays one, and what it points to is written. The
    temporary file exists and is empty; it keeps the suffix, which some writers choose their format by.
    """
    try:
        old = _replaceable(path)
        target = Path(os.path.realpath(path))
        # Named before it is made: an interrupt between the two cannot leave a stray file.
        temporary = target.with_name(f".steep-{secrets.token_hex(8)}{target.suffix}")
        try:
            _create(temporary, old)
            write(temporary)
            _settle(temporary, old)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror or error}); expected a folder that exists, is writable "
            "and has free space; choose another file"
        ) from error
    return Path(path)


def _replaceable(path: str | Path) -> os.stat_result | None:
    """What is known of the file to be replaced, None when there is none yet."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StorageError(f"{path!r} is not a valid path ({error}); pass the name of a file") from error
    if not stat.S_ISREG(old.st_mode):
        raise StorageError(f"{path} is {_kind(old.st_mode)}; expected an ordinary file; choose another name")
    # root may write to anything, so the mode is asked too: it says what the owner meant.
    if not old.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise StorageError(f"{path} is read-only; choose another file, or make it writable with chmod u+w")
    return old


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _create(temporary: Path, old: os.stat_result | None) -> None:
    """Make the empty file, never readable to more people than the old one."""
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o666 | stat.S_IWUSR
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))


def _settle(temporary: Path, old: os.stat_result | None) -> None:
    """All of it on the disk before the name changes hands; then owner and mode of the old file."""
    handle = os.open(temporary, os.O_WRONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    if old is None:
        return
    now = temporary.stat()
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        os.chown(temporary, old.st_uid, old.st_gid)
    temporary.chmod(stat.S_IMODE(old.st_mode))
