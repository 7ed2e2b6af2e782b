"""A labelled table: its columns get their roles, and what was found in them is stated."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from steep._validation import IntArray
from steep.cli.printing import listed, note
from steep.cli.tables import Table, open_table
from steep.exceptions import InputError
from steep.labels import check_labels, warn_of_float_classes
from steep.weighting.embedding import column_kind

WEIGHTS = "sample_weight"
# Files that take long enough to be announced.
_LARGE = 50_000_000
_ID_NAME = re.compile(r"(?:^|[_\W])(?:id|uid|uuid|guid|key|index|number|nr|no)s?$|[a-z]I[dD]$", re.IGNORECASE)
_INDEX_NAME = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
# Classes whose sizes are shown.
_SHOWN = 6


@dataclass(frozen=True)
class LabelledTable:
    """The labelled ``rows`` of a table, as the library takes them; the index of X is the row of the table."""

    table: Table
    X: pd.DataFrame
    y: pd.Series[Any]
    groups: Any
    task: Any
    rows: IntArray
    left_out: list[str]
    ids: list[str]

    def __len__(self) -> int:
        return len(self.rows)

    def figures(self) -> dict[str, Any]:
        """What was read, for ``--json``."""
        kinds = {str(name): column_kind(self.X[name]) for name in self.X}
        classes = self.y.value_counts(sort=False).sort_values(ascending=False, kind="stable").items()
        return {
            "table": self.table.path, "format": self.table.about, "samples": len(self), "target": self.y.name,
            "task": self.task,
            "classes": {str(name): int(n) for name, n in classes} if self.task == "classification" else None,
            "features": list(self.X),
            **{kind: [name for name in kinds if kinds[name] == kind] for kind in ("numbers", "categories", "dates")},
            "missing": {str(name): int(n) for name, n in self.X.isna().sum().items() if n}, "id_like": self.ids,
            "unlabelled": self.table.n_rows - len(self), "left_out": self.left_out,
        }  # fmt: skip

    def lines(self) -> list[str]:
        """What was read, for people."""
        figures = self.figures()
        parts = [f"{len(names)} of numbers" for names in (figures["numbers"],) if names]
        for kind in ("categories", "dates"):
            parts += [f"{len(names)} of {kind} ({listed(names)})" for names in (figures[kind],) if names]
        n_missing = sum(figures["missing"].values())
        filled = f"; missing values ({n_missing:,}) count as the median or the most frequent value" if n_missing else ""
        if sizes := figures["classes"]:
            shown = ", ".join(f"{name} {n:,}" for name, n in list(sizes.items())[:_SHOWN])
            read_as = f"{len(sizes)} classes ({shown}{', …' if len(sizes) > _SHOWN else ''})"
        else:
            read_as = f"numbers from {float(self.y.min()):.4g} to {float(self.y.max()):.4g}"
        return [
            f"{self.table.path}: {self.table.n_rows:,} rows, {self.table.about}",
            f"target {self.y.name!r} read as {read_as}",
            f"features: {self.X.shape[1]} columns, {', '.join(parts)}{filled}",
        ]


def read_samples(
    path: Path,
    target: str,
    *,
    drop: Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    groups: str | None = None,
    task: str = "auto",
    decimal: str | None = None,
) -> LabelledTable:
    """Read a labelled table; the parameters are the options of the same names."""
    drop, keep = drop or (), keep or ()
    if path.is_file() and path.stat().st_size > _LARGE:
        note(f"reading {path} …")
    table = open_table(path, decimal=decimal)
    asked = (target, *keep, *drop, *([] if groups is None else [groups]))
    for name in (name for name in asked if name not in table.names):
        close = difflib.get_close_matches(name, table.names, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        shown = ", ".join(table.names[:20]) + (", …" if len(table.names) > 20 else "")
        raise InputError(f"{table.path} has no column {name!r}; its columns are {shown}{meant}")
    if target in drop or target == groups:
        raise InputError(f"{target!r} is the target and cannot be dropped or grouped by; leave one of them out")
    if twins := sorted({name for name in table.names if table.names.count(name) > 1} - set(drop)):
        raise InputError(
            f"{table.path} has several columns called {listed(twins)}; expected different names; rename them, or "
            "leave them out with --drop"
        )
    labels = table.frame([target])[target]
    rows = np.flatnonzero(labels.notna())
    if not len(rows):
        raise InputError(f"the target {target!r} is missing in all rows; expected labels; check --target")
    labels = labels.iloc[rows]
    if len(rows) < table.n_rows:
        note(
            f"{table.n_rows - len(rows):,} of {table.n_rows:,} rows are left out: they have no label (empty, NA, None "
            f"or ? in {target!r})"
        )
        if labels.dtype.kind == "f" and bool((labels % 1 == 0).all()):
            labels = labels.astype("int64")  # whole numbers become floats next to a gap
    y, read_as = _read_labels(labels, task)
    others = [name for name in table.names if name not in {target, groups, *drop}]
    frame, left_out, ids = _chosen(table, others, keep, rows)
    together = None if groups is None else table.frame([groups])[groups].iloc[rows]
    if together is not None and together.isna().any():
        raise InputError(f"the groups {groups!r} are missing in some rows; expected a group in every row; fill them in")
    named = None if together is None else together.astype(str).to_numpy(dtype=str)
    for name, remark in table.remarks.items():
        if name == target or name in frame:
            note(remark)
    return LabelledTable(table, frame, y, named, read_as, rows, [*dict.fromkeys(drop), *left_out], ids)


def _read_labels(column: pd.Series[Any], task: Any) -> tuple[pd.Series[Any], str]:
    """The labels as Python users would pass them, and how the library reads them."""
    name, kind = f"the target {str(column.name)!r}", column_kind(column)
    if kind == "dates":
        raise InputError(f"{name} holds dates; expected classes or numbers; choose another --target")
    if kind == "numbers" and getattr(column.dtype, "kind", "O") not in "iu":
        column = column.astype(float)
    elif kind == "categories" and infer_dtype(column) not in ("string", "boolean", "categorical"):
        column = column.astype(str)  # cells of different kinds, which cannot be sorted
    labels = check_labels(column, n_samples=len(column), task=task, name=name)
    warn_of_float_classes(labels, task, fewest=2)
    n_different = column.nunique()
    if n_different == 1:
        raise InputError(f"{name} has only one value; expected at least 2; check --target")
    if labels.codes is None:
        return column, "regression"
    if 2 < n_different == len(column):
        raise InputError(
            f"{name} has a class of its own in each of {len(column):,} rows; expected classes that repeat; check "
            "--target, or pass --task regression if they are quantities"
        )
    return column, "classification"


def _chosen(
    table: Table, names: Sequence[str], keep: Sequence[str], rows: IntArray
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """The columns that samples are compared by, those left out for what they hold, and those that look like ids."""
    columns = {name: table.columns[table.names.index(name)] for name in names}
    left_out: dict[str, list[str]] = {
        "holds no value": [name for name in names if columns[name].iloc[rows].isna().all()],
        "holds weights": [name for name in names if name == WEIGHTS and name not in keep],
        "counts the rows": [name for name in names if name not in keep and _counts_rows(name, columns[name])],
    }
    for why, found in left_out.items():
        if found:
            note(f"{listed(found)} {why} and is not used as a feature; --keep NAME uses what is not empty")
    unused = [name for name in names if any(name in found for found in left_out.values())]
    used = [name for name in names if name not in unused]
    if not used:
        raise InputError(
            "the table has no column left to compare samples by; expected at least one; pass --keep COLUMN or drop less"
        )
    named = [name for name in used if name not in keep and _ID_NAME.search(name)]
    ids = [name for name in named if columns[name].nunique() == table.n_rows]
    if ids:
        flags = " ".join(f"--drop {name if name.isidentifier() else repr(name)}" for name in ids)
        note(f"{listed(ids)} looks like an id, which says nothing about new samples; leave it out with {flags}")
    return table.frame(used).iloc[rows] if len(rows) < table.n_rows else table.frame(used), unused, ids


def _counts_rows(name: str, column: pd.Series[Any]) -> bool:
    """An index that was written along: no name, pandas' name for none, or counting from 0 or 1."""
    if _INDEX_NAME.fullmatch(name) or len(column) < 3:
        return bool(_INDEX_NAME.fullmatch(name))
    is_start = column_kind(column) == "numbers" and column.iloc[0] in (0, 1)
    return is_start and bool((np.diff(column.to_numpy(float)) == 1).all())
