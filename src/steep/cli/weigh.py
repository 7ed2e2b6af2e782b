"""``steep weigh``: weights for the samples of a CSV table, beside its text as it was."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from pandas.api.types import is_numeric_dtype

from steep._files import write_whole
from steep._validation import FloatArray, check_choice
from steep.cli.table import TextTable, write_lines
from steep.exceptions import InputError
from steep.labels import TASKS, Labels, check_labels
from steep.weighting import VarianceWeightedCV, sample_weights

# Above this the choice by evidence takes minutes rather than seconds.
_MANY_ROWS = 50_000
_BINARY = {".gz", ".bz2", ".xz", ".zip", ".zst", ".parquet", ".feather", ".xlsx"}


def weigh_command(
    table: Annotated[Path, typer.Argument(help="CSV file with a header and one sample per row.", show_default=False)],
    target: Annotated[str, typer.Option("--target", help="Column that holds the labels.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o",
            help="File to write: .csv for the table with its weights, .npy or any other for the weights alone; "
            "default TABLE-weighted.csv.",
        ),
    ] = None,
    weight_ratio: Annotated[
        float | None,
        typer.Option("--weight-ratio", "-m", help="m, heaviest over lightest; default: chosen by evidence."),
    ] = None,
    n_neighbors: Annotated[
        int | None,
        typer.Option("--n-neighbors", "-k", help="k, neighbours compared; default 20 with -m, else several."),
    ] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Choose by evidence (the default without -m).")] = False,
    scoring: Annotated[
        str | None, typer.Option("--scoring", help="Score that decides: any of scikit-learn's, or worst_decile.")
    ] = None,
    task: Annotated[
        str, typer.Option("--task", help="How to read the target: auto, classification or regression.")
    ] = "auto",
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Column to leave out; may be repeated.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COLUMN", help="Column to use though it counts the rows or holds weights."),
    ] = None,
    weight_column: Annotated[
        str, typer.Option("--weight-column", help="Name of the column of weights.")
    ] = "sample_weight",
    only: Annotated[bool, typer.Option("--only", help="Write the column of weights alone.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Allow writing onto TABLE, or replacing its column of weights.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:  # fmt: skip
    """Weigh the samples of a table.

    Weights are chosen on held-out folds of a linear model, and equal weights are written when nothing beats
    them. With -m they are those of Algorithm 2 for that ratio.
    """
    if weight_ratio is not None and (auto or scoring is not None):
        raise InputError("got --weight-ratio with --auto or --scoring; need one or the other; leave one out")
    check_choice(task, name="--task", choices=TASKS)
    source = TextTable.read(table)
    only = only or (output is not None and output.suffix != ".csv")
    output = output or table.with_name(f"{table.name.removesuffix('.gz').removesuffix('.csv')}-weighted.csv")
    _check_output(source, output, force=force)
    _check_weight_column(source, weight_column, target, force=force or only)
    X, y, left_out = _read_features(
        source, target, drop or [], {"sample_weight", weight_column}, set(keep or [])
    )
    labels = check_labels(y, n_samples=len(X), task=task, name=f"column {target!r}")  # type: ignore[arg-type]
    if weight_ratio is None:
        weights, figures = _choose(X, labels, n_neighbors, scoring)
    else:
        k = 20 if n_neighbors is None else n_neighbors
        weights = sample_weights(
            X, labels.array, n_neighbors=k, weight_ratio=weight_ratio, task=_task_of(labels), n_jobs=-1
        )
        figures = {"task": _task_of(labels)}
    _write(source, output, weight_column, weights, only=only)
    _report(source, output, X, weights, figures | {"left_out": left_out}, as_json=as_json)


def _check_output(source: TextTable, output: Path, *, force: bool) -> None:
    if output.suffix in _BINARY:
        raise InputError(
            f"--output {output} is no text; need .csv, .txt or .npy; compress or convert it afterwards"
        )
    if not output.parent.is_dir():
        raise InputError(
            f"--output {output} is in a folder that is not there; need one that is; make it first"
        )
    if not force and output.exists() and os.path.samefile(output, source.path):
        raise InputError(
            f"--output {output} is the table itself; need another file, or --force to write onto it"
        )


def _check_weight_column(source: TextTable, name: str, target: str, *, force: bool) -> None:
    if name == target:
        raise InputError(
            f"the target is called {name!r}; need another name for the weights; pass --weight-column NAME"
        )
    if name in source.names and not force:
        raise InputError(
            f"{source.path} has a column {name!r} already; need another name; pass --weight-column NAME, or --force to "
            "replace it"
        )


def _read_features(
    source: TextTable, target: str, drop: list[str], weights: set[str], keep: set[str]
) -> tuple[pd.DataFrame, pd.Series[Any], list[str]]:
    """The inputs, the labels, and the names of the columns left out."""
    for name in [target, *drop, *keep]:
        if name not in source.names:
            raise InputError(
                f"{source.path} has no column {name!r}; its columns are {', '.join(source.names)}"
            )
    unused = {*drop, *weights} - {target, *keep}
    used = [i for i, name in enumerate(source.names) if name not in unused]
    _refuse_twins(source, [name for name in source.names if name not in {*drop} - {target}])
    frame = source.frame(used)
    y, X = frame[target], frame.drop(columns=target)
    numbers = [str(name) for name in X if name not in keep and _looks_like_row_numbers(str(name), X[name])]
    X = X.drop(columns=numbers)
    _note_left_out([name for name in source.names if name in weights & unused and name not in drop], numbers)
    _refuse_unreadable(X, source.path)
    return X, y, [name for name in source.names if name in unused or name in numbers]


def _refuse_twins(source: TextTable, names: list[str]) -> None:
    twins = [name for name, times in Counter(names).items() if times > 1]
    if twins:
        raise InputError(
            f"{source.path} has several columns called {', '.join(map(repr, twins))}; need names of their own; rename "
            "them, or leave them out with --drop"
        )


def _note_left_out(weights: list[str], numbers: list[str]) -> None:
    """Say what was not used though nobody asked for it."""
    if weights:
        _note(
            f"{', '.join(map(repr, weights))} holds weights and is not used as a feature; --keep NAME uses it"
        )
    if numbers:
        _note(
            f"{', '.join(map(repr, numbers))} counts the rows and is not used as a feature; --keep NAME uses it"
        )


def _looks_like_row_numbers(name: str, values: pd.Series[Any]) -> bool:
    """Tell an index that was written along: no name, pandas' name for none, or counting from 0 or 1."""
    if not name or re.fullmatch(r"Unnamed: \d+", name):
        return True
    if len(values) < 3 or not is_numeric_dtype(values) or values.iloc[0] not in (0, 1):
        return False
    return bool(np.array_equal(values.to_numpy(), np.arange(len(values)) + int(values.iloc[0])))


