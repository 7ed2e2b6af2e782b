"""``steep suspects``: the labels of a table that are probably wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli import table_options as told
from steep.cli.destinations import check_destination
from steep.cli.options import Debug, Force, Jobs, Json, Report, Seed
from steep.cli.pages import check_page, writer_of
from steep.cli.printing import finish, table_of, working

if TYPE_CHECKING:
    import pandas as pd

# Up to here starting processes takes longer than the fits.
_FEW_ROWS = 5_000
EXAMPLE = "steep suspects iris.csv --target kind -o suspects.csv"


def suspects_command(
    tables: told.Tables,
    target: told.Target,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o",
            help="File for every row with its score, label and suggested label, the most suspect first.",
        ),
    ] = None,
    top: Annotated[int, typer.Option("-n", "--top", min=1, help="Rows to print.")] = 10,
    n_neighbors: Annotated[int, typer.Option("--n-neighbors", "-k", help="k, neighbours asked.")] = 10,
    drop: told.Drop = None,
    keep: told.Keep = None,
    groups: told.Groups = None,
    impute: told.Impute = None,
    task: told.Task = "auto",
    encoding: told.Encoding = None,
    separator: told.Separator = None,
    decimal: told.Decimal = None,
    seed: Seed = 0,
    report: Report = None,
    jobs: Jobs = -1,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Rank the labels of a table by how probable it is that they are wrong.

    Each label is compared with those of its nearest neighbours and with the prediction of a model that was
    fitted without it. Rows count from 0, the first under the header.
    """
    from steep.cli.reading import read_samples
    from steep.cli.tables.writing import check_format, write_frame
    from steep.weighting import suspects

    if output is not None:
        check_format(output)
    samples = read_samples(
        tables, target, drop=drop, keep=keep, groups=groups, impute=impute, task=task, encoding=encoding,
        separator=separator, decimal=decimal,
    )  # fmt: skip
    if output is not None:
        check_destination(output, inputs=samples.table.paths, force=force)
    check_page(report, force=force)
    features, labels = samples.read()
    with working(f"asking the neighbours and a forest about {samples.table.n_rows:,} labels"):
        found = suspects(
            features.points, labels.values, n_neighbors=n_neighbors, groups=samples.groups(), embedding=None,
            task=labels.task, random_state=seed, n_jobs=jobs if samples.table.n_rows > _FEW_ROWS else 1,
        )  # fmt: skip
    if output is not None:
        write_frame(output, _ranked(found.table))
    if report is not None:
        writer_of("suspects_page")(
            report, found, X=features.points, y=labels.values, table=samples.table.frame(features.names), target=target,
            title=f"Labels of {samples.table.title} that are probably wrong",
        )  # fmt: skip
    worst = found.top(min(top, len(found)))
    figures = samples.figures(features, labels) | {
        "verdict": str(found.verdict), "wrong": found.n_wrong.mean,
        "wrong_interval": [found.n_wrong.low, found.n_wrong.high], "suspects": int((found.score > 0.5).sum()),
        "top": worst.reset_index().to_dict("records"), "output": output, "report": report,
    }  # fmt: skip
    lines: list[Any] = [
        *samples.lines(features, labels),
        str(found.verdict),
        table_of(["row", "score", "label", "suggested", "neighbours that say so"], _cells(worst)),
        *([f"{output}: every row, the most suspect first"] if output is not None else []),
        *([f"{report}: a page to look at"] if report is not None else []),
    ]
    finish(figures, lines, as_json=as_json)


def _ranked(table: pd.DataFrame) -> pd.DataFrame:
    """Every row, the most suspect first; neighbours as text, which every format can hold."""
    ranked = table.sort_values("rank").reset_index()
    ranked["neighbors"] = [" ".join(map(str, rows)) for rows in ranked["neighbors"]]
    return ranked


def _cells(worst: pd.DataFrame) -> list[tuple[Any, ...]]:
    return [
        (row, float(f"{score:.3g}"), str(label), str(suggested), ", ".join(map(str, neighbors)))
        for row, score, label, suggested, neighbors in zip(
            worst.index.tolist(),
            worst["score"].tolist(),
            worst["label"],
            worst["suggested"],
            worst["neighbors"],
            strict=True,
        )
    ]
