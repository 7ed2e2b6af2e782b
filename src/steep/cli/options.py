"""Options that several commands share, what their text stands for, and the checks of files to write.

A function, network or model is named as ``package.module:name``; bounds are written as in
``x=0:1,k=1e-3:1e3:log,n=1:8:int,c={steel|copper}``, in a shell as in a TOML file.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.exceptions import InputError, MissingExtraError

if TYPE_CHECKING:
    from steep.domain.axes import Axis

# What a table can be written as, and what a frame and a column can.
TABLES = (".csv", ".parquet", ".feather", ".arrow")
FRAMES = (*TABLES, ".txt")
COLUMNS = (*FRAMES, ".npy")
_TABLE: Any = {"rich_help_panel": "The table"}
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object, and nothing else, on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="PAGE.html", help="Also write a self-contained HTML report.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed: the same seed gives the same result.")]
_RANGES = "The inputs and their ranges: x=0:1, k=1e-3:1e3:log, n=1:8:int, c={steel|copper}, with commas between them."
Bounds = Annotated[str | None, typer.Option("--bounds", metavar="BOUNDS", help=_RANGES)]
_FILE = "CSV (also .gz, .zip), Parquet, Feather or Excel, one sample per row; - is standard input."
TableFile = Annotated[Path, typer.Argument(metavar="TABLE", show_default=False, help=_FILE)]
Target = Annotated[str, typer.Option("--target", help="Column that holds the labels.", show_default=False)]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Column to leave out; may be repeated.", **_TABLE)
]
_KEPT = "Use this column although it looks like row numbers or weights."
Keep = Annotated[list[str] | None, typer.Option("--keep", metavar="COLUMN", help=_KEPT, **_TABLE)]
_TOGETHER = "Rows of one group stay together; the column is not a feature."
Groups = Annotated[str | None, typer.Option("--groups", metavar="COLUMN", help=_TOGETHER, **_TABLE)]
_READ_AS = "How to read the target: auto, classification or regression."
Task = Annotated[str, typer.Option("--task", help=_READ_AS, **_TABLE)]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal mark of CSV; default detected.", **_TABLE)]

EXIT_CODES = (
    "Exit codes: 0 done; 2 bad input or failure, one line on stderr says why; 130 interrupted (Ctrl-C); 143 "
    "terminated; 141 broken pipe."
)

ENTRY = re.compile(r"\s*([^=,{}]*?)\s*=\s*(\{[^{}]*\}|[^,{}]*)\s*(?:,|\Z)")
_FORMS = "low:high, low:high:log, low:high:int or {a|b|c}"


def example(command: str) -> str:
    """The end of a command's help: one line that runs as it is, which a test does."""
    return f"Example:\n\n{command}"


def paragraphs(text: str | None) -> str:
    """A docstring as help: lines of a paragraph joined, whatever Typer makes of single line ends."""
    parts = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def add(app: typer.Typer, name: str, function: Callable[..., None], example_line: str) -> None:
    """Make a function a command whose help ends with an example."""
    app.command(name, help=paragraphs(function.__doc__), epilog=example(example_line))(function)


def check_destination(
    path: Path | None,
    formats: Sequence[str] = (),
    *,
    inputs: Iterable[Path] = (),
    force: bool = False,
    option: str = "--output",
) -> None:
    """Check before any work is done that a file of one of ``formats`` may be written, if there is to be one.

    No file is replaced without ``force``; ``inputs`` were read, ``option`` is how the user named the file.
    """
    if path is None:
        return
    wrong = None
    if formats and path.suffix.lower() not in formats:
        wrong = f"has the suffix {path.suffix!r}; expected one of {', '.join(formats)}; name another file"
    elif path.is_dir():
        wrong = "is a folder; expected a file; add a file name"
    elif not path.parent.is_dir():
        wrong = "cannot be written: its folder does not exist; create it first"
    elif not os.access(path.parent, os.W_OK):
        wrong = "cannot be written: its folder is read-only; choose another folder"
    elif not force and any(path.exists() and other.exists() and path.samefile(other) for other in inputs):
        wrong = "is the table itself; expected another file; name one, or pass --force to write onto it"
    elif not force and path.exists():
        wrong = "exists already; expected a new file; name one, or pass --force to replace it"
    if wrong is not None:
        raise InputError(f"{option} {path} {wrong}")


