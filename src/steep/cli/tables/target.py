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
    values : ndarray of shape (n_samples,)
        As estimators read them: the classes themselves, or numbers.
    hint : str or None
        What to say where another reading is as likely.
    """

    name: str
    labels: Labels
    values: Any
    hint: str | None = None

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
    values = _values(column, read)
    labels = check_labels(values, n_samples=len(column), task=read, name=f"the target {name!r}")  # type: ignore[arg-type]
    found = Target(name, labels, labels.array[:, 0] if labels.codes is None else values, hint)
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


def _values(column: Any, task: str) -> Any:
    """Labels as an array of one kind."""
    if task == "regression":
        numbers = pd.to_numeric(column, errors="coerce")
        if (bad := numbers.isna()).any():
            raise InputError(
                f"the target {column.name!r} holds {listed(column[bad].unique(), most=3)}; need numbers for --task "
                "regression; choose another target, or --task classification"
            )
        return numbers.to_numpy(dtype=float)
    values = column.to_numpy()
    if values.dtype.kind == "f" and (values == np.round(values)).all():
        return values.astype(np.int64) if np.abs(values).max(initial=0) < 2**53 else values
    # Text and categories as text: one kind, which can be sorted.
    return values.astype(str) if values.dtype.kind == "O" else values


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
