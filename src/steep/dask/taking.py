"""The first stage: each chunk is checked, written to the store once, and says what the partition needs to know.

Later stages read the store and not the caller's blocks, which Dask would else keep, or compute again, for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, check_points
from steep.dask.plan import Plan
from steep.exceptions import InputError, SteepError
from steep.labels import check_labels, label_array


def take_chunk(plan: Plan, chunk: int, *blocks: Any) -> dict[str, Any]:
    """Read one chunk, check it and write it."""
    X, y = (block() if callable(block) else block for block in blocks)
    points, labels, classes = _read(plan, chunk, X, y)
    first, last = plan.bounds[chunk], plan.bounds[chunk + 1]
    if plan.framed:
        plan.store.write_index(f"index-{chunk}", X.index)
    if first == last:
        return _nothing(plan)
    sampled = plan.sampled_rows()
    mine = sampled[slice(*np.searchsorted(sampled, (first, last)))] - first
    plan.store.write(f"x-{chunk}", points)
    plan.store.write(f"y-{chunk}", labels)
    return {
        "n_rows": len(points), "mean": points.mean(axis=0, dtype=np.float64),
        "squares": points.var(axis=0, dtype=np.float64) * len(points), "lower": points.min(axis=0).astype(np.float64),
        "upper": points.max(axis=0).astype(np.float64), "sample": points[mine], "classes": classes,
    }  # fmt: skip


def _read(plan: Plan, chunk: int, X: Any, y: Any) -> tuple[FloatArray, npt.NDArray[Any], npt.NDArray[Any]]:
    """Points, labels as codes or values, and what the codes stand for."""
    first, last = plan.bounds[chunk], plan.bounds[chunk + 1]
    if first == last:
        return np.empty((0, plan.n_features), plan.dtype), np.empty(0, np.int32), np.empty(0)
    try:
        points = check_points(X).astype(plan.dtype, copy=False)
        if points.shape != (last - first, plan.n_features):
            raise InputError(f"X has shape {points.shape}; expected ({last - first}, {plan.n_features}) as announced")
        if plan.inferred and plan.task == "classification" and label_array(y, "y").dtype.kind == "f":
            raise InputError(
                "y holds numbers as objects; expected task= for such labels; pass task='regression', or "
                "task='classification' if they are classes"
            )
        labels = check_labels(y, n_samples=len(points), task=plan.task)  # type: ignore[arg-type]
        if labels.codes is None and labels.n_columns != np.shape(y)[-1] and np.ndim(y) == 2:
            raise InputError(
                "y has columns of several classes; expected 0/1 columns in Dask arrays; encode them one-hot"
            )
    except SteepError as error:
        raise type(error)(f"{plan.called(chunk)}: {error}") from error
    if labels.codes is None:
        return points, labels.array, np.empty(0)
    return points, labels.codes, _plain_classes(labels.classes, chunk)


def _nothing(plan: Plan) -> dict[str, Any]:
    """What a chunk without rows says."""
    none = np.zeros(plan.n_features)
    return {
        "n_rows": 0, "mean": none, "squares": none, "lower": none + np.inf, "upper": none - np.inf,
        "sample": np.empty((0, plan.n_features), plan.dtype), "classes": np.empty(0),
    }  # fmt: skip


def _plain_classes(classes: Any, chunk: int) -> npt.NDArray[Any]:
    """Classes in a form that needs no pickle."""
    if classes.dtype.kind != "O":
        return np.asarray(classes)
    kinds = {type(value) for value in classes}
    if kinds != {str}:
        raise InputError(
            f"partition {chunk}: y holds objects of kind {', '.join(sorted(kind.__name__ for kind in kinds))}; "
            "expected numbers or text; convert them to str"
        )
    return np.asarray(classes.tolist(), dtype=np.str_)
