"""From groups back to chunks, in the caller's order; and variation → weights with one more pass over all groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steep._validation import FloatArray
from steep.dask.plan import Plan
from steep.dask.store import Summary
from steep.rescaling import Rescaling, level, raw_weights


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
