"""Options of the commands that read a labelled table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Tables = Annotated[
    list[Path],
    typer.Argument(
        metavar="TABLE",
        show_default=False,
        help="CSV (also .gz, .zip), Parquet, Arrow, Excel or JSON lines, one sample per row; - is standard input; "
        "several files or a glob are one table.",
    ),
]
Target = Annotated[str, typer.Option("--target", help="Column that holds the labels.", show_default=False)]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Column to leave out; may be repeated.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COLUMN", help="Column to use though it counts the rows or holds weights."),
]
Groups = Annotated[
    str | None,
    typer.Option("--groups", metavar="COLUMN", help="Rows of one group stay together; the column is not a feature."),
]
Task = Annotated[str, typer.Option("--task", help="How to read the target: auto, classification or regression.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Encoding of the text; default detected.")]
Separator = Annotated[str | None, typer.Option("--separator", help="Separator of CSV; default detected.")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal mark of CSV; default detected.")]
