"""``steep suspects``: the labels of a table, those that look wrong first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.options import (
    FRAMES,
    Decimal,
    Drop,
    Force,
    Groups,
    Json,
    Keep,
    Report,
    Seed,
    TableFile,
    Target,
    Task,
    check_destination,
    check_page,
    writer_of,
)
from steep.cli.printing import finish, shell_words, stage, table_of

if TYPE_CHECKING:
    import pandas as pd

# Up to here starting processes takes longer than the fits.
_FEW_ROWS = 5_000
# What is known about the number of wrong labels.
CAVEAT = "a rough estimate, which can be far off when errors follow a pattern or labels are hard to predict"
EXAMPLE = "steep suspects iris.csv --target kind -o suspects.csv"


def suspects_command(
    table: TableFile,
    target: Target,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o",
            help="File for the table, the most suspect row first, with rank, score and suggested label as further "
            "columns.",
        ),
    ] = None,
    top: Annotated[int, typer.Option("-n", "--top", min=1, help="Rows to print.")] = 10,
    n_neighbors: Annotated[int, typer.Option("--n-neighbors", "-k", help="k, neighbours compared.")] = 20,
    drop: Drop = None,
    keep: Keep = None,
    groups: Groups = None,
    task: Task = "auto",
    decimal: Decimal = None,
    seed: Seed = 0,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Rank the labels of a table, those that look wrong first.

    Each label is compared with the labels of its nearest neighbours and with the prediction of a model that was fitted
    without it. Look at the rows from the top down, and stop when they are right. Rows count from 0, the first under the
    header. Rows without a label are left out; missing values count as the median or the most frequent value.
    """
    from steep import suspects
    from steep.cli.samples import read_samples
    from steep.cli.tables import write_table

    check_destination(output, FRAMES, inputs=[table], force=force)
    check_page(report, force=force)
    samples = read_samples(table, target, drop=drop or (), keep=keep or (), groups=groups, task=task, decimal=decimal)
    with stage(f"comparing {len(samples):,} labels with neighbours and a forest", len(samples)), shell_words():
        found = suspects(
            samples.X, samples.y, groups=samples.groups, task=samples.task, random_state=seed, n_neighbors=n_neighbors,
            n_jobs=-1 if len(samples) > _FEW_ROWS else 1,
        )  # fmt: skip
    ranked = found.table.sort_values("rank").rename_axis("row")
    if output is not None:
        write_table(output, samples.table, _own_columns(ranked, samples.table.names), ranked.index.to_numpy())
    if report is not None:
        writer_of("suspects_page")(
            report, found, X=samples.X, y=samples.shown, target=target, verdict=_count(found),
            title=f"Labels of {samples.table.path} to look at",
        )  # fmt: skip
    worst = ranked.head(top)
    figures = samples.figures() | {
        "verdict": str(found.verdict), "wrong": found.n_wrong.mean,
        "wrong_interval": [found.n_wrong.low, found.n_wrong.high], "suspects": int((found.score > 0.5).sum()),
        "caveat": CAVEAT, "top": worst.reset_index().to_dict("records"), "output": output, "report": report,
    }  # fmt: skip
    lines: list[Any] = [
        *samples.lines(),
        table_of(["rank", "row", "score", "label", "suggested", "neighbours with that label"], _cells(worst)),
        _count(found),
        *([f"{output}: the table with its labels ranked, the most suspect row first"] if output is not None else []),
    ]
    finish(figures, lines, as_json=as_json, report=report)


def _count(found: Any) -> str:
    """How many labels may be wrong, with what is known about that number."""
    wrong = found.n_wrong
    return (
        f"Look at these rows first. About {wrong.mean:,.0f} of {len(found):,} labels may be wrong (between "
        f"{wrong.low:,.0f} and {wrong.high:,.0f}): {CAVEAT}."
    )


def _own_columns(ranked: pd.DataFrame, names: Sequence[str]) -> dict[str, list[Any]]:
    """What is written next to the table's own columns; neighbours as text, which every format can hold."""
    own = {
        "rank": ranked["rank"].tolist(),
        "row": ranked.index.tolist(),
        "score": ranked["score"].tolist(),
        "suggested": ranked["suggested"].tolist(),
        "neighbors": [" ".join(map(str, rows)) for rows in ranked["neighbors"]],
    }
    return {f"suspect_{name}" if name in names else name: values for name, values in own.items()}


def _cells(worst: pd.DataFrame) -> list[tuple[Any, ...]]:
    columns = (worst["rank"], worst.index, worst["score"], worst["label"], worst["suggested"], worst["neighbors"])
    return [
        (rank, row, float(f"{score:.3g}"), str(label), str(suggested), ", ".join(map(str, neighbors)))
        for rank, row, score, label, suggested, neighbors in zip(*(column.tolist() for column in columns), strict=True)
    ]
