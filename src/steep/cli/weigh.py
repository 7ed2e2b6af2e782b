"""``steep weigh``: weights for the samples of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.destinations import check_destination
from steep.cli.options import Debug, Force, Json, Report
from steep.cli.pages import check_page, writer_of
from steep.cli.printing import finish, listed, note
from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.cli.tables import Table
    from steep.cli.tables.features import Features
    from steep.cli.tables.roles import Roles
    from steep.cli.tables.target import Target
    from steep.cli.weighing import Weighing

EXAMPLE = "steep weigh iris.csv --target kind -m 40 -o weighted.parquet"
_WEIGHTS = "sample_weight"


def weigh_command(
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE...", show_default=False,
            help="CSV, Parquet, Arrow, NPZ or ARFF, one sample a row; several files or a glob are one table.",
        ),
    ],
    target: Annotated[str, typer.Option("--target", help="Column that holds the labels.", show_default=False)],
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
    rows: Annotated[
        int, typer.Option("--rows", min=100, help="Rows that decide: of a larger table, so many drawn at random.")
    ] = 20_000,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Column to leave out; may be repeated.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COLUMN", help="Column to use though it counts the rows or holds weights."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", metavar="COLUMN", help="Rows of one group share a fold; the column is no feature."),
    ] = None,
    impute: Annotated[
        str | None,
        typer.Option("--impute", help="Fill missing numbers by their median or mean, categories by the commonest."),
    ] = None,
    task: Annotated[
        str, typer.Option("--task", help="How to read the target: auto, classification or regression.")
    ] = "auto",
    encoding: Annotated[str | None, typer.Option("--encoding", help="Encoding of the text; default detected.")] = None,
    separator: Annotated[str | None, typer.Option("--separator", help="Separator of CSV; default detected.")] = None,
    decimal: Annotated[str | None, typer.Option("--decimal", help="Decimal mark of CSV; default detected.")] = None,
    weight_column: Annotated[str, typer.Option("--weight-column", help="Name of the column of weights.")] = _WEIGHTS,
    only: Annotated[bool, typer.Option("--only", help="Write the column of weights alone.")] = False,
    report: Report = None,
    jobs: Annotated[int, typer.Option("--jobs", help="Processors to use; -1 is all.")] = -1,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Weigh the samples of a table.

    Weights are chosen on held-out folds of a linear model, and equal weights are written when nothing beats
    them. With -m they are those of Algorithm 2 for that ratio. Separator, encoding, and whether the target
    holds classes or numbers are told from the table, and stated.
    """
    from steep.cli.tables import open_table
    from steep.cli.tables.features import IMPUTE, read_features
    from steep.cli.tables.roles import assign_roles
    from steep.cli.tables.target import read_target
    from steep.cli.weighing import weigh_by_evidence, weigh_by_ratio

    if weight_ratio is not None and (auto or scoring is not None):
        raise InputError("got --weight-ratio with --auto or --scoring; need one or the other; leave one out")
    if impute not in (None, *IMPUTE):
        raise InputError(f"--impute {impute!r} is unknown; need one of {', '.join(IMPUTE)}; choose one")
    table = open_table(tables, encoding=encoding, separator=separator, decimal=decimal)
    roles = assign_roles(
        table,
        target=target,
        drop=drop or (),
        keep=keep or (),
        groups=groups,
        weights={_WEIGHTS, weight_column},
    )
    output = _destination(table, output, force=force)
    only = only or output.suffix.lower() in (".npy", ".txt")
    _check_weight_column(table, weight_column, target, force=force or only)
    check_page(report, force=force)
    labels = read_target(table, target, task)
    features = read_features(table, roles.features, keep=keep or (), impute=impute)
    _say_what_was_found(roles, features, labels)
    if weight_ratio is None:
        together = None if groups is None else table.frame([groups])[groups].to_numpy()
        weighing = weigh_by_evidence(
            table, features, labels, groups=together, scoring=scoring, n_neighbors=n_neighbors, measure=measure,
            impute=impute, most_rows=rows, jobs=jobs,
        )  # fmt: skip
    else:
        weighing = weigh_by_ratio(
            features, labels, n_neighbors=20 if n_neighbors is None else n_neighbors, weight_ratio=weight_ratio,
            measure=measure or "variance", jobs=jobs,
        )  # fmt: skip
    _write(table, output, weight_column, weighing, only=only)
    if report is not None:
        _write_page(report, table, features, labels, weighing)
    figures = _figures(table, roles, features, labels, weighing) | {"output": output, "report": report}
    finish(figures, _lines(table, features, labels, weighing, output, report), as_json=as_json)


