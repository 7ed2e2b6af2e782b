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
            help="A campaign (.db or .toml), a weighted table, a design, or the folder of a reproduction.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("page.html"),
    target: Annotated[
        str | None, typer.Option("--target", help="Column that holds the labels of a weighted table.")
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
    written (with --target), a table that steep design has written, or a folder of steep reproduce.
    """
    check_page(output, force=force, option="--output")
    kind = _write(source, output, target, weight_column, drop or [], title)
    finish(
        {"output": output, "about": kind, "source": source},
        [f"{output}: a page about a {kind}"],
        as_json=as_json,
    )


def _write(
    source: Path, output: Path, target: str | None, weight_column: str, drop: list[str], title: str | None
) -> str:
    if source.is_dir():
        return _write_reproduction(source, output)
    if source.suffix.lower() == ".toml" or _is_sqlite(source):
        from steep.cli.campaign.store import open_campaign

        with open_campaign(source) as campaign:
            writer_of("campaign_page")(output, campaign, title=title)
        return "campaign"
    from steep.cli.tables import open_table

    table = open_table([source])
    if {"variation", "is_initial"} <= set(table.names):
        writer_of("design_page")(output, read_design(table), title=title)
        return "design"
    _write_weighting(table, output, target, weight_column, drop, title)
    return "weighting"


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _write_reproduction(source: Path, output: Path) -> str:
    if not any(source.glob("*/*.jsonl")):
        raise InputError(
            f"{source} holds no lines of steep reproduce; need its folder of results; check the name"
        )
    writer_of("reproduction_page")(output, results=source)
    return "reproduction"


def _write_weighting(
    table: Table, output: Path, target: str | None, weight_column: str, drop: list[str], title: str | None
) -> None:
    from steep.cli.tables.features import read_features
    from steep.cli.tables.roles import assign_roles
    from steep.cli.tables.target import read_target

    if weight_column not in table.names:
        raise InputError(
            f"{table.title} has no column {weight_column!r}; need weights; run steep weigh, which takes --report too"
        )
    if target is None:
        raise InputError(f"{table.title} is a weighted table; need to know its labels; pass --target COLUMN")
    roles = assign_roles(table, target=target, drop=drop, weights={weight_column})
    labels = read_target(table, target)
    features = read_features(table, roles.features, impute="median")
    weights = table.frame([weight_column])[weight_column].to_numpy()
    writer_of("weighting_page")(
        output, X=features.points, y=labels.values, weights=weights, table=table.frame(features.names), target=target,
        title=title or f"Weights of {table.title}",
    )  # fmt: skip


def read_design(table: Table) -> Any:
    """The design that steep design has written: inputs, outputs, variation and start."""
    import numpy as np

    from steep.sampling import Design

    frame = table.frame(table.names)
    at = list(table.names).index("variation")
    outputs = [name for name in table.names[:at] if name == "y" or name.startswith("y")] or [
        table.names[at - 1]
    ]
    inputs = [name for name in table.names[:at] if name not in outputs]
    try:
        X = np.column_stack([_codes(frame[name]) for name in inputs])
        y = frame[outputs].to_numpy(dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{table.title} is no design ({error}); need what steep design writes; check the file"
        ) from error
    return Design(
        X=X, y=y[:, 0] if y.shape[1] == 1 else y, variation=frame["variation"].to_numpy(dtype=float),
        is_initial=frame["is_initial"].to_numpy(dtype=bool), n_evaluations=len(frame),
    )  # fmt: skip


def _codes(column: Any) -> Any:
    """Numbers as they are, categories as codes."""
    from pandas.api.types import is_numeric_dtype

    return (
        column.to_numpy(dtype=float)
        if is_numeric_dtype(column)
        else column.astype("category").cat.codes.to_numpy()
    )
