"""The graph of tasks of one run, and the lazy result on top of it.

    take → train → sort → deal → cut → atlas → join → scale → gather
    chunk   one   chunk    one  group    one   group    one    chunk

Each task is a plain function of the plan and of the small summaries of earlier stages; points, labels and lists go
through the store. A task that is done says so there, so that it may be run again, by anyone, at any time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steep.dask.atlas import draw_atlas
from steep.dask.chunks import gather_chunk, scale_of, take_chunk
from steep.dask.groups import cut_group, join_group, join_whole
from steep.dask.inputs import Rows
from steep.dask.plan import INTERPRETER, Plan, cut_into, deal_groups, sort_chunk, task_memory, train_partition
from steep.dask.store import Store, checkpoint_store, current_client, temporary_store
from steep.exceptions import InputError, warn_user
from steep.rescaling import Rescaling

try:
    from dask import delayed
    from dask.delayed import Delayed
except ImportError as error:  # pragma: no cover
    from steep.exceptions import MissingExtraError

    raise MissingExtraError("data that do not fit in memory need Dask; pip install 'steep[distributed]'") from error


@dataclass(frozen=True)
class Joined:
    """The tasks of all groups, and what they are about."""

    plan: Plan
    shared: Delayed  # the plan, as a node of the graph
    groups: Delayed
    name: Callable[..., str]
    holder: Any
    points: Rows


def join_all(points: Rows, labels: Rows, *, checkpoint: Any, **how: Any) -> Joined:
    """Plan a run and lay out its tasks up to the neighbours of every group; nothing is computed."""
    dtype = "float32" if points.dtype == np.float32 else "float64"
    n_rows = points.bounds[-1]
    if n_rows <= how["n_others"]:
        raise InputError(
            f"n_neighbors={how['n_others'] + how['include_self']} needs at least {how['n_others'] + 1} samples, got "
            f"{n_rows}; lower n_neighbors or pass more data"
        )
    n_groups, n_coarse = cut_into(n_rows, points.n_columns, dtype, how["n_others"])
    _warn_of_small_workers()
    plan = Plan(
        store=Store(""), bounds=points.bounds, n_features=points.n_columns, dtype=dtype, n_groups=n_groups,
        n_coarse=n_coarse, framed=points.kind == "frame", **how,
    )  # fmt: skip
    token, holder = secrets.token_hex(8), None
    if checkpoint is None:
        store, holder = temporary_store()
    else:
        store = checkpoint_store(checkpoint, plan.about([points.source, labels.source]))
    plan = replace(plan, store=store)

    def name(stage: str, *place: int) -> str:
        return "-".join(["steep", stage, token, *map(str, place)])

    return _layout(plan, points, labels, name, holder)


def _layout(plan: Plan, points: Rows, labels: Rows, name: Callable[..., str], holder: Any) -> Joined:
    shared = delayed(plan, traverse=False, name=name("plan"))

    def stage(function: Callable[..., Any], called: str, *arguments: Any) -> Delayed:
        return delayed(_once, pure=False)(shared, called, function, *arguments, dask_key_name=name(called))

    def blocks(chunk: int) -> list[Any]:
        """What a chunk is read from; nothing where a checkpoint has it already."""
        known = plan.store.summary(f"taken-{chunk}") is not None
        return [] if known else [points.blocks[chunk], labels.blocks[chunk]]

    chunks, parts = range(plan.n_chunks), range(plan.n_groups)
    taken = [stage(take_chunk, f"taken-{i}", i, *blocks(i)) for i in chunks]
    partition = stage(train_partition, "partition", taken)
    rows = [stage(sort_chunk, f"sorted-{i}", i, taken[i], partition) for i in chunks]
    if plan.n_groups == 1:
        joined = [stage(join_whole, "joined-0", partition, rows)]
    else:
        groups = stage(deal_groups, "groups", partition, rows)
        cut = [stage(cut_group, f"group-{i}", i, partition, groups) for i in parts]
        atlas = stage(draw_atlas, "atlas", partition, cut)
        joined = [stage(join_group, f"joined-{i}", i, atlas) for i in parts]
    together = delayed(list)(joined, dask_key_name=name("joined"))  # one edge to each chunk, not one from each group
    return Joined(plan, shared, together, name, holder, points)


def _once(plan: Plan, name: str, stage: Callable[..., Any], *arguments: Any) -> Any:
    return plan.store.once(name, stage, plan, *arguments)


def _warn_of_small_workers() -> None:
    """Warn where Dask would end a worker for the memory that a task may use."""
    client = current_client()
    if client is None:
        return
    rooms = [
        worker["memory_limit"] / worker["nthreads"]
        for worker in client.scheduler_info()["workers"].values()
        if worker.get("memory_limit")
    ]
    needed = task_memory() + INTERPRETER
    if rooms and min(rooms) < needed:
        warn_user(
            f"a worker has {min(rooms) / 1e6:.0f} MB for a task and a task may need {needed / 1e6:.0f} MB; give "
            "workers more, or set steep.task-memory lower by dask.config.set"
        )


# ------------------------------------------------------------------------------------ lazy results


def lazy_rows(joined: Joined, scale: Any = None) -> Any:
    """A Dask array, or for frames a Dask series, of the variation, or of weights; in the caller's order."""
    plan, points, name = joined.plan, joined.points, joined.name
    gather = delayed(gather_chunk, pure=False)
    chunks = [
        gather(joined.shared, chunk, joined.groups, scale, joined.holder, dask_key_name=name("gather", chunk))
        for chunk in range(plan.n_chunks)
    ]
    if plan.framed:
        import dask.dataframe as dd
        import pandas as pd

        called = "neighbor_variance" if scale is None else "sample_weight"
        meta = pd.Series([], dtype=np.float64, name=called)
        return dd.from_delayed(chunks, meta=meta, divisions=points.divisions, verify_meta=False)
    import dask.array as da

    arrays = [
        da.from_delayed(chunk, (length,), "float64", name=name("rows", i))
        for i, (chunk, length) in enumerate(zip(chunks, points.lengths, strict=True))
    ]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def scale_task(joined: Joined, rescaling: Rescaling, weight_ratio: float) -> Delayed:
    """The task that finds what turns variation into weights."""
    scale = delayed(scale_of, pure=False)
    return scale(joined.shared, rescaling, weight_ratio, joined.groups, dask_key_name=joined.name("scale"))
