"""``steep suspects``: the labels of a table, those that look wrong first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli import options
from steep.cli.printing import finish, stage, table_of
from steep.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

    from steep.cli.samples import LabelledTable

# Up to here starting processes takes longer than the fits.
_FEW_ROWS = 5_000
# What is known about the number of wrong labels.
CAVEAT = "a rough estimate, which can be far off when errors follow a pattern or labels are hard to predict"
EXAMPLE = "steep suspects iris.csv --target kind -o suspects.csv"

_FILE = "File for the table, the most suspect row first, with rank, score and suggested label as further columns."
_PAGE = "Write a page on which you decide about each label by keys, and export your decisions."
_DECISIONS = (
    "Rank nothing: write the table to --output with the labels decided in this file of the page, CSV or JSON, and "
    "every other column as it is."
)


def suspects_command(
    table: options.TableFile,
    target: options.Target,
    output: Annotated[Path | None, typer.Option("--output", "-o", help=_FILE)] = None,
    top: Annotated[int, typer.Option("-n", "--top", min=1, help="Rows to print.")] = 10,
    n_neighbors: Annotated[int, typer.Option("--n-neighbors", "-k", help="k, neighbours compared.")] = 20,
    drop: options.Drop = None,
    keep: options.Keep = None,
    groups: options.Groups = None,
    task: options.Task = "auto",
    decimal: options.Decimal = None,
    seed: options.Seed = 0,
    review: Annotated[Path | None, typer.Option("--review", metavar="PAGE.html", help=_PAGE)] = None,
    apply: Annotated[Path | None, typer.Option("--apply", metavar="DECISIONS", help=_DECISIONS)] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Rank the labels of a table, those that look wrong first.

    Each label is compared with the labels of its nearest neighbours and with the prediction of a model that was fitted
    without it. Look at the rows from the top down, and stop when they are right. Rows count from 0, the first under the
    header. Rows without a label are left out; missing values count as the median or the most frequent value.
    """
    from steep import suspects
    from steep.cli.samples import read_samples
    from steep.cli.tables import write_table

    options.check_destination(output, options.FRAMES, inputs=[table], force=force)
    options.check_page(review, force=force, option="--review")
    if apply is not None and (output is None or review is not None):
        raise InputError(
            "--apply writes a corrected table and no page; expected --output and no --review; name the file with -o"
        )
    samples = read_samples(table, target, drop=drop, keep=keep, groups=groups, task=task, decimal=decimal)
    if apply is not None:
        _apply(samples, apply, output, as_json=as_json)
        return
    stage(f"comparing {len(samples):,} labels with neighbours and a forest", len(samples))
    found = suspects(
        samples.X, samples.y, groups=samples.groups, task=samples.task, random_state=seed, n_neighbors=n_neighbors,
        n_jobs=-1 if len(samples) > _FEW_ROWS else 1,
    )  # fmt: skip
    ranked, wrong = found.table.sort_values("rank").rename_axis("row"), found.n_wrong
    if output is not None:
        write_table(output, samples.table, _columns(ranked, samples.table.names), ranked.index.to_numpy())
    if review is not None:
        found.page(review, target=target, title=f"Labels of {samples.table.path} to look at")
    worst = ranked.head(top).reset_index()
    figures = samples.figures() | {
        "verdict": str(found.verdict), "wrong": wrong.mean, "wrong_interval": [wrong.low, wrong.high],
        "suspects": int((found.score > 0.5).sum()), "caveat": CAVEAT, "top": worst.to_dict("records"),
        "output": output, "review": review,
    }  # fmt: skip
    lines = [
        *samples.lines(),
        table_of(["rank", "row", "score", "label", "suggested", "supporting neighbours"], _cells(worst)),
        f"Look at these rows first. About {wrong.mean:,.0f} of {len(found):,} labels may be wrong (between "
        f"{wrong.low:,.0f} and {wrong.high:,.0f}): {CAVEAT}.",
        *([f"{output}: the table with its labels ranked, the most suspect row first"] if output is not None else []),
    ]
    finish(figures, lines, as_json=as_json, report=review)


def _apply(samples: LabelledTable, decisions: Path, output: Any, *, as_json: bool) -> None:
    import numpy as np

    from steep._suspects.decisions import corrected
    from steep._suspects.suspects import labels_as_given
    from steep.cli.tables import write_changed
    from steep.labels import check_labels

    labels = labels_as_given(check_labels(samples.y, n_samples=len(samples), task=samples.task))
    new = corrected(labels, samples.X.index, decisions, is_number=samples.task == "regression")
    places = np.flatnonzero(new != labels)
    changed = dict(zip(samples.rows[places].tolist(), new[places].tolist(), strict=True))
    write_changed(output, samples.table, str(samples.y.name), changed)
    figures = {"output": output, "decisions": decisions, "changed": len(changed), "samples": len(samples)}
    finish(figures, [f"{output}: the table with {len(changed):,} of {len(samples):,} labels changed"], as_json=as_json)


def _columns(ranked: pd.DataFrame, names: tuple[str, ...]) -> dict[str, list[Any]]:
    """What is written next to the table's own columns; neighbours as text, which every format can hold."""
    columns = ranked.reset_index()[["rank", "row", "score", "suggested", "neighbors"]].to_dict("list")
    columns["neighbors"] = [" ".join(map(str, rows)) for rows in columns["neighbors"]]
    return {f"suspect_{name}" if name in names else str(name): values for name, values in columns.items()}


def _cells(worst: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Rows of the printed table: a class as it is, a predicted number to four digits."""
    columns = worst[["rank", "row", "score", "label", "suggested", "neighbors"]].to_dict("list").values()
    return [
        (rank, row, float(f"{score:.3g}"), str(label), f"{other:.4g}" if isinstance(other, float) else str(other),
         ", ".join(map(str, neighbors)))
        for rank, row, score, label, other, neighbors in zip(*columns, strict=True)
    ]  # fmt: skip
