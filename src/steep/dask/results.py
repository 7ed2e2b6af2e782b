"""From groups back to chunks, in the caller's order; and variation → weights with one more pass over all groups.

Weights need the least and the largest variation, of a quantile of it where it is clipped, and their mean: each is
one small task over what the groups have written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.dask.plan import Plan
from steep.dask.store import Summary
from steep.neighbors.graph import GraphInfo
from steep.rescaling import Rescaling, level, raw_weights


def gather_chunk(plan: Plan, chunk: int, kind: str, joined: Sequence[Summary], scale: Any = None) -> Any:
    """Rows of one chunk from all groups, in the caller's order; as weights if a scale is given."""
    first, last = plan.bounds[chunk], plan.bounds[chunk + 1]
    out: npt.NDArray[Any] | None = None
    for group, part in enumerate(joined):
        begin, end = (int(place) for place in part["splits"][chunk : chunk + 2])
        if begin == end:
            continue
        found = plan.store.read(f"out-{kind}-{group}", begin, end)
        if out is None:
            out = np.empty((last - first, *found.shape[1:]), found.dtype)
        out[plan.store.read(f"out-rows-{group}", begin, end) - first] = found
    if out is None:  # a chunk without rows
        out = np.empty(0)
    if scale is not None:
        out = as_weights(out, scale)
    if not plan.framed:
        return out
    import pandas as pd

    index = plan.store.read_index(f"index-{chunk}")
    return pd.Series(out, index=index, name="neighbor_variance" if scale is None else "sample_weight")


# ------------------------------------------------------------------------------------------ weights


def range_of(plan: Plan, rescaling: Rescaling, ratio: float, joined: Sequence[Summary]) -> dict[str, Any]:
    """The least and the largest variation, the latter cut off where the caller wants it."""
    low = float(min(part["low"] for part in joined))
    high = float(max(part["high"] for part in joined))
    low, high = level(np.array([low, high]), float(max(part["size"] for part in joined))).tolist()
    if rescaling.clip is not None:
        high = quantile(plan, rescaling.clip, joined) or high
        low, high = level(np.array([min(low, high), high])).tolist()
    low = low if rescaling.method == "minmax" else 0.0
    return {"low": low, "high": high, "ratio": ratio, "divisor": 1.0, "equal": None}


def weights_of_group(plan: Plan, group: int, ends: dict[str, Any]) -> tuple[float, float, float]:
    """Sum, least and largest of the weights of one group before they are normalised."""
    try:
        weights = as_weights(plan.store.read(f"out-variation-{group}"), ends)
    except FileNotFoundError:  # a group without points
        return 0.0, np.inf, -np.inf
    return float(weights.sum()), float(weights.min()), float(weights.max())


def scale_of(
    plan: Plan, rescaling: Rescaling, ends: dict[str, Any], sums: Sequence[tuple[float, float, float]]
) -> dict[str, Any]:
    """What every chunk needs to turn variation into weights."""
    if rescaling.normalize is None:
        return ends
    total, n_rows = sum(part[0] for part in sums), plan.n_rows
    if min(part[1] for part in sums) == max(part[2] for part in sums):
        return ends | {"equal": 1.0 if rescaling.normalize == "mean" else 1.0 / n_rows}
    return ends | {"divisor": total / n_rows if rescaling.normalize == "mean" else total}


def as_weights(variation: FloatArray, scale: dict[str, Any]) -> FloatArray:
    """Variation → weights, by a range that is known."""
    if scale["equal"] is not None:
        return np.full(len(variation), scale["equal"])
    low, high = scale["low"], scale["high"]
    share = (np.minimum(variation, high) - low) / (high - low) if high > low else np.zeros(len(variation))
    return np.asarray(raw_weights(share, scale["ratio"]) / scale["divisor"])


def quantile(plan: Plan, share: float, joined: Sequence[Summary]) -> float:
    """The quantile of the variation of all groups, which are read together: 8 bytes per row."""
    groups = (group for group in range(len(joined)) if plan.store.path(f"out-variation-{group}").exists())
    return float(np.quantile(np.concatenate([plan.store.read(f"out-variation-{group}") for group in groups]), share))


def describe(plan: Plan, joined: Sequence[Summary], atlas: Summary | None) -> GraphInfo:
    """What the search did: the recall found on the sampled points of all groups."""
    found = np.concatenate([np.atleast_1d(part["found"]) for part in joined])
    if atlas is None:
        return GraphInfo("partitioned", estimated_recall=float(found.mean()))
    return GraphInfo(
        "partitioned",
        estimated_recall=float(found.mean()),
        n_estimated=len(found),
        n_probes=float(atlas["near_start"][-1] / max(1, len(atlas["near_start"]) - 1)),
        reach=float(atlas["reach"]),
        n_coordinates=plan.n_features,
        n_candidates=plan.n_others,
    )