def _destination(table: Table, output: Path | None, *, force: bool) -> Path:
    from steep.cli.tables.writing import TABLES, check_format

    if output is None and len(table.parts) > 1:
        raise InputError(
            f"{len(table.parts)} files are weighed as one; need a file for the result; pass -o weighted.parquet"
        )
    if output is None:
        first = table.paths[0]
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


def _say_what_was_found(roles: Roles, features: Features, labels: Target) -> None:
    """Notes on what a user may want to decide otherwise."""
    if roles.old_weights:
        note(f"{listed(roles.old_weights)} holds weights and is not used as a feature; --keep NAME uses it")
    if features.counters:
        note(f"{listed(features.counters)} counts the rows and is not used as a feature; --keep NAME uses it")
    if features.ids:
        flags = " ".join(
            f"--drop {name}" if name.isidentifier() else f"--drop {name!r}" for name in features.ids
        )
        note(
            f"{listed(features.ids)} looks like an id, which says nothing about new samples; leave it out with {flags}"
        )
    if labels.hint is not None:
        note(labels.hint)


def _write(table: Table, output: Path, name: str, weighing: Weighing, *, only: bool) -> None:
    from steep.cli.tables.writing import write_column, write_with_column

    if only:
        write_column(output, name, weighing.weights)
    else:
        write_with_column(output, table, name, weighing.weights)


def _write_page(report: Path, table: Table, features: Features, labels: Target, weighing: Weighing) -> None:
    writer_of("weighting_page")(
        report, X=features.points, y=labels.values, weights=weighing.weights, variation=weighing.variation,
        neighbors=weighing.neighbors, table=table.frame(features.names), target=labels.name, verdict=weighing.verdict,
        title=f"Weights of {table.title}",
    )  # fmt: skip


def _figures(
    table: Table, roles: Roles, features: Features, labels: Target, weighing: Weighing
) -> dict[str, Any]:
    weights = weighing.weights
    return {
        "tables": table.paths, "format": table.about, "samples": table.n_rows, "target": labels.name,
        "task": labels.task, "classes": labels.classes or None, "features": features.names,
        "categories": features.of_kind("categories"), "dates": features.of_kind("dates"),
        "missing": features.missing, "id_like": features.ids,
        "left_out": [*roles.dropped, *roles.old_weights, *features.counters],
        "smallest_weight": float(weights.min()), "largest_weight": float(weights.max()),
        "effective_samples": weighing.effective, **weighing.figures,
    }  # fmt: skip


def _lines(
    table: Table, features: Features, labels: Target, weighing: Weighing, output: Path, report: Path | None
) -> list[str]:
    """What people read: what was read, what it means, where it is."""
    kinds = {kind: features.of_kind(kind) for kind in ("numbers", "categories", "dates")}
    told = [f"{len(kinds['numbers'])} of numbers"] if kinds["numbers"] else []
    told += [
        f"{len(names)} of {kind} ({listed(names)})"
        for kind, names in kinds.items()
        if names and kind != "numbers"
    ]
    filled = f"; {sum(features.missing.values()):,} missing values filled" if features.missing else ""
    weights, verdict = weighing.weights, weighing.figures.get("verdict")
    return [
        f"{table.title}: {table.n_rows:,} rows, {table.about}",
        f"target {labels}",
        f"features: {len(features.columns)} columns, {', '.join(told)}{filled}",
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
