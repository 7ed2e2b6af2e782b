"""``steep weigh``: weights for the samples of a table."""

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
    from steep.cli.tables import Table
    from steep.cli.weighing import Weighing

EXAMPLE = "steep weigh iris.csv --target kind -m 40 -o weighted.parquet"
_WEIGHTS = "sample_weight"
_K = 20  # neighbours compared where the caller does not say


def weigh_command(
    tables: told.Tables,
    target: told.Target,
    output: asked.Output = None,
    auto: asked.Auto = False,
    weight_ratio: asked.WeightRatio = None,
    n_neighbors: asked.Neighbors = None,
    measure: asked.Measure = None,
    scoring: asked.Scoring = None,
    recall: asked.Recall = None,
    rows: asked.Rows = 20_000,
    drop: told.Drop = None,
    keep: told.Keep = None,
    groups: told.Groups = None,
    impute: told.Impute = None,
    task: told.Task = "auto",
    encoding: told.Encoding = None,
    separator: told.Separator = None,
    decimal: told.Decimal = None,
    weight_column: asked.WeightColumn = _WEIGHTS,
    only: asked.Only = False,
    workers: asked.Workers = None,
    scheduler: asked.Scheduler = None,
    checkpoint: asked.Checkpoint = None,
    report: Report = None,
    jobs: Jobs = -1,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Weigh the samples of a table.

    Weights are chosen on held-out folds of a linear model, and equal weights are written when nothing beats
    them. With -m they are those of Algorithm 2 for that ratio. Separator, encoding, and whether the target
    holds classes or numbers are told from the table, and stated.
    """
    from steep.cli.reading import read_samples

    if weight_ratio is not None and (auto or scoring is not None):
        raise InputError("got --weight-ratio with --auto or --scoring; need one or the other; leave one out")
    how: dict[str, Any] = {"n_neighbors": n_neighbors, "weight_ratio": weight_ratio}
    how |= {"measure": measure, "recall": recall}
    if workers is not None or scheduler is not None:
        others = {"--groups": groups, "--impute": impute, "--report": report, "--keep": keep}
        refused = [f"--{name}" for name in ("measure", "recall") if how[name] is not None]
        refused += [name for name, value in others.items() if value is not None]
        cluster = {"scheduler": scheduler, "workers": workers}
        table = {"drop": drop or [], "task": task, "checkpoint": checkpoint}
        _weigh_large(tables, target, output, cluster, table, how, refused, force=force, as_json=as_json)
        return
    if checkpoint is not None:
        raise InputError("got --checkpoint without --workers or --scheduler; need one of them; leave it out")
    samples = read_samples(
        tables, target, drop=drop, keep=keep, groups=groups, impute=impute, task=task,
        weights={_WEIGHTS, weight_column}, encoding=encoding, separator=separator, decimal=decimal,
    )  # fmt: skip
    place = _place(samples.table, output, weight_column, target, only=only, report=report, force=force)
    features, labels = samples.read()
    how |= {"scoring": scoring, "impute": impute, "most_rows": rows, "jobs": jobs}
    weighing = _weigh(samples, features, labels, **how)
    _write(samples.table, place, weighing)
    _write_page(place.report, samples.table, features, labels, target, weighing)
    figures = samples.figures(features, labels) | _figures(weighing)
    figures |= {"output": place.output, "report": report}
    lines = [*samples.lines(features, labels), *_lines(weighing, place.output, report)]
    finish(figures, lines, as_json=as_json)


# ------------------------------------------------------------------------------------- computing


def _weigh(
    samples: Any,
    features: Any,
    labels: Any,
    *,
    n_neighbors: int | None,
    weight_ratio: float | None,
    measure: str | None,
    recall: float | None,
    scoring: str | None,
    impute: str | None,
    most_rows: int,
    jobs: int,
) -> Weighing:
    """Weights by the ratio that was asked for, or by evidence."""
    from steep.cli.weighing import weigh_by_evidence, weigh_by_ratio

    if weight_ratio is None:
        return weigh_by_evidence(
            samples.table, features, labels, groups=samples.groups(), scoring=scoring, n_neighbors=n_neighbors,
            measure=measure, impute=impute, most_rows=most_rows, jobs=jobs,
        )  # fmt: skip
    return weigh_by_ratio(
        features, labels, n_neighbors=_K if n_neighbors is None else n_neighbors, weight_ratio=weight_ratio,
        measure=measure or "variance", recall=recall, jobs=jobs,
    )  # fmt: skip


def _weigh_large(
    tables: list[Path],
    target: str,
    output: Path | None,
    cluster: dict[str, Any],
    table: dict[str, Any],
    how: dict[str, Any],
    refused: list[str],
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Weigh Parquet on a Dask cluster; the weights alone are written."""
    from steep.cli.on_dask import check_request, cluster_of, weigh_on_dask, write_weights
    from steep.cli.weighing import Weighing

    ratio = how["weight_ratio"]
    size = _K if how["n_neighbors"] is None else how["n_neighbors"]
    output = check_request(tables, output, weight_ratio=ratio, refused=refused, force=force)
    with cluster_of(**cluster) as client:
        weights = weigh_on_dask(client, tables, target, weight_ratio=ratio, n_neighbors=size, **table)
    write_weights(output, weights)
    weighing = Weighing(weights, {"n_neighbors": size, "weight_ratio": ratio})
    figures = {"samples": len(weights)} | _figures(weighing) | {"output": output}
    finish(figures, _lines(weighing, output, None), as_json=as_json)


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
    table: Table,
    output: Path | None,
    column: str,
    target: str,
    *,
    only: bool,
    report: Path | None,
    force: bool,
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
            f"{len(table.parts)} files are weighed as one; need a file for the result; pass -o weighted.parquet"
        )
    if output is None:
        first = table.paths[0]
        if not first.is_file():
            raise InputError(f"{first} is no file; need one for the result; pass -o weighted.csv")
        stem = first.name
        for ending in (".gz", ".bz2", ".xz"):
            stem = stem.removesuffix(ending)
        stem = Path(stem).stem
        suffix = first.suffix.lower() if first.suffix.lower() in TABLES else ".csv"
        output = first.with_name(f"{stem}-weighted{suffix}")
    check_format(output)
    return check_destination(output, inputs=table.paths, force=force)


