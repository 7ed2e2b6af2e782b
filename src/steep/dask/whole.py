"""Data that one task can hold: the in-memory engine itself, on a worker."""

from __future__ import annotations

import numpy as np

from steep.dask.groups import read_group
from steep.dask.plan import Plan
from steep.dask.store import Summary
from steep.labels import Labels
from steep.measures.variance import prefix_variances
from steep.neighbors.graph import search_graph


def join_whole(plan: Plan, partition: Summary, sorted_: list[Summary]) -> Summary:
    """Find the neighbours of all points; what is written is what one group would write."""
    done = plan.store.summary("joined-0")
    if done is not None:
        return done
    counts = np.stack([part["counts"] for part in sorted_])
    own = read_group(plan, 0, {"counts": counts, "group": np.zeros(counts.shape, np.int64)})
    points, rows, found = own["points"], own["rows"], own["labels"]
    labels = None
    if plan.wanted == "variation":
        labels = Labels(codes=found, classes=partition["classes"]) if found.ndim == 1 else Labels(values=found)
    distances, indices, info = search_graph(
        points,
        n_neighbors=plan.n_neighbors,
        include_self=plan.include_self,
        recall=plan.recall,
        n_jobs=plan.n_jobs,
        random_state=plan.seed,
    )
    low = high = size = 0.0
    plan.store.write("out-rows-0", rows)
    if labels is not None:
        variation = prefix_variances(labels, indices, [plan.n_neighbors])[0]
        plan.store.write("out-variation-0", variation)
        low, high, size = float(variation.min()), float(variation.max()), labels.size
    else:
        if plan.metric == "cosine":
            distances = distances * distances * np.float32(0.5)
        plan.store.write("out-distances-0", distances)
        plan.store.write("out-indices-0", indices)
    splits = np.asarray(plan.bounds, np.int64)
    return plan.store.finish("joined-0", splits=splits, found=[info.estimated_recall], low=low, high=high, size=size)
