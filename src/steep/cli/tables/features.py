"""Features as points: every column encoded as :mod:`steep.weighting.embedding` does, one after another.

A million rows are read column by column into one array of floats, so that the table itself is never in memory
as a whole. Missing values are counted first and refused unless the user asked for ``--impute``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from steep._validation import FloatArray
from steep.cli.printing import listed
from steep.cli.tables import Table
from steep.exceptions import InputError
from steep.weighting.embedding import encode

IMPUTE = ("median", "mean")
# Above this many numbers the points are kept in float32, in which the search works anyway.
_MANY_NUMBERS = 2**22
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
    width : int
        Columns it takes among the points.
    is_id : bool
        Whether it looks like an id.
    """

    name: str
    kind: str
    n_missing: int = 0
    width: int = 1
    is_id: bool = False


@dataclass
class Features:
    """The samples as points, and what was found on the way.

    Attributes
    ----------
    points : ndarray of shape (n_samples, n_coordinates)
        Standardised numbers, encoded categories and dates.
    columns : list of Column
        One for each column used.
    counters : list of str
        Columns left out because they only count the rows.
    """

    points: FloatArray
    columns: list[Column] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)

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


def read_features(
    table: Table, names: Collection[str], *, keep: Collection[str] = (), impute: str | None = None
) -> Features:
    """Read the features of a table as points.

    Parameters
    ----------
    table : Table
        The table.
    names : collection of str
        Its features.
    keep : collection of str
        Columns to use though they count the rows.
    impute : {"median", "mean"}, optional
        What stands for a missing number, with a further column that says so; a missing category counts as the
        most frequent one. Without it missing values are refused.
    """
    if not names:
        raise _nothing_left(table)
    matrix = _Matrix(table.n_rows, len(names))
    columns, counters, infinite = [], [], []
    is_refused = False
    for name, values in table.columns(list(names)):
        if name not in keep and counts_rows(name, values):
            counters.append(name)
            continue
        kind, n_missing = kind_of(values), int(values.isna().sum())
        if kind == "numbers" and _has_infinity(values):
            infinite.append(name)
        is_refused = is_refused or bool(infinite) or (n_missing > 0 and impute is None)
        # Once it is clear that the table is refused, columns are only counted.
        width = 1 if is_refused else matrix.add(_encoded(values, kind, impute))
        is_id = name not in keep and _looks_like_id(name, values, kind)
        columns.append(Column(name, kind, n_missing, width, is_id))
    features = Features(matrix.points, columns, counters)
    _refuse(features, table, infinite, impute)
    return features


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
    if (
        len(values) < 3
        or not is_numeric_dtype(values)
        or is_bool_dtype(values)
        or values.iloc[0] not in (0, 1)
    ):
        return False
    if values.hasnans:
        return False
    return bool(np.array_equal(values.to_numpy(), np.arange(len(values)) + int(values.iloc[0])))


def _looks_like_id(name: str, values: Any, kind: str) -> bool:
    if len(values) < _FEW_ROWS or kind == "dates":
        return False
    if kind == "categories":
        return bool(values.nunique() >= _NEARLY_ALL * len(values))
    if getattr(values.dtype, "kind", "O") not in "iu" or not values.is_unique:
        return False
    return bool(_ID_NAME.search(name) or (np.diff(values.to_numpy()) == 1).all())


def _has_infinity(values: Any) -> bool:
    if getattr(values.dtype, "kind", "O") != "f":
        return False
    return bool(np.isinf(values.to_numpy(dtype=float, na_value=np.nan)).any())


def _encoded(values: Any, kind: str, impute: str | None) -> FloatArray:
    """The points of one column; missing ones at the median, which embedding does, or at the mean."""
    missing = values.isna()
    if kind == "numbers" and impute == "mean" and missing.any():
        filled = values.astype(float).fillna(values.astype(float).mean())
        return np.hstack([encode(filled.to_frame()), missing.to_numpy(dtype=float)[:, None]])
    return encode(values.to_frame())


def _refuse(features: Features, table: Table, infinite: list[str], impute: str | None) -> None:
    if not features.columns:
        raise _nothing_left(table)
    if infinite:
        raise InputError(
            f"columns {listed(infinite)} hold infinite values; need finite numbers; mend them, or leave them out with "
            "--drop"
        )
    if features.missing and impute is None:
        counts = ", ".join(f"{name!r} {n:,}" for name, n in list(features.missing.items())[:8])
        more = f" and {len(features.missing) - 8} more" if len(features.missing) > 8 else ""
        raise InputError(
            f"values are missing in {len(features.missing)} of {len(features.columns)} columns ({counts}{more}, of "
            f"{table.n_rows:,} rows); need all; pass --impute median, or leave the columns out with --drop"
        )


def _nothing_left(table: Table) -> InputError:
    return InputError(
        f"{table.title} has no column left to compare samples by; need one; pass --keep COLUMN, or drop less"
    )


class _Matrix:
    """Points that grow by columns; room for one a feature is made at once, which is enough for numbers."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        dtype = np.float32 if n_rows * n_columns > _MANY_NUMBERS else np.float64
        self._room: npt.NDArray[Any] = np.empty((n_rows, max(n_columns, 1)), dtype)
        self._used = 0

    def add(self, part: FloatArray) -> int:
        """Add the points of one column; how many coordinates they took."""
        width = int(part.shape[1])
        if self._used + width > self._room.shape[1]:
            larger = np.empty(
                (len(self._room), max(self._used + width, 2 * self._room.shape[1])), self._room.dtype
            )
            larger[:, : self._used] = self._room[:, : self._used]
            self._room = larger
        self._room[:, self._used : self._used + width] = part
        self._used += width
        return width

    @property
    def points(self) -> FloatArray:
        """The points so far, in one piece of memory."""
        return (
            self._room
            if self._used == self._room.shape[1]
            else np.ascontiguousarray(self._room[:, : self._used])
        )
