"""``package.module:name`` on the command line: the user's own function or network."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from steep.exceptions import InputError


def load_target(text: str, *, folder: Path | None = None) -> Any:
    """Import ``package.module:name`` or ``solver.py:run``, looked for in ``folder`` first."""
    module_name, colon, name = text.partition(":")
    if not (colon and module_name and name):
        raise InputError(f"got {text!r}; expected a module and a name in it; write package.module:function")
    if module_name.endswith(".py"):
        path = Path(module_name)
        folder, module_name = (folder or Path.cwd()) / path.parent, path.stem
    place = str((folder or Path.cwd()).resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    found = _module(module_name, text, place)
    for part in name.split("."):
        if not hasattr(found, part):
            public = [entry for entry in vars(found) if not entry.startswith("_")] if hasattr(found, "__dict__") else []
            raise InputError(
                f"{text!r}: {module_name} has no {part!r}; expected a name it has: {', '.join(public[:12]) or 'none'}"
            )
        found = getattr(found, part)
    return found


def _module(name: str, text: str, place: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if not (name == missing or name.startswith(f"{missing}.")):
            raise InputError(
                f"{text!r}: {name} imports {missing!r}, which is not installed; install it first"
            ) from error
        raise InputError(
            f"{text!r}: cannot find module {missing!r} in {place} or among the installed packages; start "
            "steep in the folder of the file, or install it"
        ) from error
    except (Exception, SystemExit) as error:  # a script may end as it is imported
        kind = type(error).__name__
        raise InputError(
            f"{text!r}: importing {name} raises {kind}: {error}; expected a module that imports"
        ) from error
