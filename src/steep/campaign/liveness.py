"""Which campaigns are open: a file's runs in flight belong to processes that may be gone.

A write-ahead log needs one machine, so a process number and its start time say all there is to know.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from pathlib import Path
from typing import Any

_open_here: set[str] = set()


def new_owner() -> str:
    """A name for one open campaign of this process."""
    owner = uuid.uuid4().hex
    _open_here.add(owner)
    return owner


def forget_owner(owner: str) -> None:
    """Note that a campaign of this process was closed."""
    _open_here.discard(owner)


def process_start(pid: int) -> str:
    """When a process started, as the system tells it; empty where it does not, or when it ended."""
    try:
        # The second field, the command in parentheses, may hold blanks: state and start come after it.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def is_alive(owner: str, pid: int, started: str) -> bool:
    """Whether the campaign that registered so is still open."""
    if pid == os.getpid() and started == process_start(pid):
        return owner in _open_here
    if started:
        return process_start(pid) == started
    return _exists(pid)


def _exists(pid: int) -> bool:
    """Whether there is such a process, where /proc does not tell (macOS, Windows)."""
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
