"""What is done chunk by chunk: the first stage reads them, the last returns variation or weights in the caller's order.

Each chunk is checked, written to the store once, and says what the partition needs to know. Later stages read the store
and not the caller's blocks, which Dask would else keep, or compute again, for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, check_points
from steep.dask.plan import Plan
from steep.dask.store import Summary
from steep.exceptions import InputError, SteepError
from steep.labels import check_labels, label_array
from steep.rescaling import Rescaling, level, raw_weights


def take_chunk(plan: Plan, chunk: int, *blocks: Any) -> dict[str, Any]:
    """Read one chunk, check it and write it."""
    X, y = blocks
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


def gather_chunk(plan: Plan, chunk: int, joined: Sequence[Summary], scale: Any, holder: Any) -> Any:
    """Rows of one chunk from all groups, in the caller's order; as weights if a scale is given.

    The graph of tasks holds on to the temporary folder by ``holder``.
    """
    first, last = plan.bounds[chunk], plan.bounds[chunk + 1]
    out: FloatArray = np.empty(last - first)
    for group, part in enumerate(joined):
        begin, end = (int(place) for place in part["splits"][chunk : chunk + 2])
        if begin == end:
            continue
        rows = plan.store.read(f"out-rows-{group}", begin, end)
        out[rows - first] = plan.store.read(f"out-variation-{group}", begin, end)
    if scale is not None:
        out = as_weights(out, scale)
    if not plan.framed:
        return out
    import pandas as pd

    index = plan.store.read_index(f"index-{chunk}")
    return pd.Series(out, index=index, name="neighbor_variance" if scale is None else "sample_weight")


# ------------------------------------------------------------------------------------------ weights


def scale_of(plan: Plan, rescaling: Rescaling, ratio: float, joined: Sequence[Summary]) -> dict[str, Any]:
    """What every chunk needs to turn variation into weights: its range, and the sum of the weights of all groups."""
    low = float(min(part["low"] for part in joined))
    high = float(max(part["high"] for part in joined))
    low, high = level(np.array([low, high]), float(max(part["size"] for part in joined))).tolist()
    has = [group for group, part in enumerate(joined) if part["splits"][-1]]  # the others have no points
    if rescaling.clip is not None:  # the variation of all groups at once: 8 bytes per row
        variation = np.concatenate([plan.store.read(f"out-variation-{group}") for group in has])
        high = float(np.quantile(variation, rescaling.clip)) or high
        low, high = level(np.array([min(low, high), high])).tolist()
    low = low if rescaling.method == "minmax" else 0.0
    scale: dict[str, Any] = {"low": low, "high": high, "ratio": ratio, "divisor": 1.0, "equal": None}
    if rescaling.normalize is None:
        return scale
    total, least, most = 0.0, np.inf, -np.inf
    for group in has:
        weights = as_weights(plan.store.read(f"out-variation-{group}"), scale)
        total, least, most = total + weights.sum(), min(least, weights.min()), max(most, weights.max())
    is_mean = rescaling.normalize == "mean"
    if least == most:
        return scale | {"equal": 1.0 if is_mean else 1.0 / plan.n_rows}
    return scale | {"divisor": total / plan.n_rows if is_mean else total}


def as_weights(variation: FloatArray, scale: dict[str, Any]) -> FloatArray:
    """Variation → weights, by a range that is known."""
    if scale["equal"] is not None:
        return np.full(len(variation), scale["equal"])
    low, high = scale["low"], scale["high"]
    share = (np.minimum(variation, high) - low) / (high - low) if high > low else np.zeros(len(variation))
    return np.asarray(raw_weights(share, scale["ratio"]) / scale["divisor"])
