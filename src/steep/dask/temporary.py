"""Temporary folders: there while a computation needs them, gone when it is done, cancelled or killed.

A lazy result has no end of its own. So one thread of the client looks once a second: when the scheduler knows no task
of a run any more, because all are done or were cancelled, its files are removed, in the scheduler's own loop, so
that no task can begin in between. The folder itself goes when nobody holds the lazy result, or with the process; that
of a process which was killed goes with the next run on the same machine.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import socket
import tempfile
import threading
import time
import weakref
from importlib import import_module
from pathlib import Path
from typing import Any

from steep.dask.store import Store

_OWNER = "owner"
_PREFIX = "steep-dask-"
_LOOK = 1.0  # seconds between two looks
_GRACE = 10.0  # seconds without a task before a folder goes: a graph that was just sent is not at the scheduler yet


class Holder:
    """Part of a lazy result: as long as it is there, so is the folder."""


class _Lease:
    """One folder and what is known of it."""

    def __init__(self, folder: str, token: str) -> None:
        self.folder, self.token = folder, token
        self.dropped = False
        self.idle_since: float | None = None


def temporary_store(token: str) -> tuple[Store, Holder]:
    """A new folder for the run whose keys hold ``token``, and what its graph must hold on to."""
    from dask import config

    parent = config.get("temporary-directory", None) or tempfile.gettempdir()
    remove_abandoned(Path(parent))
    Path(parent).mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    (Path(folder) / _OWNER).write_text(f"{socket.gethostname()} {os.getpid()}")
    lease, holder = _Lease(folder, token), Holder()
    weakref.finalize(holder, setattr, lease, "dropped", True)
    _KEEPER.add(lease)
    return Store(folder), holder


class _Keeper:
    """The thread that removes what nobody needs."""

    def __init__(self) -> None:
        self._leases: list[_Lease] = []
        self._thread: threading.Thread | None = None
        self._pid = 0

    def add(self, lease: _Lease) -> None:
        """Look after one more folder."""
        self._leases.append(lease)
        if self._pid != os.getpid():  # the first here, or in a process that was forked
            self._pid = os.getpid()
            self._leases = [lease]
            atexit.register(self._close, self._pid)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._watch, name="steep-temporary", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        pause = threading.Event()
        while self._leases:
            pause.wait(_LOOK)
            for lease in list(self._leases):
                with contextlib.suppress(Exception):  # the next look may fare better, and the process ends some day
                    self._look(lease)

    def _look(self, lease: _Lease) -> None:
        client = current_client()
        if client is not None:
            trash = client.run_on_scheduler(set_aside, folder=lease.folder, token=lease.token)
            if trash is None:
                lease.idle_since = None
                return
            shutil.rmtree(trash, ignore_errors=True)
        if lease.dropped and (client is None or _has_rested(lease)):
            shutil.rmtree(lease.folder, ignore_errors=True)
            self._leases.remove(lease)

    def _close(self, pid: int) -> None:
        if pid != os.getpid():
            return
        for lease in self._leases:
            shutil.rmtree(lease.folder, ignore_errors=True)
            shutil.rmtree(_trash(lease.folder), ignore_errors=True)


def _has_rested(lease: _Lease) -> bool:
    """Whether no task of a run nobody holds was seen for a while."""
    lease.idle_since = lease.idle_since or time.monotonic()
    return time.monotonic() - lease.idle_since >= _GRACE


def set_aside(dask_scheduler: Any, folder: str, token: str) -> str | None:
    """Move the files of a run out of its folder, unless the scheduler still knows a task of it."""
    if any(token in str(key) for key in dask_scheduler.tasks):
        return None
    trash = Path(_trash(folder))
    files = [path for path in Path(folder).glob("*") if path.name != _OWNER]
    if files:
        trash.mkdir(exist_ok=True)
    for path in files:
        path.replace(trash / path.name)
    return str(trash)


def _trash(folder: str) -> str:
    return f"{folder}-done"


def remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes of this machine that are gone: one that was killed could not."""
    for owner in parent.glob(f"{_PREFIX}*/{_OWNER}"):
        with contextlib.suppress(OSError, ValueError):  # somebody else's, or just removed
            host, _, number = owner.read_text().partition(" ")
            if host == socket.gethostname() and not _is_alive(int(number)):
                shutil.rmtree(owner.parent, ignore_errors=True)
                shutil.rmtree(_trash(str(owner.parent)), ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def current_client() -> Any:
    """The Dask client that would compute now, or None."""
    try:
        library: Any = import_module("distributed")
        return library.default_client()
    except (ValueError, ImportError):
        return None


_KEEPER = _Keeper()
