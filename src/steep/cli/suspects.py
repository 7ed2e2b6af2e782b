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
    Seed,
    TableFile,
    Target,
    Task,
    check_destination,
    check_page,
)
from steep.cli.printing import finish, shell_words, stage, table_of
from steep.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

    from steep.cli.samples import LabelledTable
    from steep.cli.tables import Text

# Up to here starting processes takes longer than the fits.
_FEW_ROWS = 5_000
# What is known about the number of wrong labels.
CAVEAT = "a rough estimate, which can be far off when errors follow a pattern or labels are hard to predict"
EXAMPLE = "steep suspects iris.csv --target kind -o suspects.csv"


_Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o",
        help="File for the table, the most suspect row first, with rank, score and suggested label as further columns.",
    ),
]  # fmt: skip
_Top = Annotated[int, typer.Option("-n", "--top", min=1, help="Rows to print.")]
_NNeighbors = Annotated[int, typer.Option("--n-neighbors", "-k", help="k, neighbours compared.")]
_Review = Annotated[
    Path | None,
    typer.Option(
        "--review", metavar="PAGE.html",
        help="Write a page on which you decide about each label by keys, and export your decisions.",
    ),
]  # fmt: skip
_Apply = Annotated[
    Path | None,
    typer.Option(
        "--apply", metavar="DECISIONS",
        help="Rank nothing: write the table to --output with the labels decided in this file of the page, CSV or JSON, "
        "and every other column as it is.",
    ),
]  # fmt: skip


def suspects_command(
    table: TableFile,
    target: Target,
    output: _Output = None,
    top: _Top = 10,
    n_neighbors: _NNeighbors = 20,
    drop: Drop = None,
    keep: Keep = None,
    groups: Groups = None,
    task: Task = "auto",
    decimal: Decimal = None,
    seed: Seed = 0,
    review: _Review = None,
    apply: _Apply = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Rank the labels of a table, those that look wrong first.

    Each label is compared with the labels of its nearest neighbours and with the prediction of a model that was fitted
    without it. Look at the rows from the top down, and stop when they are right. Rows count from 0, the first under the
    header. Rows without a label are left out; missing values count as the median or the most frequent value.
    """
    from steep import suspects
    from steep.cli.samples import read_samples
    from steep.cli.tables import write_table

    check_destination(output, FRAMES, inputs=[table], force=force)
    check_page(review, force=force, option="--review")
    if apply is not None and (output is None or review is not None):
        raise InputError(
            "--apply writes a corrected table and no page; expected --output and no --review; name the file with -o"
        )
    samples = read_samples(table, target, drop=drop or (), keep=keep or (), groups=groups, task=task, decimal=decimal)
    if apply is not None:
        _apply(samples, apply, output, as_json=as_json)
        return
    with stage(f"comparing {len(samples):,} labels with neighbours and a forest", len(samples)), shell_words():
        found = suspects(
            samples.X, samples.y, groups=samples.groups, task=samples.task, random_state=seed, n_neighbors=n_neighbors,
            n_jobs=-1 if len(samples) > _FEW_ROWS else 1,
        )  # fmt: skip
    ranked = found.table.sort_values("rank").rename_axis("row")
    if output is not None:
        write_table(output, samples.table, _own_columns(ranked, samples.table.names), ranked.index.to_numpy())
    if review is not None:
        with shell_words():
            found.page(review, target=target, title=f"Labels of {samples.table.path} to look at")
    worst = ranked.head(top)
    figures = samples.figures() | {
        "verdict": str(found.verdict), "wrong": found.n_wrong.mean,
        "wrong_interval": [found.n_wrong.low, found.n_wrong.high], "suspects": int((found.score > 0.5).sum()),
        "caveat": CAVEAT, "top": worst.reset_index().to_dict("records"), "output": output, "review": review,
    }  # fmt: skip
    lines: list[Any] = [
        *samples.lines(),
        table_of(["rank", "row", "score", "label", "suggested", "supporting neighbours"], _cells(worst)),
        _count(found),
        *([f"{output}: the table with its labels ranked, the most suspect row first"] if output is not None else []),
    ]
    finish(figures, lines, as_json=as_json, report=review)


def _apply(samples: LabelledTable, decisions: Path, output: Any, *, as_json: bool) -> None:
    import numpy as np

    from steep._files import write_whole
    from steep._suspects.decisions import corrected
    from steep._suspects.suspects import labels_as_given
    from steep.cli.tables import write_table
    from steep.labels import check_labels

    labels = labels_as_given(check_labels(samples.y, n_samples=len(samples), task=samples.task))
    new = corrected(labels, samples.X.index, decisions, is_number=samples.task == "regression")
    places = np.flatnonzero(new != labels).tolist()
    changed = {int(samples.rows[place]): new[place : place + 1].tolist()[0] for place in places}
    column = samples.table.names.index(str(samples.y.name))
    text = samples.table.text
    if text is not None and output.suffix.lower() in (".csv", ".txt"):
        write_whole(output, lambda temporary: _write_cells(temporary, text, column, changed))
    else:
        cells = samples.table.columns[column].copy()
        if changed:
            kind = np.result_type(cells.dtype, float) if samples.task == "regression" else cells.dtype
            cells = cells.astype(kind)
            cells.iloc[list(changed)] = list(changed.values())
        write_table(output, samples.table, {str(samples.y.name): cells})
    figures = {"output": output, "decisions": decisions, "changed": len(changed), "samples": len(samples)}
    finish(figures, [f"{output}: the table with {len(changed):,} of {len(samples):,} labels changed"], as_json=as_json)


def _write_cells(path: Path, text: Text, column: int, changed: dict[int, Any]) -> None:
    """Write the bytes of a CSV file as they are, but for some cells of one column."""
    mark, encoding = text.dialect.separator, text.dialect.encoding
    with path.open("wb") as file:
        file.write(text.dialect.bom)
        for row, record in enumerate(text.records(), start=-1):
            if row in changed:
                body = record.rstrip("\r\n")
                fields = [""]
                for part in body.split(mark):  # a separator within quotes belongs to its cell
                    if fields[-1].count('"') % 2:
                        fields[-1] += mark + part
                    else:
                        fields.append(part)
                fields[column + 1] = text.cell(changed[row])
                record = mark.join(fields[1:]) + record[len(body) :]
            file.write(record.encode(encoding))


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


def _shown(suggested: Any) -> str:
    """A class as it is, a predicted number to four digits."""
    return f"{suggested:.4g}" if isinstance(suggested, float) else str(suggested)


def _cells(worst: pd.DataFrame) -> list[tuple[Any, ...]]:
    columns = (worst["rank"], worst.index, worst["score"], worst["label"], worst["suggested"], worst["neighbors"])
    return [
        (rank, row, float(f"{score:.3g}"), str(label), _shown(suggested), ", ".join(map(str, neighbors)))
        for rank, row, score, label, suggested, neighbors in zip(*(column.tolist() for column in columns), strict=True)
    ]