def _check_weight_column(table: Table, name: str, target: str, *, force: bool) -> None:
    if name == target:
        raise InputError(
            f"the target is called {name!r}; need another name for the weights; pass --weight-column NAME"
        )
    if name in table.names and not force:
        raise InputError(
            f"{table.title} has a column {name!r} already; need another name; pass --weight-column NAME, or --force to "
            "replace it"
        )


# -------------------------------------------------------------------------------------- writing


def _write(table: Table, place: Place, weighing: Weighing) -> None:
    from steep.cli.tables.writing import write_column, write_with_column

    if place.only:
        write_column(place.output, place.column, weighing.weights)
    else:
        write_with_column(place.output, table, place.column, weighing.weights)


def _write_page(
    report: Path | None, table: Table, features: Any, labels: Any, target: str, weighing: Weighing
) -> None:
    if report is None:
        return
    writer_of("weighting_page")(
        report, X=features.points, y=labels.values, weights=weighing.weights, variation=weighing.variation,
        neighbors=weighing.neighbors, table=table.frame(features.names), target=target, verdict=weighing.verdict,
        title=f"Weights of {table.title}",
    )  # fmt: skip


def _figures(weighing: Weighing) -> dict[str, Any]:
    weights = weighing.weights
    return {
        "smallest_weight": float(weights.min()), "largest_weight": float(weights.max()),
        "effective_samples": weighing.effective, **weighing.figures,
    }  # fmt: skip


def _lines(weighing: Weighing, output: Path, report: Path | None) -> list[str]:
    """What people read: what it means, and where it is."""
    weights, verdict = weighing.weights, weighing.figures.get("verdict")
    return [
        *([verdict] if verdict else []),
        f"{output}: {len(weights):,} samples weighted from {weights.min():.3g} to {weights.max():.3g}, worth "
        f"{weighing.effective:,.0f} equal ones",
        *(
            []
            if verdict
            else ["whether weights help is another question: without -m, held-out folds answer it"]
        ),
        *([f"{report}: a page to look at"] if report is not None else []),
    ]
