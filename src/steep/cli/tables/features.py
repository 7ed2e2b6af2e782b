"""What the columns of a table hold, and which of them say nothing about new samples."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from steep._validation import IntArray
from steep.cli.printing import listed
from steep.exceptions import InputError

# Fewer rows say nothing about what looks like an id; of more, a text that nearly never repeats is one.
_FEW_ROWS, _NEARLY_ALL = 20, 0.9
_ID_NAME = re.compile(r"(?:^|[_\W])(?:id|uid|uuid|guid|key|index|number|nr|no)s?$|[a-z]I[dD]$", re.IGNORECASE)
_INDEX_NAME = re.compile(r"|Unnamed: \d+|__index_level_\d+__")


@dataclass(frozen=True)
class Column:
    """What was found in one column.

    Attributes
    ----------
    name, kind : str
        Its name, and one of "numbers", "dates" and "categories".
    n_missing : int
        Cells without a value.
    is_id : bool
        Whether it looks like an id.
    """

    name: str
    kind: str
    n_missing: int = 0
    is_id: bool = False


@dataclass(frozen=True)
class Features:
    """The columns that samples are compared by.

    Attributes
    ----------
    columns : list of Column
        One for each column used.
    counters, empty : list of str
        Columns left out because they only count the rows, or hold no value at all.
    """

    columns: list[Column] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Names of the columns used."""
        return [column.name for column in self.columns]

    def of_kind(self, kind: str) -> list[str]:
        """Names of the columns of one kind."""
        return [column.name for column in self.columns if column.kind == kind]

    @property
    def ids(self) -> list[str]:
        """Columns that look like ids."""
        return [column.name for column in self.columns if column.is_id]

    @property
    def missing(self) -> dict[str, int]:
        """Missing values by column."""
        return {column.name: column.n_missing for column in self.columns if column.n_missing}


def examine(frame: pd.DataFrame, *, keep: Collection[str] = (), rows: IntArray | None = None) -> Features:
    """Look at the columns of a table; ``keep`` names those to use though they count the rows.

    Whether a column counts the rows or looks like an id is judged on all rows; the rest on ``rows``, the rows used.

    Examples
    --------
    >>> examine(pd.DataFrame({"n": [1, 2, 3], "x": [0.5, None, 2.0]})).missing
    {'x': 1}
    """
    found = Features()
    infinite = []
    for name in frame.columns:
        whole = frame[name]
        values = whole if rows is None else whole.iloc[rows]
        n_missing = int(values.isna().sum())
        if n_missing == len(values):
            found.empty.append(name)
        elif name not in keep and counts_rows(name, whole):
            found.counters.append(name)
        else:
            kind = kind_of(values)
            if kind == "numbers" and _has_infinity(values):
                infinite.append(name)
            is_id = name not in keep and _looks_like_id(name, whole, kind)
            found.columns.append(Column(name, kind, n_missing, is_id))
    if not found.columns:
        raise InputError(
            "the table has no column left to compare samples by; expected at least one; pass --keep COLUMN, or drop "
            "less"
        )
    if infinite:
        raise InputError(
            f"columns {listed(infinite)} hold infinite values; expected finite numbers; fix them, or leave them out "
            "with --drop"
        )
    return found


def kind_of(values: Any) -> str:
    """What a column holds: "numbers", "dates" or "categories"."""
    kind = getattr(values.dtype, "kind", "O")
    if is_numeric_dtype(values) and not is_bool_dtype(values):
        return "numbers"
    if kind in "mM":
        return "dates"
    inferred = pd.api.types.infer_dtype(values, skipna=True) if kind == "O" else ""
    if inferred in ("decimal", "integer", "floating", "mixed-integer-float"):
        return "numbers"
    return "dates" if inferred in ("date", "datetime", "datetime64") else "categories"


def counts_rows(name: str, values: Any) -> bool:
    """Tell an index that was written along: no name, pandas' name for none, or counting from 0 or 1."""
    if _INDEX_NAME.fullmatch(name):
        return True
    if len(values) < 3 or not is_numeric_dtype(values) or is_bool_dtype(values) or values.iloc[0] not in (0, 1):
        return False
    if values.hasnans:
        return False
    return bool(np.array_equal(values.to_numpy(), np.arange(len(values)) + int(values.iloc[0])))


def _looks_like_id(name: str, values: Any, kind: str) -> bool:
    if len(values) < _FEW_ROWS or kind == "dates":
        return False
    if kind == "categories":
        return bool(values.nunique() >= _NEARLY_ALL * len(values))
    if getattr(values.dtype, "kind", "O") not in "iu" or values.hasnans or not values.is_unique:
        return False
    return bool(_ID_NAME.search(name) or (np.diff(values.to_numpy()) == 1).all())


def _has_infinity(values: Any) -> bool:
    if getattr(values.dtype, "kind", "O") != "f":
        return False
    return bool(np.isinf(values.to_numpy(dtype=float, na_value=np.nan)).any())