def check_page(path: Path | None, *, force: bool, option: str = "--report") -> None:
    """Check before any work is done that a page can be written; its folder is created."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{option} must end in .html, for example page.html; got {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"the folder {path.parent} cannot be created ({error.strerror})"
        raise InputError(f"{option} {path}: {why}; choose another one") from error
    check_destination(path, force=force, option=option)
    if find_spec("jinja2") is None or find_spec("matplotlib") is None:
        raise MissingExtraError("pages need more packages; run pip install 'steep[report]'")


def load_target(text: str, *, folder: Path | None = None) -> Any:
    """Import ``package.module:name`` or ``solver.py:run``, looked for in ``folder`` first."""
    module_name, _, name = text.partition(":")
    if not (module_name and name):
        raise InputError(f"got {text!r}; expected a module and a name in it; write package.module:function")
    folder = (folder or Path.cwd()).resolve()
    if module_name.endswith(".py"):
        folder, module_name = (folder / module_name).parent, Path(module_name).stem
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    found = _module(module_name, text, folder)
    for part in name.split("."):
        if not hasattr(found, part):
            public = ", ".join([entry for entry in dir(found) if not entry.startswith("_")][:12])
            raise InputError(f"{text!r}: {module_name} has no {part!r}; expected a name it has: {public or 'none'}")
        found = getattr(found, part)
    return found


def _module(name: str, text: str, folder: Path) -> Any:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a script may end as it is imported
        why = f"importing {name} raises {type(error).__name__}: {error}; expected a module that imports"
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            why = (
                f"cannot find module {error.name!r} in {folder} or among the installed packages; start steep in the "
                "folder of the file, or install it"
            )
        raise InputError(f"{text!r}: {why}") from error


def parse_bounds(text: str | None) -> dict[str, Axis]:
    """Read the text of ``--bounds``: one entry per input, with commas between them."""
    if text is None:
        raise InputError('--bounds is missing; expected the inputs and their ranges; pass --bounds "x=0:1,t=0:10"')
    axes: dict[str, Axis] = {}
    at = 0
    while at < len(text):
        match = ENTRY.match(text, at)
        if match is None or not match[1]:
            raise InputError(
                f"--bounds has {text[at:]!r}, which is not an input with its range; expected name={_FORMS}; write "
                "it so, with commas between inputs"
            )
        if match[1] in axes:
            raise InputError(f"--bounds has {match[1]!r} twice; expected each input once; leave one out")
        axes[match[1]] = _axis(match[1], match[2].strip())
        at = match.end()
    if not axes:
        raise InputError(f"--bounds is empty; expected at least one input; write name={_FORMS}")
    return axes


def _axis(name: str, text: str) -> Axis:
    """Read the range of one input."""
    from steep.domain import Category, Integer, Log
    from steep.domain.axes import make_axis

    if text.startswith("{") and text.endswith("}"):
        return make_axis(name, Category(*(_value(part.strip()) for part in text[1:-1].split("|"))))
    low, _, rest = text.partition(":")
    high, _, kind = rest.partition(":")
    kinds: dict[str, Any] = {"": lambda *ends: ends, "log": Log, "int": Integer}
    ends = [_number(part) for part in (low, high)]
    if kind not in kinds or None in ends:
        raise InputError(f"the range of {name!r} is {text!r}; expected {_FORMS}; write it so")
    return make_axis(name, kinds[kind](*ends))


def axes_of(entries: Mapping[str, Any]) -> dict[str, Axis]:
    """Read the ``[bounds]`` of a TOML file: text as above, pairs of numbers, or lists of categories."""
    from steep.domain import Category
    from steep.domain.axes import make_axis

    if not entries:
        raise InputError("the bounds are empty; expected at least one input; add it under [bounds]")
    axes: dict[str, Axis] = {}
    for name, entry in entries.items():
        if isinstance(entry, str):
            axes[name] = _axis(name, entry.strip())
        elif isinstance(entry, list) and (len(entry) != 2 or not all(type(end) in (int, float) for end in entry)):
            axes[name] = make_axis(name, Category(*entry))
        else:
            axes[name] = make_axis(name, entry)
    return axes


def _number(text: str) -> float | int | None:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return None


def _value(text: str) -> Any:
    """A value of a category: a number where it reads as a finite one, else text."""
    if not text:
        raise InputError("--bounds has a category without a name; expected a name between the bars, as {a|b}; add it")
    number = _number(text)
    return number if number is not None and math.isfinite(number) else text
