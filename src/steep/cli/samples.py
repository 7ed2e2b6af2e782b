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

from steep._validation import IntArray, check_choice
from steep.cli.printing import listed, note, shell_words
from steep.cli.tables import Table, open_table
from steep.exceptions import InputError
from steep.labels import TASKS, check_labels, warn_of_float_classes
from steep.weighting.embedding import column_kind

WEIGHTS = "sample_weight"
# Files that take long enough to be announced.
_LARGE = 50_000_000
# Fewer rows say nothing about what looks like an id; a text of more rows that nearly never repeats is one.
_FEW_ROWS, _NEARLY_ALL = 20, 0.9
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

    @property
    def shown(self) -> Any:
        """Labels as pages show them."""
        return self.y.astype(str) if self.task == "classification" else self.y.astype(float)

    @property
    def classes(self) -> dict[str, int]:
        """Rows of each class, the largest first."""
        if self.task == "regression":
            return {}
        return {
            str(name): int(n)
            for name, n in self.y.value_counts(sort=False).sort_values(ascending=False, kind="stable").items()
        }

    @property
    def kinds(self) -> dict[str, list[str]]:
        """Names of the features that hold numbers, categories and dates."""
        found = {str(name): column_kind(self.X[name]) for name in self.X}
        return {kind: [name for name in found if found[name] == kind] for kind in ("numbers", "categories", "dates")}

    @property
    def missing(self) -> dict[str, int]:
        """Missing values by feature."""
        return {str(name): n for name in self.X if (n := int(self.X[name].isna().sum()))}

    def figures(self) -> dict[str, Any]:
        """What was read, for ``--json``."""
        return {
            "table": self.table.path, "format": self.table.about, "samples": len(self), "target": self.y.name,
            "task": self.task, "classes": self.classes or None, "features": list(self.X), **self.kinds,
            "missing": self.missing, "id_like": self.ids, "unlabelled": self.table.n_rows - len(self),
            "left_out": self.left_out,
        }  # fmt: skip

    def lines(self) -> list[str]:
        """What was read, for people."""
        parts = [
            f"{len(names)} of {kind}" + (f" ({listed(names)})" if kind != "numbers" else "")
            for kind, names in self.kinds.items()
            if names
        ]
        n_missing = sum(self.missing.values())
        filled = f"; {n_missing:,} missing values count as the median or the most frequent value" if n_missing else ""
        return [
            f"{self.table.path}: {self.table.n_rows:,} rows, {self.table.about}",
            f"target {self.y.name!r} read as {self._labels()}",
            f"features: {self.X.shape[1]} columns, {', '.join(parts)}{filled}",
        ]

    def _labels(self) -> str:
        if self.task == "regression":
            return f"numbers from {float(self.y.min()):.4g} to {float(self.y.max()):.4g}"
        sizes = self.classes
        shown = ", ".join(f"{name} {n:,}" for name, n in list(sizes.items())[:_SHOWN])
        return f"{len(sizes)} classes ({shown}{', …' if len(sizes) > _SHOWN else ''})"


def read_samples(
    path: Path,
    target: str,
    *,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    groups: str | None = None,
    task: str = "auto",
    decimal: str | None = None,
) -> LabelledTable:
    """Read a labelled table; the parameters are the options of the same names."""
    check_choice(task, name="--task", choices=TASKS)
    n_bytes = path.stat().st_size if path.is_file() else 0
    if n_bytes > _LARGE:
        note(f"reading {n_bytes / 1e6:,.0f} MB …")
    table = open_table(path, decimal=decimal)
    for name in (target, *keep, *drop, *([] if groups is None else [groups])):
        _check_known(name, table)
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
    if len(rows) < table.n_rows:
        note(
            f"{table.n_rows - len(rows):,} of {table.n_rows:,} rows are left out: they have no label (empty, NA, None "
            f"or ? in {target!r})"
        )
    labels = labels.iloc[rows]
    if len(rows) < table.n_rows and labels.dtype.kind == "f" and bool((labels % 1 == 0).all()):
        labels = labels.astype("int64")  # whole numbers become floats next to a gap
    y, read_as = _read_labels(labels, task)
    others = [name for name in table.names if name not in {target, groups, *drop}]
    frame, left_out, ids = _chosen(table, others, keep, rows)
    if len(rows) < table.n_rows:
        frame = frame.iloc[rows]
    together = None if groups is None else _read_groups(table.frame([groups])[groups].iloc[rows])
    for name, remark in table.remarks.items():
        if name == target or name in frame:
            note(remark)
    return LabelledTable(table, frame, y, together, read_as, rows, [*dict.fromkeys(drop), *left_out], ids)


