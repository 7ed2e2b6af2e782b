"""Options that several commands share, the checks of files to write, and what every ``--help`` ends with."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from steep.exceptions import InputError, MissingExtraError

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
