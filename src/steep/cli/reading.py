"""A labelled table as the commands read it: opened, its columns given their roles, its findings stated."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steep.cli.printing import listed, note
from steep.cli.tables import Table, open_table
from steep.cli.tables.features import IMPUTE, Features, read_features
from steep.cli.tables.roles import Roles, assign_roles
from steep.cli.tables.target import Target, read_target
from steep.exceptions import InputError

WEIGHTS = "sample_weight"


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
    impute : str or None
        How missing values are filled.
    task : str
        How the target is to be read.
    """

    table: Table
    roles: Roles
    keep: tuple[str, ...] = ()
    impute: str | None = None
    task: str = "auto"

    def read(self) -> tuple[Features, Target]:
        """Features and labels; what a user may want to decide otherwise is said."""
        labels = read_target(self.table, self.roles.target, self.task)
        features = read_features(self.table, self.roles.features, keep=self.keep, impute=self.impute)
        _say_what_was_found(self.roles, features, labels)
        return features, labels

    def groups(self) -> Any:
        """Which rows belong together, or None."""
        name = self.roles.groups
        if name is None:
            return None
        column = self.table.frame([name])[name]
        if n_missing := int(column.isna().sum()):
            raise InputError(
                f"the groups {name!r} are missing in {n_missing:,} rows; need a group in every row; fill them in first"
            )
        return column.astype(str).to_numpy(dtype=str)

    def figures(self, features: Features, labels: Target) -> dict[str, Any]:
        """What was read, for ``--json``."""
        table, roles = self.table, self.roles
        return {
            "tables": table.paths, "format": table.about, "samples": table.n_rows, "target": labels.name,
            "task": labels.task, "classes": labels.classes or None, "features": features.names,
            "categories": features.of_kind("categories"), "dates": features.of_kind("dates"),
            "missing": features.missing, "id_like": features.ids,
            "left_out": [*roles.dropped, *roles.old_weights, *features.counters],
        }  # fmt: skip

    def lines(self, features: Features, labels: Target) -> list[str]:
        """What was read, for people."""
        kinds = {kind: features.of_kind(kind) for kind in ("numbers", "categories", "dates")}
        told = [f"{len(kinds['numbers'])} of numbers"] if kinds["numbers"] else []
        told += [
            f"{len(names)} of {kind} ({listed(names)})"
            for kind, names in kinds.items()
            if names and kind != "numbers"
        ]
        filled = f"; {sum(features.missing.values()):,} missing values filled" if features.missing else ""
        return [
            f"{self.table.title}: {self.table.n_rows:,} rows, {self.table.about}",
            f"target {labels}",
            f"features: {len(features.columns)} columns, {', '.join(told)}{filled}",
        ]


def read_samples(
    tables: Sequence[Path],
    target: str,
    *,
    drop: Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    groups: str | None = None,
    impute: str | None = None,
    task: str = "auto",
    weights: Collection[str] = (WEIGHTS,),
    **told: str | None,
) -> LabelledTable:
    """Open a labelled table; the parameters are the options of the same names."""
    if impute not in (None, *IMPUTE):
        raise InputError(f"--impute {impute!r} is unknown; need one of {', '.join(IMPUTE)}; choose one")
    table = open_table(tables, **told)
    roles = assign_roles(
        table, target=target, drop=drop or (), keep=keep or (), groups=groups, weights=weights
    )
    return LabelledTable(table, roles, tuple(keep or ()), impute, task)


def _say_what_was_found(roles: Roles, features: Features, labels: Target) -> None:
    if roles.old_weights:
        note(f"{listed(roles.old_weights)} holds weights and is not used as a feature; --keep NAME uses it")
    if features.counters:
        note(f"{listed(features.counters)} counts the rows and is not used as a feature; --keep NAME uses it")
    if features.ids:
        flags = " ".join(f"--drop {name if name.isidentifier() else repr(name)}" for name in features.ids)
        note(
            f"{listed(features.ids)} looks like an id, which says nothing about new samples; leave it out with {flags}"
        )
    if labels.hint is not None:
        note(labels.hint)
