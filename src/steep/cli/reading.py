"""A labelled table as the commands read it: opened, its columns given their roles, its findings stated."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steep._validation import IntArray
from steep.cli.printing import listed, note
from steep.cli.tables import Table, open_table
from steep.cli.tables.features import Features, examine
from steep.cli.tables.roles import Roles, assign_roles
from steep.cli.tables.target import Target, read_target
from steep.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

WEIGHTS = "sample_weight"
# Files that take long enough to be announced.
_LARGE = 50_000_000


@dataclass(frozen=True)
class Samples:
    """The labelled rows of a table, as the library's functions take them.

    Attributes
    ----------
    X : DataFrame
        The features; the index is the row of the table.
    target : Target
        The labels.
    groups : ndarray of str or None
        Which rows belong together.
    rows : ndarray of int
        Rows of the table that have a label.
    features : Features
        What was found in the columns.
    """

    X: pd.DataFrame
    target: Target
    groups: Any
    rows: IntArray
    features: Features

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class LabelledTable:
    """A table whose columns have their roles; :meth:`read` reads them.

    Attributes
    ----------
    table : Table
        The table.
    roles : Roles
        Which column is what.
    keep : tuple of str
        Columns to use whatever they look like.
    task : str
        How the target is to be read.
    """

    table: Table
    roles: Roles
    keep: tuple[str, ...] = ()
    task: str = "auto"

    def read(self) -> Samples:
        """Features and labels of the rows that have a label; what a user may want to decide otherwise is said."""
        import numpy as np

        roles = self.roles
        others = [roles.target, *([roles.groups] if roles.groups is not None else [])]
        frame = self.table.frame([*roles.features, *others])
        rows = np.flatnonzero(frame[roles.target].notna())
        if not len(rows):
            raise InputError(f"the target {roles.target!r} is missing in all rows; expected labels; check --target")
        is_whole = len(rows) == len(frame)
        if not is_whole:
            note(
                f"{self.table.n_rows - len(rows):,} of {self.table.n_rows:,} rows are left out: they have no label "
                f"(empty, NA, None or ? in {roles.target!r})"
            )
        # Columns are taken out one by one: a selection would be a second table in memory.
        groups = _groups(frame.pop(roles.groups).iloc[rows]) if roles.groups is not None else None
        column = frame.pop(roles.target).iloc[rows].reset_index(drop=True)
        if not is_whole and column.dtype.kind == "f" and bool((column == column.round()).all()):
            column = column.astype("int64")  # whole numbers become floats next to a gap
        target = read_target(column, self.task)
        features = examine(frame, keep=self.keep, rows=None if is_whole else rows)
        for name in [*features.counters, *features.empty]:
            frame.pop(name)
        if not is_whole:
            frame = frame.iloc[rows].set_axis(rows)
        self._say_what_was_found(features, target)
        return Samples(frame, target, groups, rows, features)

    def _say_what_was_found(self, features: Features, target: Target) -> None:
        if old := self.roles.old_weights:
            note(f"{listed(old)} holds weights and is not used as a feature; --keep NAME uses it")
        if features.counters:
            note(f"{listed(features.counters)} counts the rows and is not used as a feature; --keep NAME uses it")
        if features.empty:
            note(f"{listed(features.empty)} holds no value and is not used as a feature")
        remarks = self.table.remarks
        if ids := [name for name in features.ids if name not in remarks]:
            flags = " ".join(f"--drop {name if name.isidentifier() else repr(name)}" for name in ids)
            note(f"{listed(ids)} looks like an id, which says nothing about new samples; leave it out with {flags}")
        for name, remark in remarks.items():
            if name in features.names or name == target.name:
                note(remark)
        if target.hint is not None:
            note(target.hint)

    def figures(self, samples: Samples) -> dict[str, Any]:
        """What was read, for ``--json``."""
        table, roles, features, target = self.table, self.roles, samples.features, samples.target
        return {
            "tables": table.paths, "format": table.about, "samples": len(samples), "target": target.name,
            "task": target.task, "classes": target.classes or None, "features": features.names,
            "categories": features.of_kind("categories"), "dates": features.of_kind("dates"),
            "missing": features.missing, "id_like": features.ids, "unlabelled": table.n_rows - len(samples),
            "left_out": [*roles.dropped, *roles.old_weights, *features.counters, *features.empty],
        }  # fmt: skip

    def lines(self, samples: Samples) -> list[str]:
        """What was read, for people."""
        features = samples.features
        kinds = {kind: features.of_kind(kind) for kind in ("numbers", "categories", "dates")}
        parts = [f"{len(kinds['numbers'])} of numbers"] if kinds["numbers"] else []
        parts += [
            f"{len(names)} of {kind} ({listed(names)})" for kind, names in kinds.items() if names and kind != "numbers"
        ]
        n_missing = sum(features.missing.values())
        filled = f"; {n_missing:,} missing values count as the median or the most frequent value" if n_missing else ""
        return [
            f"{self.table.title}: {self.table.n_rows:,} rows, {self.table.about}",
            f"target {samples.target}",
            f"features: {len(features.columns)} columns, {', '.join(parts)}{filled}",
        ]


def _groups(column: Any) -> Any:
    if n_missing := int(column.isna().sum()):
        raise InputError(
            f"the groups {column.name!r} are missing in {n_missing:,} rows; expected a group in every row; fill "
            "them in first"
        )
    return column.astype(str).to_numpy(dtype=str)


def read_samples(
    tables: Sequence[Path],
    target: str,
    *,
    drop: Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    groups: str | None = None,
    task: str = "auto",
    weights: Collection[str] = (WEIGHTS,),
    **told: str | None,
) -> LabelledTable:
    """Open a labelled table; the parameters are the options of the same names."""
    n_bytes = sum(path.stat().st_size for path in tables if path.is_file())
    if n_bytes > _LARGE:
        note(f"reading {n_bytes / 1e6:,.0f} MB …")
    table = open_table(tables, **told)
    roles = assign_roles(table, target=target, drop=drop or (), keep=keep or (), groups=groups, weights=weights)
    return LabelledTable(table, roles, tuple(keep or ()), task)
