"""``steep weight``: weights for the samples of a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steep.cli import table_options as told
from steep.cli import weigh_options as asked
from steep.cli.destinations import check_destination
from steep.cli.options import Debug, Force, Jobs, Json, Report
from steep.cli.pages import check_page, writer_of
from steep.cli.printing import finish
from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.cli.reading import Samples
    from steep.cli.tables import Table
    from steep.cli.weighing import Weighing

EXAMPLE = "steep weight iris.csv --target kind -m 40 -o weighted.parquet"
_WEIGHTS = "sample_weight"
_UNTESTED = "Whether these weights help was not tested: without -m, held-out folds of a model decide."


def weight_command(
    tables: told.Tables,
    target: told.Target,
    output: asked.Output = None,
    auto: asked.Auto = False,
    weight_ratio: asked.WeightRatio = None,
    n_neighbors: asked.Neighbors = None,
    measure: asked.Measure = None,
    scoring: asked.Scoring = None,
    model: asked.Model = "linear",
    rows: asked.Rows = None,
    drop: told.Drop = None,
    keep: told.Keep = None,
    groups: told.Groups = None,
    task: told.Task = "auto",
    encoding: told.Encoding = None,
    separator: told.Separator = None,
    decimal: told.Decimal = None,
    weight_column: asked.WeightColumn = _WEIGHTS,
    only: asked.Only = False,
    report: Report = None,
    jobs: Jobs = -1,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Weight the samples of a table.

    Weights are chosen on held-out folds of a model, a linear one unless --model says otherwise, and equal
    weights are written when nothing beats them. The weights are for that model. With -m they are those of
    Algorithm 2 for that ratio. Separator, encoding, and whether the target holds classes or numbers are
    detected, and stated. Missing values count as the median or the most frequent value; rows without a label
    get no weight.
    """
    from steep.cli.reading import read_samples

    if weight_ratio is not None and (auto or scoring is not None or model != "linear"):
        raise InputError(
            "got --weight-ratio with --auto, --scoring or --model; nothing is tried with -m; leave one out"
        )
    table = read_samples(
        tables, target, drop=drop, keep=keep, groups=groups, task=task, weights={_WEIGHTS, weight_column},
        encoding=encoding, separator=separator, decimal=decimal,
    )  # fmt: skip
    place = _place(table.table, output, weight_column, target, only=only, report=report, force=force)
    samples = table.read()
    how: dict[str, Any] = {"n_neighbors": n_neighbors, "measure": measure, "jobs": jobs}
    weighing = _weigh(samples, weight_ratio, model, how, scoring, rows)
    _write(table.table, place, samples, weighing)
    _write_page(place.report, table.table, samples, weighing)
    figures = table.figures(samples) | _figures(weighing)
    figures |= {"output": place.output, "report": report}
    lines = [*table.lines(samples), *_lines(weighing, place.output, report)]
    finish(figures, lines, as_json=as_json)


# ------------------------------------------------------------------------------------- computing


def _weigh(
    samples: Samples, weight_ratio: float | None, model: str, how: dict[str, Any], scoring: str | None, rows: int | None
) -> Weighing:
    """Weights by the ratio that was asked for, or by evidence."""
    from steep.cli.models import model_of
    from steep.cli.weighing import weigh_by_evidence, weigh_by_ratio

    if weight_ratio is None:
        deciding = model_of(model, samples.features, is_classes=samples.target.task == "classification")
        return weigh_by_evidence(samples, deciding, scoring=scoring, most_rows=rows, **how)
    return weigh_by_ratio(samples, weight_ratio=weight_ratio, **how)


# --------------------------------------------------------------------------------- where it goes


@dataclass(frozen=True)
class Place:
    """Where the result goes, checked before anything is computed.

    Attributes
    ----------
    output : Path
        File for the table or the weights.
    column : str
        Name of the column of weights.
    only : bool
        Whether the weights are written alone.
    report : Path or None
        File for the page.
    """

    output: Path
    column: str
    only: bool
    report: Path | None


def _place(
    table: Table, output: Path | None, column: str, target: str, *, only: bool, report: Path | None, force: bool
) -> Place:
    output = _destination(table, output, force=force)
    only = only or output.suffix.lower() in (".npy", ".txt")
    _check_weight_column(table, column, target, force=force or only)
    check_page(report, force=force)
    return Place(output, column, only, report)


def _destination(table: Table, output: Path | None, *, force: bool) -> Path:
    from steep.cli.tables.writing import TABLES, check_format

    if output is None and len(table.parts) > 1:
        raise InputError(
            f"{len(table.parts)} files are weighted as one table; expected a file for the result; pass -o "
            "weighted.parquet"
        )
    if output is None:
        first = table.paths[0]
        if not first.is_file():
            raise InputError(f"{first} is not a file; expected a file for the result; pass -o weighted.csv")
        stem = first.name
        for ending in (".gz", ".bz2", ".xz", ".zip"):
            stem = stem.removesuffix(ending)
        stem = Path(stem).stem
        suffix = first.suffix.lower() if first.suffix.lower() in TABLES else ".csv"
        output = first.with_name(f"{stem}-weighted{suffix}")
    check_format(output)
    return check_destination(output, inputs=table.paths, force=force)


def _check_weight_column(table: Table, name: str, target: str, *, force: bool) -> None:
    if name == target:
        raise InputError(
            f"the target is called {name!r}; expected another name for the weights; pass --weight-column NAME"
        )
    if name in table.names and not force:
        raise InputError(
            f"{table.title} has a column {name!r} already; pass another --weight-column NAME, or --force to replace it"
        )


# -------------------------------------------------------------------------------------- writing


def _write(table: Table, place: Place, samples: Samples, weighing: Weighing) -> None:
    """Write a weight for every row of the table; rows without a label get none."""
    import numpy as np

    from steep.cli.tables.writing import write_column, write_with_column

    weights = np.full(table.n_rows, np.nan)
    weights[samples.rows] = weighing.weights
    if place.only:
        write_column(place.output, place.column, weights)
    else:
        write_with_column(place.output, table, place.column, weights)


def _write_page(report: Path | None, table: Table, samples: Samples, weighing: Weighing) -> None:
    if report is None:
        return
    writer_of("weighting_page")(
        report, X=samples.X, y=samples.target.shown, weights=weighing.weights, target=samples.target.name,
        verdict=weighing.verdict or _UNTESTED, title=f"Weights of {table.title}",
    )  # fmt: skip


def _figures(weighing: Weighing) -> dict[str, Any]:
    weights = weighing.weights
    return {
        "smallest_weight": float(weights.min()), "largest_weight": float(weights.max()),
        "effective_samples": weighing.effective, **weighing.figures,
    }  # fmt: skip


def _lines(weighing: Weighing, output: Path, report: Path | None) -> list[str]:
    """What people read: what it means, and where it is."""
    weights = weighing.weights
    return [
        str(weighing.verdict or _UNTESTED),
        f"{output}: {len(weights):,} samples weighted from {weights.min():.3g} to {weights.max():.3g}, worth "
        f"{weighing.effective:,.0f} equal ones",
        *([f"{report}: a page to look at"] if report is not None else []),
    ]
