"""Who uses a file: processes of this machine, by their start; on a network file system one process, by a lock.

SQLite's write-ahead log needs memory that all its processes share, and a process of another machine cannot be looked
up. There a journal has no such log, and a process that opens it to write holds a lock until it closes it or is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import socket
import time
from pathlib import Path
from typing import IO, Any

from steep.exceptions import StorageError

_NETWORK = re.compile(
    r"nfs|nfs4|cifs|smb3|smbfs|9p|afs|ceph|lustre|gpfs|beegfs.*|glusterfs|pvfs2|panfs|fuse\.(sshfs|glusterfs|ceph.*|s3fs)"
)
# File systems, and options of mounts after a comma, whose locks do not reach other machines.
_ALONE = re.compile(r"fuse\.(sshfs|s3fs)|.*,.*")
_LOCAL_LOCKS = {"nolock", "local_lock=all", "local_lock=flock", "localflock", "nobrl"}
# Seconds for which a mount may remember what a file was before another machine wrote it: GlusterFS and FUSE keep sizes
# for one second, and a file that has grown meanwhile looks damaged.
_STALE = 2.0
_BUSY = (errno.EAGAIN, errno.EACCES)


def network_of(path: str, mounts: str = "/proc/self/mounts") -> str | None:
    """The kind of network file system that holds a file, and the option that keeps its locks from other machines.

    None for a local disk, or if it is unknown.
    """
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = os.path.realpath(os.path.dirname(path))
    best = ("", "", "")
    for line in lines:
        _, mount, kind, options, *_ = line.split(" ")
        mount = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), mount)
        if os.path.commonpath([place, mount]) == mount and len(mount) >= len(best[0]):
            best = (mount, kind, options)
    local = sorted(_LOCAL_LOCKS.intersection(best[2].split(",")))
    return ",".join([best[1], *local]) if _NETWORK.fullmatch(best[1]) else None


def lock_error(lock: int, patience: float) -> OSError | None:
    """Take the lock of an open file, waiting at most so long while another process has it; why it was not to be had."""
    import fcntl  # not on Windows

    last = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        except OSError as error:
            if error.errno not in _BUSY or time.monotonic() >= last:
                return error
        time.sleep(0.05)


def hold(path: str, kind: str, patience: float) -> IO[bytes]:
    """The lock of a file, as an open file; held until it is closed."""
    if _ALONE.fullmatch(kind):
        raise StorageError(
            f"storage {path!r} is on a network file system ({kind}) whose locks other machines do not see, so two "
            "could write at once; put the file on a local disk, or on NFS, GlusterFS or Lustre with locks"
        )
    lock = open(os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0)  # noqa: SIM115 - returned
    error = lock_error(lock.fileno(), patience)
    holder, own = lock.read(200).decode(errors="replace"), f"process {os.getpid()} on {socket.gethostname()}"
    if error is None:
        if holder not in ("", own):
            time.sleep(_STALE)
        lock.seek(0)
        lock.truncate()
        lock.write(own.encode())
        return lock
    lock.close()
    if error.errno in _BUSY:
        raise StorageError(
            f"storage {path!r} is in use by {holder}; on a network file system ({kind}) one process at a time may "
            "write to it: wait for it, or put the file on a local disk"
        ) from error
    raise StorageError(
        f"storage {path!r} is on a network file system ({kind}) without locks ({error.strerror}); put the file on a "
        "local disk; nodes of a cluster never read this file"
    ) from error


def is_held(path: str) -> bool:
    """Whether some process, of any machine, holds the lock of a file."""
    import fcntl

    with contextlib.suppress(FileNotFoundError), open(f"{path}-lock", "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def process_start(pid: int) -> str:
    """When a process started, as /proc says; empty where there is no /proc, or the process ended."""
    try:
        # The second field, the command in parentheses, may hold blanks: state and start come after it.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def process_exists(pid: int) -> bool:
    """Whether a process runs, where there is no /proc (macOS, Windows)."""
    if os.name == "nt":  # os.kill(pid, 0) would send Ctrl-C there
        kernel: Any = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
        handle = kernel.OpenProcess(0x1000, False, pid)
        if not handle:
            return False
        code = ctypes.c_ulong()
        kernel.GetExitCodeProcess(handle, ctypes.byref(code))
        kernel.CloseHandle(handle)
        return code.value == 259  # still active
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
