"""``steep weight``: weights for the samples of a table, by :func:`steep.sample_weights` or ``VarianceWeightedCV``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.options import (
    COLUMNS,
    TABLES,
    Decimal,
    Drop,
    Force,
    Groups,
    Json,
    Keep,
    Neighbors,
    Report,
    TableFile,
    Target,
    Task,
    check_destination,
    check_page,
    writer_of,
)
from steep.cli.printing import finish, note, one_line, shell_words, stage
from steep.exceptions import InputError, SteepError

if TYPE_CHECKING:
    from steep._validation import FloatArray
    from steep.cli.models import Model
    from steep.cli.samples import LabelledTable

EXAMPLE = "steep weight iris.csv --target kind -m 40 -o weighted.parquet"
_WEIGHTS = "sample_weight"
_UNTESTED = "Whether these weights help was not tested: without -m, held-out folds of a model decide."
# Scores of the class that is labelled 1; each has a mean over all classes, called …_macro.
_ONE_CLASS = ("f1", "jaccard", "precision", "recall")


_Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o",
        help="File for the table with its weights: .csv, .parquet, .feather, .arrow; or for the weights alone: "
        ".npy, .txt. Default TABLE-weighted with the table's own suffix.",
    ),
]  # fmt: skip
_Ratio = Annotated[
    float | None, typer.Option("--weight-ratio", "-m", help="m, largest over smallest weight, such as 2; no search.")
]
_Measure = Annotated[
    str | None, typer.Option("--measure", help="What the weights follow; default variance with -m, else several.")
]
_Scoring = Annotated[
    str | None, typer.Option("--scoring", help="Score that decides: any of scikit-learn's, worst_decile or max_error.")
]
_Model = Annotated[
    str,
    typer.Option(
        "--model",
        help="Model that decides, and that the weights are for: linear, svm, forest, boosting, or package.module:name "
        "of an estimator.",
    ),
]


def weight_command(
    table: TableFile,
    target: Target,
    output: _Output = None,
    weight_ratio: _Ratio = None,
    n_neighbors: Neighbors = None,
    measure: _Measure = None,
    scoring: _Scoring = None,
    model: _Model = "linear",
    drop: Drop = None,
    keep: Keep = None,
    groups: Groups = None,
    task: Task = "auto",
    decimal: Decimal = None,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Weight the samples of a table.

    Weights are chosen on held-out folds of a model, a linear one unless --model says otherwise, and equal weights are
    written when nothing beats them. The weights are for that model. With -m they are those of Algorithm 2 for that
    ratio. Separator, encoding, and whether the target holds classes or numbers are detected, and stated. Missing values
    count as the median or the most frequent value; rows without a label get no weight.
    """
    from steep.cli.samples import read_samples
    from steep.rescaling import effective_samples

    if weight_ratio is not None and (scoring is not None or model != "linear"):
        raise InputError("got --weight-ratio with --scoring or --model; nothing is tried with -m; leave one out")
    if target == _WEIGHTS:
        raise InputError(f"the target is called {target!r}, the name of the column of weights; rename it first")
    check_page(report, force=force)
    output = _destination(table, output, force=force)
    samples = read_samples(table, target, drop=drop or (), keep=keep or (), groups=groups, task=task, decimal=decimal)
    if _WEIGHTS in samples.table.names and not force and not _is_alone(output):
        raise InputError(
            f"{samples.table.path} has a column {_WEIGHTS!r} already; rename it, or pass --force to replace it"
        )
    if weight_ratio is None:
        found = _by_evidence(samples, model, scoring=scoring, n_neighbors=n_neighbors, measure=measure)
    else:
        found = _by_ratio(samples, weight_ratio, n_neighbors=n_neighbors, measure=measure)
    _write(output, samples, found.weights)
    if report is not None:
        writer_of("weighting_page")(
            report, X=samples.X, y=samples.shown, weights=found.weights, target=target,
            verdict=found.verdict or _UNTESTED, title=f"Weights of {samples.table.path}",
        )  # fmt: skip
    weights = found.weights
    effective = effective_samples(weights)
    figures = samples.figures() | found.figures | {
        "smallest_weight": weights.min(), "largest_weight": weights.max(), "effective_samples": effective,
        "output": output, "report": report,
    }  # fmt: skip
    lines = [
        *samples.lines(),
        str(found.verdict or _UNTESTED),
        f"{output}: {len(weights):,} samples weighted from {weights.min():.3g} to {weights.max():.3g}; "
        f"effective sample size {effective:,.0f}",
    ]
    finish(figures, lines, as_json=as_json, report=report)


# --------------------------------------------------------------------------------- where it goes


def _destination(table: Path, output: Path | None, *, force: bool) -> Path:
    if output is None:
        if not table.is_file():
            if str(table) != "-" and not table.exists() and not any(mark in table.name for mark in "*?["):
                raise InputError(f"{table} does not exist; check the path")
            raise InputError(f"{table} is not one file; expected a name for the result; pass -o weighted.csv")
        suffix = table.suffix.lower()
        stem = table.name.removesuffix(".gz").removesuffix(".zip")
        output = table.with_name(f"{Path(stem).stem}-weighted{suffix if suffix in TABLES else '.csv'}")
    check_destination(output, COLUMNS, inputs=[table], force=force)
    return output


