"""``steep report``: a page about a result that is there already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.options import Debug, Force, Json
from steep.cli.pages import check_page, writer_of
from steep.cli.printing import finish
from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.cli.tables import Table

EXAMPLE = "steep report campaign.db -o page.html"
_SQLITE = b"SQLite format 3\0"


def report_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT", show_default=False,
            help="A campaign (.db or .toml), a weighted table or a design.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("page.html"),
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="Column of the labels of a weighted table, or of an output of a design."),
    ] = None,
    weight_column: Annotated[
        str, typer.Option("--weight-column", help="Column that holds its weights.")
    ] = "sample_weight",
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Column to leave out; may be repeated.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Write a page about a result: one HTML file that needs nothing else.

    What the page is about is told from the file: the store of a campaign, a table that steep weigh has
    written (with --target), or a table that steep design has written.
    """
    check_page(output, force=force, option="--output")
    kind = _write(source, output, target or [], weight_column, drop or [], title)
    finish({"output": output, "about": kind, "source": source}, [f"{output}: a page about a {kind}"], as_json=as_json)


def _write(
    source: Path, output: Path, target: list[str], weight_column: str, drop: list[str], title: str | None
) -> str:
    if source.suffix.lower() == ".toml" or _is_sqlite(source):
        from steep.cli.campaign.store import open_campaign

        with open_campaign(source) as campaign:
            writer_of("campaign_page")(output, campaign, title=title)
        return "campaign"
    from steep.cli.tables import open_table

    table = open_table([source])
    if {"variation", "is_initial"} <= set(table.names):
        writer_of("design_page")(output, read_design(table, target), title=title)
        return "design"
    _write_weighting(table, output, target, weight_column, drop, title)
    return "weighting"


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _write_weighting(
    table: Table, output: Path, target: list[str], weight_column: str, drop: list[str], title: str | None
) -> None:
    from steep.cli.reading import read_samples

    if weight_column not in table.names:
        raise InputError(
            f"{table.title} has no column {weight_column!r}; need weights; run steep weigh, which takes --report too"
        )
    if len(target) != 1:
        raise InputError(f"{table.title} is a weighted table; need to know its labels; pass one --target COLUMN")
    samples = read_samples(table.paths, target[0], drop=[*drop, weight_column]).read()
    weights = table.frame([weight_column])[weight_column].to_numpy()[samples.rows]
    writer_of("weighting_page")(
        output, X=samples.X, y=samples.target.shown, weights=weights, target=target[0],
        title=title or f"Weights of {table.title}",
    )  # fmt: skip


def read_design(table: Table, outputs: list[str]) -> Any:
    """The design that steep design has written; its outputs are named, or the last column before the variation."""
    import numpy as np

    from steep.domain import Box, Category
    from steep.sampling import Design

    names = list(table.names)
    columns = names[: names.index("variation")]
    if unknown := [name for name in outputs if name not in columns]:
        raise InputError(f"{table.title} has no column {unknown[0]!r}; need an output; it has {', '.join(columns)}")
    outputs = outputs or columns[-1:]
    inputs = [name for name in columns if name not in outputs]
    frame = table.frame(names)
    axes: dict[str, Any] = {}
    for name in inputs:
        column = frame[name]
        is_number = column.dtype.kind in "iuf"
        axes[name] = _range(column) if is_number else Category(*sorted(map(str, column.unique())))
        frame[name] = column if is_number else column.astype(str)
    try:
        box = Box(axes)
        points: Any = frame[inputs].to_dict("records")
        X, y = box.encode(points), frame[outputs].to_numpy(dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{table.title} is no design ({error}); need what steep design writes; name its outputs with --target"
        ) from error
    return Design(
        X=X, y=y[:, 0] if y.shape[1] == 1 else y, variation=frame["variation"].to_numpy(dtype=float),
        is_initial=np.asarray(frame["is_initial"], dtype=bool), n_evaluations=len(frame), box=box,
        outputs=tuple(outputs),
    )  # fmt: skip


def _range(column: Any) -> tuple[float, float]:
    """The ends of an input, as far as the points tell."""
    low, high = float(column.min()), float(column.max())
    return (low, high) if high > low else (low, low + 1.0)
