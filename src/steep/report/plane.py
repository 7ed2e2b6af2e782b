"""A map of the samples: two coordinates for each, and the features to choose others from.

The samples as neighbours see them (standardised, categories one-hot) are turned so that the first two axes show as much
of their spread as a plane can: principal components. Two features or fewer are shown as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from steep._sklearn import take_rows
from steep._validation import FloatArray, IntArray
from steep.report.packing import pack
from steep.weighting.embedding import embed

# Features that can be chosen as an axis beside the components.
_MOST_FEATURES = 12


def axes_of(X: Any, rows: IntArray) -> list[dict[str, Any]]:
    """Coordinates of some rows of ``X``; the first two are what the map opens with.

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, n_features)
        Samples, as :func:`steep.sample_weights` takes them.
    rows : ndarray of int
        Rows to place.

    Returns
    -------
    list of dict
        ``name``, ``about`` (one line, may be empty) and ``values``, packed.
    """
    part = take_rows(X, rows)
    features = _features(part)
    n_columns = np.shape(part)[1] if np.ndim(part) == 2 else len(features)
    if len(features) == n_columns == 2:
        return [_axis(name, "", values) for name, values in features]
    return [*_components(embed(part)), *(_axis(name, "", values) for name, values in features)]


def _components(points: FloatArray) -> list[dict[str, Any]]:
    """First two principal components; a line is drawn over a second axis of zeros."""
    centred = np.asarray(points, dtype=np.float64) - points.mean(axis=0)
    total = float((centred**2).sum()) or 1.0
    # The covariance is small where the samples are many, and the other way round.
    _, sizes, directions = np.linalg.svd(
        np.linalg.qr(centred, mode="r") if len(centred) > centred.shape[1] else centred, full_matrices=False
    )
    axes = []
    for i in range(2):
        if i >= len(sizes) or sizes[i] == 0:
            axes.append(_axis(f"component {i + 1}", "no spread left", np.zeros(len(points))))
            continue
        # The sign of a direction is arbitrary: its largest entry is made positive.
        direction = directions[i] * np.sign(directions[i][np.abs(directions[i]).argmax()])
        share = 100 * sizes[i] ** 2 / total
        axes.append(_axis(f"component {i + 1}", f"{share:.0f} % of the spread", centred @ direction))
    return axes


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
    return np.asarray(part)


def _axis(name: str, about: str, values: FloatArray) -> dict[str, Any]:
    return {"name": name[:80], "about": about, "values": pack(values)}