def _check_known(name: str, table: Table) -> None:
    if name in table.names:
        return
    close = difflib.get_close_matches(name, table.names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    is_headless = all(re.fullmatch(r"[-+.\deE]+", known) for known in table.names)
    shown = ", ".join(table.names[:20]) + (", …" if len(table.names) > 20 else "")
    raise InputError(
        f"{table.path} has no column {name!r}; its columns are {shown}{meant}{'; has it a header?' * is_headless}"
    )


def _read_groups(column: pd.Series[Any]) -> Any:
    if n_missing := int(column.isna().sum()):
        raise InputError(
            f"the groups {column.name!r} are missing in {n_missing:,} rows; expected a group in every row; fill "
            "them in first"
        )
    return column.astype(str).to_numpy(dtype=str)


# ------------------------------------------------------------------------------------- the labels


def _read_labels(column: pd.Series[Any], task: str) -> tuple[pd.Series[Any], str]:
    """The labels as Python users would pass them, and how the library reads them."""
    name = str(column.name)
    kind = column_kind(column)
    if kind == "dates":
        raise InputError(f"the target {name!r} holds dates; expected classes or numbers; choose another --target")
    if task == "regression" and kind != "numbers":
        numbers = pd.to_numeric(column, errors="coerce")
        if (bad := numbers.isna()).any():
            raise InputError(
                f"the target {name!r} holds {listed(column[bad].unique(), most=3)}; expected numbers for --task "
                "regression; choose another target, or --task classification"
            )
        column = numbers
    elif kind == "categories" and infer_dtype(column) not in ("string", "boolean", "categorical"):
        column = column.astype(str)  # cells of different kinds, which cannot be sorted
    elif kind == "numbers":
        column = column.astype(float) if getattr(column.dtype, "kind", "O") not in "iu" else column
        if not np.isfinite(column).all():
            raise InputError(f"the target {name!r} holds infinite values; expected finite numbers; fix them")
    with shell_words(y=f"the target {name!r}"):
        labels = check_labels(column, n_samples=len(column), task=task, name=f"the target {name!r}")  # type: ignore[arg-type]
        warn_of_float_classes(labels, task, fewest=2)  # type: ignore[arg-type]
    n_different = column.nunique()
    if n_different == 1:
        kind = "value" if labels.codes is None else "class"
        raise InputError(f"the target {name!r} has only one {kind}; expected at least 2; check --target")
    if labels.codes is not None and 2 < n_different == len(column):
        raise InputError(
            f"the target {name!r} has a class of its own in each of {len(column):,} rows; expected classes that "
            "repeat; check --target, or pass --task regression if they are quantities"
        )
    return column, "regression" if labels.codes is None else "classification"


# ------------------------------------------------------------------------------------- the features


def _chosen(
    table: Table, names: Sequence[str], keep: Sequence[str], rows: IntArray
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """The columns that samples are compared by, those left out for what they hold, and those that look like ids."""
    found: dict[str, list[str]] = {"weights": [], "counters": [], "empty": [], "ids": [], "used": []}
    for name in names:
        column = table.columns[table.names.index(name)]
        if column.iloc[rows].isna().all():
            found["empty"].append(name)
        elif name in keep:
            found["used"].append(name)
        elif name == WEIGHTS:
            found["weights"].append(name)
        elif _counts_rows(name, column):
            found["counters"].append(name)
        else:
            found["used"].append(name)
            if _looks_like_id(name, column) and name not in table.remarks:
                found["ids"].append(name)
    for kind, text in (
        ("weights", "holds weights and is not used as a feature; --keep NAME uses it"),
        ("counters", "counts the rows and is not used as a feature; --keep NAME uses it"),
        ("empty", "holds no value and is not used as a feature"),
    ):
        if found[kind]:
            note(f"{listed(found[kind])} {text}")
    if found["ids"]:
        flags = " ".join(f"--drop {name if name.isidentifier() else repr(name)}" for name in found["ids"])
        note(
            f"{listed(found['ids'])} looks like an id, which says nothing about new samples; leave it out with {flags}"
        )
    if not found["used"]:
        raise InputError(
            "the table has no column left to compare samples by; expected at least one; pass --keep COLUMN or drop less"
        )
    return table.frame(found["used"]), found["weights"] + found["counters"] + found["empty"], found["ids"]


def _counts_rows(name: str, column: pd.Series[Any]) -> bool:
    """An index that was written along: no name, pandas' name for none, or counting from 0 or 1."""
    if _INDEX_NAME.fullmatch(name):
        return True
    if len(column) < 3 or column_kind(column) != "numbers" or column.iloc[0] not in (0, 1) or column.isna().any():
        return False
    return bool(np.array_equal(column.to_numpy(), np.arange(len(column)) + int(column.iloc[0])))


def _looks_like_id(name: str, column: pd.Series[Any]) -> bool:
    kind = column_kind(column)
    if len(column) < _FEW_ROWS or kind == "dates":
        return False
    if kind == "categories":
        return bool(column.nunique() >= _NEARLY_ALL * len(column))
    if getattr(column.dtype, "kind", "O") not in "iu" or not column.is_unique:
        return False
    return bool(_ID_NAME.search(name) or (np.diff(column.to_numpy()) == 1).all())
