"""Maps of the samples: which rows of a large data set are shown, two coordinates for each, and features to choose from.

The samples as neighbours see them (standardised, categories one-hot) are turned so that the first two axes show as much
of their spread as a plane can: principal components. Two features are shown as they are, and one next to the label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from steep._sklearn import take_rows
from steep._validation import FloatArray, IntArray, one_line, shown
from steep.exceptions import InputError
from steep.plotting.weights import principal_plane
from steep.report.page import pack
from steep.weighting.embedding import embed

# Points of a map: a canvas redraws this many while a slider moves.
MOST_POINTS = 10_000
# Rows of a table, which all stand in the page.
MOST_ROWS = 100
# Features that can be chosen as an axis in addition to the components.
_MOST_FEATURES = 12


@dataclass(frozen=True)
class Shown:
    """Rows on the map, in the order of the data; rows in the table, hardest first; and what is shown, in words."""

    points: IntArray
    hardest: IntArray
    sentence: str

    @classmethod
    def of(cls, hardness: FloatArray, generator: np.random.Generator) -> Shown:
        """The hardest rows, and others at random if there are too many."""
        n_samples = len(hardness)
        hardest = np.argsort(-hardness, kind="stable")[:MOST_ROWS]
        if n_samples <= MOST_POINTS:
            return cls(np.arange(n_samples), hardest, f"All {n_samples:,} rows are on the map.")
        drawn = generator.choice(n_samples, MOST_POINTS, replace=False)
        others = np.setdiff1d(drawn, hardest)
        surplus = len(others) + len(hardest) - MOST_POINTS
        if surplus > 0:
            others = generator.permutation(others)[surplus:]
        points = np.sort(np.concatenate([others, hardest]))
        sentence = (
            f"{len(points):,} of {n_samples:,} rows are on the map, drawn at random, the {len(hardest)} hardest always "
            "among them. Distribution and figures are of all rows."
        )
        return cls(points, hardest, sentence)


def axes_of(X: Any, rows: IntArray, label: tuple[str, FloatArray]) -> list[dict[str, Any]]:
    """Coordinates of some rows of ``X``, packed; the first two are what the map opens with.

    ``label`` has a name and a number per row: the second axis if there is one feature alone.
    """
    part = take_rows(X, rows)
    points = embed(part)
    features = _features(part)
    n_columns = np.shape(part)[1] if np.ndim(part) == 2 else len(features)
    plain = [_axis(name, "", values) for name, values in [*features, label]]
    if len(features) == n_columns <= 2:
        return plain
    planes = zip(("component 1", "component 2"), *(part.T for part in principal_plane(points)), strict=True)
    return [*(_axis(name, f"{100 * share:.0f} % of the spread", values) for name, values, share in planes), *plain]


def array_of(values: Any, name: str) -> npt.NDArray[Any]:
    """Any values as an array, or an error that says which are none."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name} is {shown(values)}, not an array ({one_line(error)}); expected rows of one length"
        ) from error


def _features(part: Any) -> list[tuple[str, FloatArray]]:
    """Columns of numbers, the first ones, with their names."""
    frame = frame_of(part, "X")
    found: list[tuple[str, FloatArray]] = []
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if len(found) == _MOST_FEATURES:
            break
        if not is_number(column.dtype):
            continue
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isfinite(values).all():
            found.append((column_name(name), values))
    return found


def column_name(name: Any) -> str:
    """A name for a column; one that has only a number is x0, x1, …."""
    return f"x{name}" if isinstance(name, int | np.integer) else str(name)


def frame_of(table: Any, name: str) -> pd.DataFrame:
    """A table of pandas, polars or NumPy as one of pandas."""
    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "get_columns"):  # polars
        return pd.DataFrame({column.name: column.to_numpy() for column in table.get_columns()})
    array = array_of(table, name)
    if array.ndim != 2:
        raise InputError(f"{name} has shape {array.shape}; expected (n_samples, n_columns)")
    return pd.DataFrame(array)


def _axis(name: str, about: str, values: FloatArray) -> dict[str, Any]:
    return {"name": name[:80], "about": about, "values": pack(values)}


def is_number(dtype: Any) -> bool:
    """Whether a column holds numbers."""
    return bool(is_numeric_dtype(dtype) and not is_bool_dtype(dtype))
