"""``steep weigh``: weights for the samples of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli import table_options as told
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


def weigh_command(
    tables: told.Tables,
    target: told.Target,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o",
            help="File for the table with its weights: .csv, .parquet, .feather, .arrow, .npz; or for the weights "
            "alone: .npy, .txt. Default TABLE-weighted and the table's own suffix.",
        ),
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Let held-out folds choose, equal weights included (default without -m).")
    ] = False,
    weight_ratio: Annotated[
        float | None,
        typer.Option("--weight-ratio", "-m", help="m, heaviest over lightest weight, such as 40; nothing is tried."),
    ] = None,
    n_neighbors: Annotated[
        int | None,
        typer.Option("--n-neighbors", "-k", help="k, neighbours compared; default 20 with -m, else several are tried."),
    ] = None,
    measure: Annotated[
        str | None, typer.Option("--measure", help="What the weights follow; default variance with -m, else several.")
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option("--scoring", help="Score that decides: any of scikit-learn's, worst_decile or max_error."),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option("--recall", help="With -m, share of the true neighbours to find; default 0.99, of many 0.95."),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", min=100, help="Rows that decide: of a larger table, so many drawn at random.")
    ] = 20_000,
    drop: told.Drop = None,
    keep: told.Keep = None,
    groups: told.Groups = None,
    impute: told.Impute = None,
    task: told.Task = "auto",
    encoding: told.Encoding = None,
    separator: told.Separator = None,
    decimal: told.Decimal = None,
    weight_column: Annotated[str, typer.Option("--weight-column", help="Name of the column of weights.")] = _WEIGHTS,
    only: Annotated[bool, typer.Option("--only", help="Write the column of weights alone.")] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="With -m, Parquet of any size: weigh it with so many Dask workers here."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="The same on the cluster of a Dask scheduler, tcp://…"),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FOLDER", help="With Dask, keep finished stages, so that a killed run "
                     "continues."),
    ] = None,
    report: Report = None,
    jobs: Jobs = -1,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Weigh the samples of a table.

    Weights are chosen on held-out folds of a linear model, and equal weights are written when nothing beats
    them. With -m they are those of Algorithm 2 for that ratio. Separator, encoding, and whether the target
    holds classes or numbers are told from the table, and stated.
    """
    from steep.cli.reading import read_samples
    from steep.cli.weighing import weigh_by_evidence, weigh_by_ratio

    if weight_ratio is not None and (auto or scoring is not None):
        raise InputError("got --weight-ratio with --auto or --scoring; need one or the other; leave one out")
    if workers is not None or scheduler is not None:
        _weigh_large(
            tables, target, output, scheduler=scheduler, workers=workers, checkpoint=checkpoint, drop=drop or [],
            weight_ratio=weight_ratio, n_neighbors=n_neighbors, task=task, force=force, as_json=as_json,
            refused=[
                name for name, value in (
                    ("--measure", measure), ("--recall", recall), ("--groups", groups), ("--impute", impute),
                    ("--report", report), ("--keep", keep),
                ) if value is not None
            ],
        )  # fmt: skip
        return
    if checkpoint is not None:
        raise InputError("got --checkpoint without --workers or --scheduler; need one of them; leave it out")
    samples = read_samples(
        tables, target, drop=drop, keep=keep, groups=groups, impute=impute, task=task,
        weights={_WEIGHTS, weight_column}, encoding=encoding, separator=separator, decimal=decimal,
    )  # fmt: skip
    table = samples.table
    output = _destination(table, output, force=force)
    only = only or output.suffix.lower() in (".npy", ".txt")
    _check_weight_column(table, weight_column, target, force=force or only)
    check_page(report, force=force)
    features, labels = samples.read()
    if weight_ratio is None:
        weighing = weigh_by_evidence(
            table, features, labels, groups=samples.groups(), scoring=scoring, n_neighbors=n_neighbors, measure=measure,
            impute=impute, most_rows=rows, jobs=jobs,
        )  # fmt: skip
    else:
        weighing = weigh_by_ratio(
            features, labels, n_neighbors=20 if n_neighbors is None else n_neighbors, weight_ratio=weight_ratio,
            measure=measure or "variance", recall=recall, jobs=jobs,
        )  # fmt: skip
    _write(table, output, weight_column, weighing, only=only)
    if report is not None:
        writer_of("weighting_page")(
            report, X=features.points, y=labels.values, weights=weighing.weights, variation=weighing.variation,
            neighbors=weighing.neighbors, table=table.frame(features.names), target=target, verdict=weighing.verdict,
            title=f"Weights of {table.title}",
        )  # fmt: skip
    figures = samples.figures(features, labels) | _figures(weighing) | {"output": output, "report": report}
    finish(figures, [*samples.lines(features, labels), *_lines(weighing, output, report)], as_json=as_json)


def _weigh_large(
    tables: list[Path],
    target: str,
    output: Path | None,
    *,
    scheduler: str | None,
    workers: int | None,
    checkpoint: Path | None,
    drop: list[str],
    weight_ratio: float | None,
    n_neighbors: int | None,
    task: Any,
    force: bool,
    as_json: bool,
    refused: list[str],
) -> None:
    """Weigh Parquet on a Dask cluster; the weights alone are written."""
    from steep.cli.on_dask import check_request, cluster_of, weigh_on_dask, write_weights
    from steep.cli.weighing import Weighing

    output = check_request(tables, output, weight_ratio=weight_ratio, refused=refused, force=force)
    with cluster_of(scheduler, workers) as client:
        weights = weigh_on_dask(
            client, tables, target, drop=drop, checkpoint=checkpoint, weight_ratio=weight_ratio,
            n_neighbors=20 if n_neighbors is None else n_neighbors, task=task,
        )  # fmt: skip
    write_weights(output, weights)
    weighing = Weighing(weights, {"n_neighbors": n_neighbors or 20, "weight_ratio": weight_ratio})
    figures = {"samples": len(weights)} | _figures(weighing) | {"output": output}
    finish(figures, _lines(weighing, output, None), as_json=as_json)


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


def _write(table: Table, output: Path, name: str, weighing: Weighing, *, only: bool) -> None:
    from steep.cli.tables.writing import write_column, write_with_column

    if only:
        write_column(output, name, weighing.weights)
    else:
        write_with_column(output, table, name, weighing.weights)


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
