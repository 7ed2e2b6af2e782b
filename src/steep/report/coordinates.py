"""A map of the samples: two coordinates for each, and the features to choose others from.

The samples as neighbours see them (standardised, categories one-hot) are turned so that the first two axes show as much
of their spread as a plane can: principal components. Two features are shown as they are, and one beside the label.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from steep._sklearn import take_rows
from steep._validation import FloatArray, IntArray, one_line, shown
from steep.exceptions import InputError
from steep.plane import principal_plane
from steep.report.packing import pack
from steep.weighting.embedding import embed

# Features that can be chosen as an axis beside the components.
_MOST_FEATURES = 12


def axes_of(X: Any, rows: IntArray, label: tuple[str, FloatArray]) -> list[dict[str, Any]]:
    """Coordinates of some rows of ``X``; the first two are what the map opens with.

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, n_features)
        Samples, as :func:`steep.sample_weights` takes them.
    rows : ndarray of int
        Rows to place.
    label : (str, ndarray of shape (n_rows,))
        Name and number of the label: the second axis where there is one feature alone.

    Returns
    -------
    list of dict
        ``name``, ``about`` (one line, may be empty) and ``values``, packed.
    """
    part = take_rows(X, rows)
    points = embed(part)
    features = _features(part)
    n_columns = np.shape(part)[1] if np.ndim(part) == 2 else len(features)
    plain = [_axis(name, "", values) for name, values in [*features, label]]
    return plain if len(features) == n_columns <= 2 else [*_components(points), *plain]


def _components(points: FloatArray) -> list[dict[str, Any]]:
    """First two principal components."""
    coordinates, shares = principal_plane(points)
    return [_axis(f"component {i + 1}", f"{100 * shares[i]:.0f} % of the spread", coordinates[:, i]) for i in range(2)]


def array_of(values: Any, name: str) -> npt.NDArray[Any]:
    """Any values as an array, or an error that says which are none."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} is {shown(values)}, no array ({one_line(error)}); need rows of one length") from error


def _features(part: Any) -> list[tuple[str, FloatArray]]:
    """Columns of numbers, the first ones, with their names."""
    frame = part if isinstance(part, pd.DataFrame) else pd.DataFrame(_table(part))
    found: list[tuple[str, FloatArray]] = []
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if len(found) == _MOST_FEATURES:
            break
        if not is_numeric_dtype(column) or is_bool_dtype(column):
            continue
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isfinite(values).all():
            found.append((column_name(name), values))
    return found


def column_name(name: Any) -> str:
    """A name for a column; one that has only a number is x0, x1, …."""
    return f"x{name}" if isinstance(name, int | np.integer) else str(name)


def _table(part: Any) -> Any:
    if hasattr(part, "get_columns"):  # polars
        return {column.name: column.to_numpy() for column in part.get_columns()}
    return array_of(part, "X")


def _axis(name: str, about: str, values: FloatArray) -> dict[str, Any]:
    return {"name": name[:80], "about": about, "values": pack(values)}
