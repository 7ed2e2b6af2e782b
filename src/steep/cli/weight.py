"""``steep weight``: weights for the samples of a table, by :func:`steep.sample_weights` or ``VarianceWeightedCV``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli import options
from steep.cli.printing import finish, note, one_line, stage
from steep.exceptions import InputError, SteepError

if TYPE_CHECKING:
    from steep._validation import FloatArray
    from steep.cli.samples import LabelledTable

EXAMPLE = "steep weight iris.csv --target kind -m 40 -o weighted.parquet"
_WEIGHTS = "sample_weight"
_UNTESTED = "Whether these weights help was not tested: without -m, held-out folds of a model decide."
# Suffixes of files that hold the weights alone.
_ALONE = (".npy", ".txt")

_FILE = (
    "File for the table with its weights: .csv, .parquet, .feather, .arrow; or for the weights alone: .npy, .txt. "
    "Default TABLE-weighted with the table's own suffix."
)
_RATIO = "m, largest over smallest weight, such as 2; no search."
_FOLLOWED = "What the weights follow; default variance with -m, else several."
_SCORE = "Score that decides: any of scikit-learn's, worst_decile or max_error."
_MODEL = (
    "Model that decides, and that the weights are for: linear, svm, forest, boosting, or package.module:name of an "
    "estimator."
)


def weight_command(
    table: options.TableFile,
    target: options.Target,
    output: Annotated[Path | None, typer.Option("--output", "-o", help=_FILE)] = None,
    weight_ratio: Annotated[float | None, typer.Option("--weight-ratio", "-m", help=_RATIO)] = None,
    n_neighbors: Annotated[int | None, typer.Option("--n-neighbors", "-k", help="k, neighbours compared.")] = None,
    measure: Annotated[str | None, typer.Option("--measure", help=_FOLLOWED)] = None,
    scoring: Annotated[str | None, typer.Option("--scoring", help=_SCORE)] = None,
    model: Annotated[str, typer.Option("--model", help=_MODEL)] = "linear",
    drop: options.Drop = None,
    keep: options.Keep = None,
    groups: options.Groups = None,
    task: options.Task = "auto",
    decimal: options.Decimal = None,
    report: options.Report = None,
    force: options.Force = False,
    as_json: options.Json = False,
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
    options.check_page(report, force=force)
    output = _default_output(table) if output is None else output
    options.check_destination(output, options.COLUMNS, inputs=[table], force=force)
    samples = read_samples(table, target, drop=drop, keep=keep, groups=groups, task=task, decimal=decimal)
    if _WEIGHTS in samples.table.names and not force and output.suffix.lower() not in _ALONE:
        raise InputError(f"{table} has a column {_WEIGHTS!r} already; rename it, or pass --force to replace it")
    if weight_ratio is None:
        how = {"scoring": scoring, "n_neighbors": n_neighbors, "measure": measure}
        weights, verdict, done = _by_evidence(samples, model, **how)
    else:
        weights, verdict, done = _by_ratio(samples, weight_ratio, n_neighbors=n_neighbors, measure=measure)
    _write(output, samples, weights)
    if report is not None:
        from steep.report import weighting_page

        weighting_page(
            report, X=samples.X, y=samples.y.astype(str if samples.task == "classification" else float),
            weights=weights, target=target, verdict=verdict, title=f"Weights of {table}",
        )  # fmt: skip
    effective = effective_samples(weights)
    figures = samples.figures() | done | {
        "smallest_weight": weights.min(), "largest_weight": weights.max(), "effective_samples": effective,
        "output": output, "report": report,
    }  # fmt: skip
    lines = [
        *samples.lines(),
        str(verdict),
        f"{output}: {len(weights):,} samples weighted from {weights.min():.3g} to {weights.max():.3g}; "
        f"effective sample size {effective:,.0f}",
    ]
    finish(figures, lines, as_json=as_json, report=report)


def _default_output(table: Path) -> Path:
    if not table.is_file():
        if str(table) != "-" and not table.exists():
            raise InputError(f"{table} does not exist; check the path")
        raise InputError(f"{table} is not a file; expected a name for the result; pass -o weighted.csv")
    suffix = table.suffix.lower()
    stem = Path(table.name.removesuffix(".gz").removesuffix(".zip")).stem
    return table.with_name(f"{stem}-weighted{suffix if suffix in options.TABLES else '.csv'}")


def _write(output: Path, samples: LabelledTable, weights: FloatArray) -> None:
    """Write a weight for every row of the table; rows without a label get none."""
    import numpy as np
    import pandas as pd

    from steep._files import write_whole
    from steep.cli.tables import write_frame, write_table

    column = np.full(samples.table.n_rows, np.nan)
    column[samples.rows] = weights
    if output.suffix.lower() == ".npy":
        write_whole(output, lambda temporary: np.save(temporary, column))
    elif output.suffix.lower() == ".txt":
        write_frame(output, pd.DataFrame({_WEIGHTS: column}))
    else:
        write_table(output, samples.table, {_WEIGHTS: column})


def _by_ratio(samples: LabelledTable, weight_ratio: float, **given: Any) -> tuple[FloatArray, Any, dict[str, Any]]:
    """The weights of :func:`steep.sample_weights` for one m, a verdict, and what was done."""
    from steep import sample_weights

    how = {"weight_ratio": weight_ratio} | {name: value for name, value in given.items() if value is not None}
    stage(f"comparing {len(samples):,} rows with their neighbours", len(samples))
    return sample_weights(samples.X, samples.y, task=samples.task, n_jobs=-1, **how), _UNTESTED, how


def _by_evidence(
    samples: LabelledTable, option: str, *, scoring: Any, n_neighbors: Any, measure: Any
) -> tuple[FloatArray, Any, dict[str, Any]]:
    """Weights that held-out folds of a model choose; in a large table some rows decide for all."""
    import numpy as np

    from steep import VarianceWeightedCV
    from steep._sklearn import take_rows
    from steep.cli.models import model_of
    from steep.weighting.embedding import embed

    model = model_of(option, is_classes=samples.task == "classification")
    is_pipeline = hasattr(model.estimator, "steps")  # which takes columns, where others take the library's points
    X, y = samples.X if is_pipeline else embed(samples.X), samples.y.to_numpy()
    search = VarianceWeightedCV(
        model.estimator, scoring=scoring, random_state=0, measure=measure, embedding="auto" if is_pipeline else None,
        n_jobs=None if option == "linear" else -1, n_neighbors=None if n_neighbors is None else (n_neighbors,),
    )  # fmt: skip
    n_rows = min(model.rows, len(samples))
    rows = np.sort(np.random.default_rng(0).choice(len(samples), n_rows, replace=False))
    if n_rows < len(samples):
        note(f"{n_rows:,} of {len(samples):,} rows, drawn at random, decide for all")
    stage(f"trying weightings with {model.name} on {n_rows:,} rows", len(samples))
    try:
        search.fit(take_rows(X, rows), y[rows], groups=None if samples.groups is None else samples.groups[rows])
    except SteepError:
        raise
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise _not_fitted(model.name, scoring, error) from error
    weights = np.asarray(search.sample_weight_)
    if n_rows < len(samples):
        stage(f"weighting {len(samples):,} rows", len(samples))
        weights = _of_all_rows(search, X, y, n_rows / len(samples), samples.groups)
    interval = search.gain_interval_
    figures = {
        "model": option, "decided_with": model.name, "chosen": search.best_params_, "gain": search.gain_,
        "gain_interval": [interval.low, interval.high], "verdict": str(search.verdict_), "deciding_rows": n_rows,
    }  # fmt: skip
    sentence = (
        f"{search.verdict_} Decided with {model.name} (--model {option}). Another model may need other weights: "
        "choose yours with --model."
    )
    return weights, replace(search.verdict_, sentence=sentence), figures


def _not_fitted(name: str, scoring: str | None, error: Exception) -> InputError:
    """What a model or a score cannot do, in one line."""
    if scoring is None:
        return InputError(
            f"{name} cannot be fitted to this table ({one_line(error)}); check its columns, or choose another --model"
        )
    return InputError(
        f"--scoring {scoring} does not work with {name} and this target ({one_line(error)}); choose another score, "
        "such as f1_macro for f1"
    )


def _of_all_rows(search: Any, X: Any, y: Any, share: float, groups: Any) -> FloatArray:
    """The weights of all rows, made as those of the share that decided were."""
    import numpy as np
    from sklearn.utils.class_weight import compute_sample_weight

    from steep import VarianceWeighted, WeightSearch
    from steep.cli.models import on_some_rows

    chosen = search.best_params_
    if "measure" in chosen:
        # A pipeline needs its columns, which bagging would take from it.
        model = search.estimator if search.embedding == "auto" else on_some_rows(search.estimator, share)
        weighted = VarianceWeighted(model, rescaling=WeightSearch().rescaling, embedding=search.embedding, **chosen)
        return np.asarray(weighted.fit(X, y, groups=groups).sample_weight_)
    if chosen.get("control") == "balanced class weights":
        return np.asarray(compute_sample_weight("balanced", y))
    return np.ones(len(y))
