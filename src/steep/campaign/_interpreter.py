"""What Python and the system tell about processes, some of it in parts that are private: collected here.

Only the standard library is imported, since worker processes load this file without steep.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import current_process
from pathlib import Path
from typing import Any


def command() -> list[str]:
    """The Python that runs now, with the flags it was started with."""
    return [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]


def run_exit_functions() -> None:
    """Run what was registered with atexit: a process that ends by ``os._exit`` skips it."""
    atexit._run_exitfuncs()


@contextmanager
def importing_main() -> Iterator[None]:
    """Mark this process as one that imports the script of its parent, so that the script starts nothing again."""
    process: Any = current_process()
    process._inheriting = True
    try:
        yield
    finally:
        del process._inheriting


def is_importing_main() -> bool:
    """Whether the script of the parent is being imported."""
    return bool(getattr(current_process(), "_inheriting", False))


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
