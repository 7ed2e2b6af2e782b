"""Options that several commands share, and what every ``--help`` ends with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object, and nothing else, on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="PAGE.html", help="Write a page to look at, too: one HTML file that needs nothing else."
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", help="Processors to use; -1 is all.")]
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

EXIT_CODES = (
    "Exit codes: 0 done; 2 bad input or failure, one line on stderr says why; 130 interrupted (Ctrl-C); 143 "
    "terminated; 141 the reader of the output has gone."
)


def example(command: str) -> str:
    """The end of a command's help: one line that runs as it is, which a test does."""
    return f"Example:\n\n{command}"


def paragraphs(text: str | None) -> str:
    r"""A docstring as help: lines of a paragraph joined, whatever Typer makes of single line ends.

    Examples
    --------
    >>> paragraphs("One.\n\n    Two,\n    three.")
    'One.\n\nTwo, three.'
    """
    parts = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def add(app: typer.Typer, name: str, function: Callable[..., None], example_line: str) -> None:
    """Make a function a command whose help ends with an example."""
    app.command(name, help=paragraphs(function.__doc__), epilog=example(example_line))(function)