def _refuse_unreadable(X: pd.DataFrame, path: Path) -> None:
    if not len(X.columns):
        raise InputError(
            f"{path} has no column left to compare samples by; need one; pass --keep COLUMN, or drop less"
        )
    text = [name for name in X if not is_numeric_dtype(X[name])]
    if text:
        raise InputError(
            f"columns {', '.join(map(repr, text))} are not numeric; need numbers; leave them out with --drop, or "
            "encode them first"
        )
    gaps = [name for name in X if not np.isfinite(X[name].to_numpy(dtype=float)).all()]
    if gaps:
        raise InputError(
            f"columns {', '.join(map(repr, gaps))} have missing or infinite values; need finite numbers; leave them "
            "out with --drop, or fill them first"
        )


def _task_of(labels: Labels) -> Any:
    return "regression" if labels.codes is None else "classification"


def _choose(
    X: pd.DataFrame, labels: Labels, n_neighbors: int | None, scoring: str | None
) -> tuple[FloatArray, dict[str, Any]]:
    """Weights that held-out folds of a linear model ask for, and the figures behind them."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if labels.codes is not None and not labels.codes.any():
        raise InputError("the target has one class only; need at least 2; check --target")
    if len(X) > _MANY_ROWS:
        _note(
            f"choosing weights for {len(X):,} rows on held-out folds takes a while; -m RATIO gives plain ones at once"
        )
    model = Ridge() if labels.codes is None else LogisticRegression(max_iter=1000)
    search = VarianceWeightedCV(
        make_pipeline(StandardScaler(), model), scoring=scoring, random_state=0,
        n_neighbors=None if n_neighbors is None else (n_neighbors,),
    )  # fmt: skip
    search.fit(X.to_numpy(dtype=float), labels.array if labels.codes is not None else labels.array[:, 0])
    interval = search.gain_interval_
    figures = {"verdict": search.verdict_, "chosen": search.best_params_, "gain": search.gain_,
               "gain_interval": [interval.low, interval.high], "task": _task_of(labels)}  # fmt: skip
    return search.sample_weight_, figures


def _write(source: TextTable, output: Path, name: str, weights: FloatArray, *, only: bool) -> None:
    if only and output.suffix == ".npy":
        write_whole(output, lambda path: np.save(path, weights))
    elif only:
        lines = (f"{value}\n" for value in [name, *map(repr, weights.tolist())])
        write_whole(output, lambda path: write_lines(path, lines))
    else:
        write_whole(output, lambda path: write_lines(path, source.with_column(name, weights)))


def _report(
    source: TextTable, output: Path, X: pd.DataFrame, weights: FloatArray, figures: dict[str, Any], *, as_json: bool
) -> None:  # fmt: skip
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    low, high = float(weights.min()), float(weights.max())
    if as_json:
        print(json.dumps({"table": str(source.path), "output": str(output), "samples": len(weights),
                          "features": list(X.columns), "smallest_weight": low, "largest_weight": high,
                          "effective_samples": effective, **figures}, ensure_ascii=False))  # fmt: skip
        return
    if "verdict" in figures:
        print(figures["verdict"])
    print(
        f"{output}: {len(weights)} samples weighted from {low:.3g} to {high:.3g}, worth {effective:.0f} equal ones"
    )


def _note(text: str) -> None:
    print(f"steep: {text}", file=sys.stderr)
