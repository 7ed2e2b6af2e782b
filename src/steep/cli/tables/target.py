"""The target: classes or numbers, told from its values and stated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from steep._validation import check_choice
from steep.cli.printing import listed
from steep.cli.tables import Table
from steep.cli.tables.features import kind_of
from steep.exceptions import InputError
from steep.labels import TASKS, Labels, check_labels

# Whole numbers of more different values than this are counts, ages or years rather than classes.
_MOST_CLASSES = 20
# Classes whose sizes are shown.
_SHOWN = 6


@dataclass(frozen=True)
class Target:
    """The labels, and what was found.

    Attributes
    ----------
    name : str
        The column.
    labels : Labels
        As measures read them.
    hint : str or None
        What to say where another reading is as likely.
    """

    name: str
    labels: Labels
    hint: str | None = None

    @property
    def values(self) -> Any:
        """As estimators read them: the classes themselves, or numbers."""
        codes, classes = self.labels.codes, self.labels.classes
        return self.labels.array[:, 0] if codes is None or classes is None else classes[codes]

    @property
    def task(self) -> Any:
        """How the labels were read."""
        return "regression" if self.labels.codes is None else "classification"

    @property
    def classes(self) -> dict[str, int]:
        """Samples of each class, the largest first."""
        codes, classes = self.labels.codes, self.labels.classes
        if codes is None or classes is None:
            return {}
        counts = np.bincount(codes)
        order = np.argsort(-counts, kind="stable")
        return {str(classes[i]): int(counts[i]) for i in order}

    def __str__(self) -> str:
        if self.task == "regression":
            values = self.labels.array
            return f"{self.name!r} read as numbers from {values.min():.4g} to {values.max():.4g}"
        sizes = self.classes
        shown = ", ".join(f"{name} {n:,}" for name, n in list(sizes.items())[:_SHOWN])
        return f"{self.name!r} read as {len(sizes)} classes ({shown}{', …' if len(sizes) > _SHOWN else ''})"


def read_target(table: Table, name: str, task: str = "auto") -> Target:
    """Read the target of a table; ``task`` says how, where the user knows."""
    check_choice(task, name="--task", choices=TASKS)
    column = table.frame([name])[name]
    if n_missing := int(column.isna().sum()):
        raise InputError(
            f"the target {name!r} is missing in {n_missing:,} of {len(column):,} rows; need a label in every row; fill "
            "them in, or leave those rows out first"
        )
    if kind_of(column) == "dates":
        raise InputError(f"the target {name!r} holds dates; need classes or numbers; choose another --target")
    read, hint = (task, None) if task != "auto" else _detected(name, column)
    found = Target(name, _numbers(column) if read == "regression" else _classes(column), hint)
    _refuse_useless(found)
    return found


def _detected(name: str, column: Any) -> tuple[str, str | None]:
    """Classes or numbers, and a hint where it could be the other."""
    if kind_of(column) != "numbers":
        return "classification", None
    values = column.to_numpy(dtype=float)
    if not np.isfinite(values).all():
        raise InputError(f"the target {name!r} holds infinite values; need finite numbers; mend them")
    if not (values == np.round(values)).all():
        return "regression", None
    n_different = len(np.unique(values))
    if n_different <= _MOST_CLASSES:
        return "classification", None
    return (
        "regression",
        f"{name!r} holds {n_different:,} different whole numbers and is read as numbers; --task classification reads "
        "them as classes",
    )


def _numbers(column: Any) -> Labels:
    numbers = pd.to_numeric(column, errors="coerce")
    if (bad := numbers.isna()).any():
        raise InputError(
            f"the target {column.name!r} holds {listed(column[bad].unique(), most=3)}; need numbers for --task "
            "regression; choose another target, or --task classification"
        )
    return check_labels(numbers.to_numpy(dtype=float), n_samples=len(column), task="regression")


def _classes(column: Any) -> Labels:
    """Classes as codes: a million long names are kept once each."""
    is_whole = getattr(column.dtype, "kind", "O") == "f" and bool((column == column.round()).all())
    if is_whole and column.abs().max() < 2**53:
        column = column.astype(np.int64)
    try:
        codes, classes = pd.factorize(column, sort=True)
    except TypeError:  # kinds that cannot be sorted are told apart by what they look like
        codes, classes = pd.factorize(column.astype(str), sort=True)
    names = np.asarray(classes)
    return Labels(
        codes=codes.astype(np.int32), classes=names.astype(str) if names.dtype.kind == "O" else names
    )


def _refuse_useless(target: Target) -> None:
    labels = target.labels
    if labels.codes is None:
        if np.ptp(labels.array) == 0:
            raise InputError(f"the target {target.name!r} has one value only; need several; check --target")
        return
    n_classes = len(target.classes)
    if n_classes == 1:
        raise InputError(f"the target {target.name!r} has one class only; need at least 2; check --target")
    if n_classes == len(labels) and n_classes > 2:
        raise InputError(
            f"the target {target.name!r} has a class of its own in each of {n_classes:,} rows; need classes that "
            "repeat; check --target"
        )
