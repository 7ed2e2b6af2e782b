"""Which processes are alive: runs in flight of a dead one are asked again, those of others are not.

A write-ahead log needs one machine, so a process number and its start time say all there is to know.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

# Campaigns open in this process.
_open_here: set[str] = set()


def new_owner() -> str:
    """A name for one open campaign of this process."""
    owner = uuid.uuid4().hex
    _open_here.add(owner)
    return owner


def forget(owner: str) -> None:
    """Note that a campaign of this process was closed."""
    _open_here.discard(owner)


def process_start(pid: int) -> str:
    """When a process started, as the system tells it; empty where it does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The second field, the command in parentheses, may hold blanks: the start is the 20th after it.
    return stat.rpartition(")")[2].split()[19]


def is_alive(owner: str, pid: int, started: str) -> bool:
    """Whether the campaign that registered so is still open."""
    if pid == os.getpid() and started == process_start(pid):
        return owner in _open_here
    if started:
        return process_start(pid) == started and not _is_zombie(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
