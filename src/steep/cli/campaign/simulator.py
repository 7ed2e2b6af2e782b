"""The simulator of a campaign: a program or a function, checked before its first run."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steep.cli.calling import style_of
from steep.cli.targets import load_target
from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.cli.campaign.settings import Settings


def simulator_of(settings: Settings, names: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """The function to run for each point, and where it is run.

    Parameters
    ----------
    settings : Settings
        What the user said.
    names : tuple of str
        The inputs.

    Returns
    -------
    function, options
        For :meth:`Campaign.run`.
    """
    if (settings.command is None) == (settings.function is None):
        raise InputError(
            'need either a program or a function as the simulator; pass --command "./solver --u0 {u0}", or '
            "MODULE:FUNCTION"
        )
    if settings.command is not None:
        # A program is a process of its own: a thread is enough to wait for it.
        return _program(settings, names), {"executor": "threads", "n_workers": settings.workers}
    function = load_target(str(settings.function), folder=settings.folder)
    style = style_of(function, names, text=str(settings.function))
    where = "threads" if sys.platform == "win32" else "processes"
    return function, {
        "executor": where, "n_workers": settings.workers, "timeout": settings.timeout, "pass_as": style
    }  # fmt: skip


def _program(settings: Settings, names: tuple[str, ...]) -> Any:
    from steep.campaign import command_simulator

    with contextlib.chdir(settings.folder):
        program = command_simulator(
            _located(str(settings.command), settings.folder), outputs=settings.outputs, file=settings.file,
            timeout=settings.timeout, input=settings.stdin,
        )  # fmt: skip
    unknown, unused = set(program.names) - set(names), set(names) - set(program.names)
    if unknown:
        raise InputError(
            f"the command has {_braced(unknown)} and the bounds have {', '.join(names)}; need the same inputs in both; "
            "rename them"
        )
    if unused:
        raise InputError(
            f"the command has no {_braced(unused)}; need every input of the bounds in it; put it in, or leave it out "
            "of the bounds"
        )
    return program


def _located(command: str, folder: Path) -> list[str]:
    """The arguments; one that names a file that is there gets its full path: each run has a folder of its own."""
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise InputError(f"the command {command!r} cannot be split ({error}); close its quotes") from error
    is_path = [os.sep in part or i > 0 for i, part in enumerate(parts)]
    return [
        str(folder / part) if path and part and "{" not in part and (folder / part).is_file() else part
        for part, path in zip(parts, is_path, strict=True)
    ]


def _braced(names: set[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
