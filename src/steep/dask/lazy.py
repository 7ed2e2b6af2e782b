"""The graph of tasks of one run, and the lazy result on top of it.

    take → train → sort → deal → cut → atlas → join → range → sums → scale → gather
    chunk   one   chunk    one  group    one   group    one   group    one   chunk

Each task is a plain function of the plan and of the small summaries of earlier stages; points, labels and lists go
through the store. A task that is done says so there, so that it may be run again, by anyone, at any time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steep.dask.atlas import draw_atlas
from steep.dask.groups import cut_group
from steep.dask.inputs import Rows
from steep.dask.joining import join_group, join_whole
from steep.dask.partition import deal_groups, sort_chunk, train_partition
from steep.dask.plan import INTERPRETER, Plan, cut_into, task_memory
from steep.dask.results import describe, gather_chunk, range_of, scale_of, weights_of_group
from steep.dask.store import Store, checkpoint_store, current_client, temporary_store
from steep.dask.taking import take_chunk
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
    atlas: Delayed | None
    name: Callable[..., str]
    holder: Any
    points: Rows


def join_all(points: Rows, labels: Rows | None, *, checkpoint: Any, **how: Any) -> Joined:
    """Plan a run and lay out its tasks up to the neighbours of every group; nothing is computed."""
    dtype = "float32" if points.dtype == np.float32 else "float64"
    n_rows = points.bounds[-1]
    if n_rows <= how["n_others"]:
        raise InputError(
            f"n_neighbors={how['n_others'] + how['include_self']} needs at least {how['n_others'] + 1} samples, got "
            f"{n_rows}; lower n_neighbors or pass more data"
        )
    n_groups, n_coarse = cut_into(n_rows, points.n_columns, dtype, how["n_others"])
    if n_groups > 1 and how["recall"] == 1.0:
        raise InputError(
            f"recall=1 needs all points in one task, got {n_groups} groups; expected recall < 1, such as 0.99; or "
            "raise steep.task-memory"
        )
    _warn_of_small_workers()
    plan = Plan(
        store=Store(""), bounds=points.bounds, n_features=points.n_columns, dtype=dtype, n_groups=n_groups,
        n_coarse=n_coarse, framed=points.kind == "frame" and labels is not None, **how,
    )  # fmt: skip
    token = secrets.token_hex(8)
    sources = [points.source, "" if labels is None else labels.source]
    holder = None
    if checkpoint is None:
        store, holder = temporary_store()
        known = False
    else:
        store = checkpoint_store(checkpoint, plan.about() | {"source": sources})
        known = _same_source(store, sources)
    plan = replace(plan, store=store)

    def name(stage: str, *place: int) -> str:
        return "-".join(["steep", stage, token, *map(str, place)])

    return _layout(plan, [points, labels], name, holder, known)


def _layout(plan: Plan, given: Sequence[Rows | None], name: Callable[..., str], holder: Any, known: bool) -> Joined:
    points: Any = given[0]
    shared = delayed(plan, traverse=False, name=name("plan"))

    def stage(function: Callable[..., Any], called: str, *arguments: Any) -> Delayed:
        return delayed(_once, pure=False)(shared, called, function, *arguments, dask_key_name=name(called))

    take, chunks, parts = delayed(_take, pure=False), range(plan.n_chunks), range(plan.n_groups)
    taken = [take(shared, i, *_blocks(plan, given, i, known), dask_key_name=name("take", i)) for i in chunks]
    partition = stage(train_partition, "partition", taken)
    rows = [stage(sort_chunk, f"sorted-{i}", i, taken[i], partition) for i in chunks]
    atlas = None
    if plan.n_groups == 1:
        joined = [stage(join_whole, "joined-0", partition, rows)]
    else:
        groups = stage(deal_groups, "groups", partition, rows)
        cut = [stage(cut_group, f"group-{i}", i, partition, groups) for i in parts]
        atlas = stage(draw_atlas, "atlas", partition, cut)
        joined = [stage(join_group, f"joined-{i}", i, partition, atlas) for i in parts]
    together = delayed(list)(joined, dask_key_name=name("joined"))  # one edge to each chunk, not one from each group
    return Joined(plan, shared, together, atlas, name, holder, points)


def _once(plan: Plan, name: str, stage: Callable[..., Any], *arguments: Any) -> Any:
    """Run a stage on the worker, unless it is done."""
    return plan.store.once(name, stage, plan, *arguments)


def _take(plan: Plan, chunk: int, *blocks: Any) -> Any:
    """Read what is to be read here, on the worker, and take it in."""
    return take_chunk(plan, chunk, *(block() if callable(block) else block for block in blocks))


def _blocks(plan: Plan, given: Sequence[Rows | None], chunk: int, known: bool) -> list[Any]:
    """The blocks of a chunk; none where a checkpoint of the same source has them already."""
    if known and plan.store.summary(f"taken-{chunk}") is not None:
        return [None for _ in given]
    return [None if rows is None else rows.blocks[chunk] for rows in given]


def _same_source(store: Store, sources: list[str]) -> bool:
    """Whether the checkpoint was begun with the same files or collections, so that they need not be read again."""
    import json
    from pathlib import Path

    return bool(json.loads((Path(store.folder) / "steep.json").read_text()).get("source") == sources)


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


def lazy_rows(joined: Joined, kind: str, scale: Any = None, *, shape: tuple[int, ...] = (), dtype: Any) -> Any:
    """A Dask array, or for frames a Dask series, of what the groups have found, in the caller's order."""
    plan, points = joined.plan, joined.points
    is_frame = plan.framed
    chunks = [
        delayed(_gather, pure=False)(
            joined.shared, chunk, kind, joined.groups, scale, joined.holder,
            dask_key_name=joined.name(f"gather-{kind}", chunk),
        )
        for chunk in range(plan.n_chunks)
    ]  # fmt: skip
    if is_frame:
        import dask.dataframe as dd
        import pandas as pd

        called = "neighbor_variance" if scale is None else "sample_weight"
        meta = pd.Series([], dtype=np.float64, name=called)
        return dd.from_delayed(chunks, meta=meta, divisions=points.divisions, verify_meta=False)
    import dask.array as da

    lengths = points.lengths
    arrays = [
        da.from_delayed(chunk, (length, *shape), dtype, name=joined.name(f"rows-{kind}", i))
        for i, (chunk, length) in enumerate(zip(chunks, lengths, strict=True))
    ]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def _gather(plan: Plan, chunk: int, kind: str, joined: Any, scale: Any, holder: Any) -> Any:
    """As :func:`gather_chunk`; the graph holds on to the temporary folder here."""
    return gather_chunk(plan, chunk, kind, joined, scale)


def scale_tasks(joined: Joined, rescaling: Rescaling, weight_ratio: float) -> Delayed:
    """The tasks that find what turns variation into weights."""
    plan, name = joined.plan, joined.name
    ends = delayed(range_of, pure=False)(
        joined.shared, rescaling, weight_ratio, joined.groups, dask_key_name=name("range")
    )
    sums = [
        delayed(weights_of_group, pure=False)(joined.shared, group, ends, dask_key_name=name("sum", group))
        for group in range(plan.n_groups)
    ]
    return delayed(scale_of, pure=False)(joined.shared, rescaling, ends, sums, dask_key_name=name("scale"))


def info_task(joined: Joined) -> Delayed:
    """What the search did, once it is done."""
    return delayed(describe, pure=False)(joined.shared, joined.groups, joined.atlas, dask_key_name=joined.name("info"))