def _is_alone(output: Path) -> bool:
    return output.suffix.lower() in (".npy", ".txt")


def _write(output: Path, samples: LabelledTable, weights: FloatArray) -> None:
    """Write a weight for every row of the table; rows without a label get none."""
    import numpy as np

    from steep.cli.tables import write_column, write_table

    column = np.full(samples.table.n_rows, np.nan)
    column[samples.rows] = weights
    if _is_alone(output):
        write_column(output, _WEIGHTS, column)
    else:
        write_table(output, samples.table, {_WEIGHTS: column})


# ------------------------------------------------------------------------------------- computing


@dataclass(frozen=True)
class WeightedRows:
    """Weights of the rows that have a label, what was done, and what the evidence says."""

    weights: FloatArray
    figures: dict[str, Any] = field(default_factory=dict)
    verdict: Any = None


def _by_ratio(samples: LabelledTable, weight_ratio: float, **options: Any) -> WeightedRows:
    """The weights of :func:`steep.sample_weights` for one m."""
    from steep import sample_weights

    how = {"weight_ratio": weight_ratio} | {name: value for name, value in options.items() if value is not None}
    with stage(f"comparing {len(samples):,} rows with their neighbours", len(samples)), shell_words():
        return WeightedRows(sample_weights(samples.X, samples.y, task=samples.task, n_jobs=-1, **how), how)


def _by_evidence(
    samples: LabelledTable, option: str, *, scoring: str | None, n_neighbors: int | None, measure: str | None
) -> WeightedRows:
    """Weights that held-out folds of a model choose; in a large table some rows decide for all."""
    import numpy as np

    from steep import VarianceWeightedCV
    from steep.cli.models import model_of

    model = model_of(option, is_classes=samples.task == "classification")
    with shell_words():
        X, embedding = model.inputs(samples.X)
    y, n_rows = samples.y.to_numpy(), min(model.rows, len(samples))
    search = VarianceWeightedCV(
        model.estimator, scoring=scoring, random_state=0, measure=measure, embedding=embedding,
        n_jobs=None if option == "linear" else -1, n_neighbors=None if n_neighbors is None else (n_neighbors,),
    )  # fmt: skip
    rows = np.sort(np.random.default_rng(0).choice(len(samples), n_rows, replace=False))
    if n_rows < len(samples):
        note(f"{n_rows:,} of {len(samples):,} rows, drawn at random, decide for all")
    taken = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
    with stage(f"trying weightings with {model.name} on {n_rows:,} rows", len(samples)), shell_words():
        _fit(search, taken, y[rows], None if samples.groups is None else samples.groups[rows], model)
    if n_rows == len(samples):
        weights = np.asarray(search.sample_weight_)
    else:
        with stage(f"weighting {len(samples):,} rows", len(samples)), shell_words():
            weights = _of_all_rows(search, X, y, n_rows, samples.groups)
    interval = search.gain_interval_
    figures = {
        "model": option, "decided_with": model.name, "chosen": search.best_params_, "gain": search.gain_,
        "gain_interval": [interval.low, interval.high], "verdict": str(search.verdict_), "deciding_rows": n_rows,
    }  # fmt: skip
    return WeightedRows(weights, figures, replace(search.verdict_, sentence=f"{search.verdict_} {model.sentence}"))


def _fit(search: Any, X: Any, y: Any, groups: Any, model: Model) -> None:
    """Let the folds decide; what a model or a score cannot do is said in one line."""
    try:
        search.fit(X, y, groups=groups)
    except SteepError:
        raise
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        if search.scoring is None:
            raise InputError(
                f"{model.name} cannot be fitted to this table ({one_line(error)}); check its columns, or choose "
                "another --model"
            ) from error
        instead = f"try --scoring {search.scoring}_macro" if search.scoring in _ONE_CLASS else "choose another score"
        raise InputError(
            f"--scoring {search.scoring} does not work with {model.name} and this target ({one_line(error)}); {instead}"
        ) from error


def _of_all_rows(search: Any, X: Any, y: Any, n_rows: int, groups: Any) -> FloatArray:
    """The weights of all rows, made as those of the rows that decided were; the model is fitted to that many rows."""
    import numpy as np
    from sklearn.utils.class_weight import compute_sample_weight

    from steep import VarianceWeighted, WeightSearch
    from steep.cli.models import OnSomeRows

    chosen = search.best_params_
    if "measure" in chosen:
        model = OnSomeRows(search.estimator, n_rows)
        weighted = VarianceWeighted(model, rescaling=WeightSearch().rescaling, embedding=search.embedding, **chosen)
        return np.asarray(weighted.fit(X, y, groups=groups).sample_weight_)
    if chosen.get("control") == "balanced class weights":
        return np.asarray(compute_sample_weight("balanced", y))
    return np.ones(len(y))
