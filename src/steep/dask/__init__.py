"""The same calls on data that do not fit in memory: Dask arrays and frames, ``.npy`` files, Parquet folders.

:func:`steep.sample_weights`, :func:`steep.neighbor_variance` and :func:`steep.neighbor_graph` call it when they are
given such data, and return lazily. ``docs/decisions/0011`` explains how the data are cut; the setting
``steep.task-memory`` of Dask's configuration says how much memory a task may use.
"""

from __future__ import annotations

from typing import Any

from steep._validation import Seed, check_choice, check_count, check_generator, check_jobs, check_real, shown
from steep.exceptions import InputError
from steep.labels import TASKS
from steep.measures.neighborhood import RECALL
from steep.rescaling import Rescaling


def lazy_graph(
    X: Any,
    *,
    n_neighbors: int,
    include_self: bool,
    recall: float,
    algorithm: str,
    metric: str,
    n_jobs: int | None,
    random_state: Seed,
    return_info: bool,
    checkpoint: Any,
) -> Any:
    """:func:`steep.neighbor_graph` of large data: Dask arrays of distances and indices."""
    from steep.dask.inputs import read_inputs
    from steep.dask.lazy import info_task, join_all, lazy_rows

    n_neighbors = check_count(n_neighbors, name="n_neighbors", minimum=2 if include_self else 1)
    check_choice(include_self, name="include_self", choices=(True, False))
    check_real(recall, name="recall", above=0.0, maximum=1.0)
    check_choice(algorithm, name="algorithm", choices=("auto", "exact", "tree", "partitioned"))
    check_choice(metric, name="metric", choices=("euclidean", "cosine"))
    points, _ = read_inputs(X, None)
    joined = join_all(
        points, None, checkpoint=checkpoint, n_others=n_neighbors - include_self, include_self=include_self,
        recall=recall, metric=metric, standardised=False, wanted="graph", task="regression", seed=_seed(random_state),
        algorithm=algorithm, n_jobs=check_jobs(n_jobs),
    )  # fmt: skip
    distances = lazy_rows(joined, "distances", shape=(n_neighbors,), dtype="float32")
    indices = lazy_rows(joined, "indices", shape=(n_neighbors,), dtype="int32")
    return (distances, indices, info_task(joined)) if return_info else (distances, indices)


def lazy_variance(
    X: Any, y: Any, *, n_neighbors: int, include_self: bool, task: str, n_jobs: int | None, checkpoint: Any
) -> Any:
    """:func:`steep.neighbor_variance` of large data."""
    from steep.dask.lazy import lazy_rows

    joined = _variation(X, y, n_neighbors, include_self, task, n_jobs, checkpoint, standardised=False)
    return lazy_rows(joined, "variation", dtype="float64")


def lazy_weights(
    X: Any,
    y: Any,
    *,
    n_neighbors: int,
    weight_ratio: float,
    measure: str,
    rescaling: Rescaling,
    embedding: Any,
    task: str,
    n_jobs: int | None,
    checkpoint: Any,
) -> Any:
    """:func:`steep.sample_weights` of large data."""
    from steep.dask.lazy import lazy_rows, scale_tasks
    from steep.dask.results import Scaling

    if measure != "variance":
        raise InputError(
            f"measure={shown(measure)} needs all points in memory; need 'variance' for Dask arrays and files"
        )
    _check_embedding(embedding)
    weight_ratio = check_real(weight_ratio, name="weight_ratio", above=0.0)
    scaling = Scaling(weight_ratio, rescaling.method, rescaling.normalize, rescaling.clip)
    joined = _variation(X, y, n_neighbors, True, task, n_jobs, checkpoint, standardised=embedding is not None)
    return lazy_rows(joined, "variation", scale_tasks(joined, scaling), dtype="float64")


def _check_embedding(embedding: Any) -> None:
    if embedding is not None and not (isinstance(embedding, str) and embedding in ("auto", "standard")):
        raise InputError(
            f"embedding={shown(embedding)} needs all points in memory; need 'auto', 'standard' or None for Dask arrays "
            "and files; transform X first, by map_blocks"
        )


def _variation(
    X: Any,
    y: Any,
    n_neighbors: int,
    include_self: bool,
    task: str,
    n_jobs: int | None,
    checkpoint: Any,
    *,
    standardised: bool,
) -> Any:
    from steep.dask.inputs import read_inputs
    from steep.dask.lazy import join_all

    size = check_count(n_neighbors, name="n_neighbors", minimum=2)
    check_choice(include_self, name="include_self", choices=(True, False))
    check_choice(task, name="task", choices=TASKS)
    if y is None:
        raise InputError("y is None; need labels; pass y cut like X")
    points, labels = read_inputs(X, y)
    inferred = task == "auto"
    if labels is not None and inferred:
        task = "regression" if labels.dtype.kind == "f" else "classification"
    return join_all(
        points, labels, checkpoint=checkpoint, n_others=size - include_self, include_self=include_self, recall=RECALL,
        metric="euclidean", standardised=standardised, wanted="variation", task=task, seed=0, algorithm="auto",
        inferred=inferred, n_jobs=check_jobs(n_jobs),
    )  # fmt: skip


def _seed(random_state: Seed) -> int:
    """A whole number: every task draws from it, in whatever process it runs. None is 0, so that runs can resume."""
    if random_state is None:
        return 0
    if isinstance(random_state, int):
        return int(check_count(random_state, name="random_state", minimum=0))
    return int(check_generator(random_state).integers(2**31))
