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
_TABLE = "The table"
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object, and nothing else, on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="PAGE.html", help="Also write a self-contained HTML report.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed: the same seed gives the same result.")]
Bounds = Annotated[
    str | None,
    typer.Option(
        "--bounds",
        metavar="BOUNDS",
        help="The inputs and their ranges: x=0:1, k=1e-3:1e3:log, n=1:8:int, c={steel|copper}, with commas "
        "between them.",
    ),
]

TableFile = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        show_default=False,
        help="CSV (also .gz, .zip), Parquet, Feather or Excel, one sample per row; - is standard input.",
    ),
]
Target = Annotated[str, typer.Option("--target", help="Column that holds the labels.", show_default=False)]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COLUMN", help="Column to leave out; may be repeated.", rich_help_panel=_TABLE),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep", metavar="COLUMN", help="Use this column although it looks like row numbers or weights.",
        rich_help_panel=_TABLE,
    ),
]  # fmt: skip
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups", metavar="COLUMN", help="Rows of one group stay together; the column is not a feature.",
        rich_help_panel=_TABLE,
    ),
]  # fmt: skip
Task = Annotated[
    str,
    typer.Option("--task", help="How to read the target: auto, classification or regression.", rich_help_panel=_TABLE),
]
Decimal = Annotated[
    str | None, typer.Option("--decimal", help="Decimal mark of CSV; default detected.", rich_help_panel=_TABLE)
]
Neighbors = Annotated[int | None, typer.Option("--n-neighbors", "-k", help="k, neighbours compared.")]

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

    No file of ``inputs``, which were read, is replaced without ``force``; ``option`` is how the user named the file.
    """
    if path is None:
        return
    if formats and path.suffix.lower() not in formats:
        raise InputError(
            f"{option} {path} has the suffix {path.suffix!r}; expected one of {', '.join(formats)}; name another file"
        )
    if not path.name:
        raise InputError(f"{option} {path} has no file name; add one")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path} cannot be written: its folder does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; expected a file; add a file name")
    if not force and path.exists():
        if any(other.exists() and os.path.samefile(path, other) for other in inputs):
            raise InputError(
                f"{option} {path} is the table itself; expected another file; name one, or pass --force to write "
                "onto it"
            )
        raise InputError(
            f"{option} {path} exists already; expected a new file; name one, or pass --force to replace it"
        )
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{option} {path} cannot be written: its folder is read-only; choose another folder")


def check_page(path: Path | None, *, force: bool, option: str = "--report") -> None:
    """Check before any work is done that a page can be written; its folder is created."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{option} must end in .html, for example page.html; got {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{option} {path}: the folder {path.parent} cannot be created ({error.strerror}); choose another one"
        ) from error
    check_destination(path, force=force, option=option)
    writer_of("weighting_page")


def writer_of(name: str) -> Any:
    """The function of :mod:`steep.report` that writes a page; the package is loaded only then."""
    try:
        from steep import report
    except ImportError as error:
        raise MissingExtraError(
            f"pages need more packages ({error}); expected the extra 'report'; run pip install 'steep[report]'"
        ) from error
    return getattr(report, name)


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


def parse_bounds(text: str) -> dict[str, Axis]:
    """Read the text of ``--bounds``: one entry per input, with commas between them."""
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
        axes[match[1]] = parse_axis(match[1], match[2].strip())
        at = match.end()
    if not axes:
        raise InputError(f"--bounds is empty; expected at least one input; write name={_FORMS}")
    return axes


def parse_axis(name: str, text: str) -> Axis:
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

    axes: dict[str, Axis] = {}
    for name, entry in entries.items():
        if isinstance(entry, str):
            axes[name] = parse_axis(name, entry.strip())
        elif isinstance(entry, list) and (len(entry) != 2 or not all(map(_is_number, entry))):
            axes[name] = make_axis(name, Category(*entry))
        else:
            axes[name] = make_axis(name, entry)
    if not axes:
        raise InputError("the bounds are empty; expected at least one input; add it under [bounds]")
    return axes


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
