"""The target: classes or numbers, detected from its values and stated."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from steep._validation import check_choice
from steep.cli.printing import listed
from steep.cli.tables.features import kind_of
from steep.cli.wording import in_shell_words
from steep.exceptions import InputError
from steep.labels import TASKS, Labels, check_labels, warn_of_float_classes

# Kinds of objects that can be sorted; others are compared by what they look like.
_SORTED = ("string", "boolean", "integer", "floating")
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
        As they were given.
    hint : str or None
        What to say where another reading is as likely.
    """

    name: str
    labels: Labels
    values: Any
    hint: str | None = None

    @property
    def shown(self) -> Any:
        """As pages show them: classes by name, or numbers."""
        codes, classes = self.labels.codes, self.labels.classes
        return self.labels.array[:, 0] if codes is None or classes is None else classes.astype(str)[codes]

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


def read_target(column: Any, task: str = "auto") -> Target:
    """Read a column of labels, none of them missing, by the rule of :func:`steep.labels.check_labels`.

    Examples
    --------
    >>> str(read_target(pd.Series([0.5, 2.5], name="price")))
    "'price' read as numbers from 0.5 to 2.5"
    """
    name = str(column.name)
    check_choice(task, name="--task", choices=TASKS)
    given = _as_given(column, task)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        labels = check_labels(given, n_samples=len(given), task=task, name=f"the target {name!r}")  # type: ignore[arg-type]
        warn_of_float_classes(labels, task, fewest=2)  # type: ignore[arg-type]
    hint = next((in_shell_words(str(warning.message)) for warning in caught), None)
    hint = hint and hint.replace("y holds", f"the target {name!r} holds")
    found = Target(name, labels, given, hint)
    _refuse_useless(found)
    return found


def _as_given(column: Any, task: str) -> Any:
    """The labels as Python users would pass them: numbers as numbers, and one kind of object."""
    kind = kind_of(column)
    if kind == "dates":
        raise InputError(
            f"the target {column.name!r} holds dates; expected classes or numbers; choose another --target"
        )
    if task == "regression":
        column = _numbers(column)
    elif kind == "numbers" and getattr(column.dtype, "kind", "O") not in "iuf":  # decimals, or mixed types
        column = column.astype(float)
    if kind == "numbers" and not np.isfinite(column.to_numpy(dtype=float)).all():
        raise InputError(f"the target {column.name!r} holds infinite values; expected finite numbers; fix them")
    given = column.to_numpy()
    if given.dtype.kind == "O" and pd.api.types.infer_dtype(given) not in _SORTED:
        return np.asarray([str(value) for value in given], dtype=object)
    return given


def _numbers(column: Any) -> Any:
    numbers = pd.to_numeric(column, errors="coerce")
    if (bad := numbers.isna()).any():
        raise InputError(
            f"the target {column.name!r} holds {listed(column[bad].unique(), most=3)}; expected numbers for --task "
            "regression; choose another target, or --task classification"
        )
    return numbers.astype(float)


def _refuse_useless(target: Target) -> None:
    labels = target.labels
    if labels.codes is None:
        if np.ptp(labels.array) == 0:
            raise InputError(f"the target {target.name!r} has only one value; expected several; check --target")
        return
    n_classes = len(target.classes)
    if n_classes == 1:
        raise InputError(f"the target {target.name!r} has only one class; expected at least 2; check --target")
    if n_classes == len(labels) and n_classes > 2:
        raise InputError(
            f"the target {target.name!r} has a class of its own in each of {n_classes:,} rows; expected classes that "
            "repeat; check --target, or pass --task regression if they are quantities"
        )
