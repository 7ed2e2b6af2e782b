"""Variation and weights of data that do not fit in memory; the results are lazy and in the same order.

:func:`neighbor_variance` and :func:`sample_weights` take Dask arrays and frames and paths of ``.npy`` files.
``docs/decisions/0011`` explains how the data are cut; the setting ``steep.task-memory`` of Dask's configuration says
how much memory a task may use.
"""

from __future__ import annotations

from typing import Any

from steep._validation import check_choice, check_count, check_jobs, check_real, shown
from steep.dask.inputs import read_inputs
from steep.dask.lazy import Joined, join_all, lazy_rows, scale_task
from steep.exceptions import InputError
from steep.labels import TASKS, Task
from steep.rescaling import WEIGHT_RATIO, Rescaling, check_rescaling

__all__ = ["neighbor_variance", "sample_weights"]


def neighbor_variance(
    X: Any,
    y: Any,
    *,
    n_neighbors: int = 20,
    include_self: bool = True,
    task: Task = "auto",
    n_jobs: int | None = None,
    checkpoint: Any = None,
) -> Any:
    """Measure how much the labels vary around each sample; see :func:`steep.neighbor_variance`.

    Parameters
    ----------
    X : Dask array or frame, or path of a .npy file, of shape (n_samples, n_features)
        Samples, all numbers.
    y : Dask array or series, or path of a .npy file
        Labels, cut at the same rows as X.
    n_neighbors, include_self, task
        As in :func:`steep.neighbor_variance`.
    n_jobs : int or None, default=None
        Threads of each task.
    checkpoint : path, optional
        A folder that all workers see, in which finished stages are kept, so that a run that was killed continues.
        By default a temporary folder, which is removed with the result, or under a client at the end of the process.

    Returns
    -------
    Dask array of shape (n_samples,), or Dask series with the index of X

    Examples
    --------
    >>> import dask.array as da
    >>> from steep.dask import neighbor_variance
    >>> X, y = da.from_array([[0.0], [1.0], [2.0], [9.0]], chunks=(2, 1)), da.from_array([0.0, 0.0, 4.0, 4.0], chunks=2)
    >>> neighbor_variance(X, y, n_neighbors=2).compute().tolist()
    [0.0, 0.0, 8.0, 0.0]
    """
    joined = _variation(X, y, n_neighbors, include_self, task, False, n_jobs=n_jobs, checkpoint=checkpoint)
    return lazy_rows(joined)


def sample_weights(
    X: Any,
    y: Any,
    *,
    n_neighbors: int = 20,
    weight_ratio: float = WEIGHT_RATIO,
    rescaling: Rescaling | None = None,
    embedding: Any = "auto",
    task: Task = "auto",
    n_jobs: int | None = None,
    checkpoint: Any = None,
) -> Any:
    """Weight samples by the variance of their neighbours' labels; see :func:`steep.sample_weights`.

    Parameters
    ----------
    X, y, n_jobs, checkpoint
        As in :func:`neighbor_variance`.
    n_neighbors, weight_ratio, rescaling, task
        As in :func:`steep.sample_weights`.
    embedding : {"auto", "standard", None}, default "auto"
        Whether columns are standardised ("auto" and "standard") or taken as they are (None).

    Returns
    -------
    Dask array of shape (n_samples,), or Dask series with the index of X

    Examples
    --------
    >>> import dask.array as da
    >>> from steep.dask import sample_weights
    >>> X, y = da.from_array([[0.0], [1.0], [2.0], [9.0]], chunks=(2, 1)), da.from_array([0.0, 0.0, 4.0, 4.0], chunks=2)
    >>> sample_weights(X, y, n_neighbors=2, weight_ratio=3).compute().round(2).tolist()
    [0.67, 0.67, 2.0, 0.67]
    """
    if embedding is not None and not (isinstance(embedding, str) and embedding in ("auto", "standard")):
        raise InputError(
            f"embedding={shown(embedding)} requires all points in memory; expected 'auto', 'standard' or None; "
            "transform X first with map_blocks"
        )
    rescaling, weight_ratio = check_rescaling(rescaling), check_real(weight_ratio, name="weight_ratio", above=0.0)
    joined = _variation(X, y, n_neighbors, True, task, embedding is not None, n_jobs=n_jobs, checkpoint=checkpoint)
    return lazy_rows(joined, scale_task(joined, rescaling, weight_ratio))


def _variation(
    X: Any, y: Any, n_neighbors: int, include_self: bool, task: Task, standardised: bool, **how: Any
) -> Joined:
    size = check_count(n_neighbors, name="n_neighbors", minimum=2)
    check_choice(task, name="task", choices=TASKS)
    points, labels = read_inputs(X, y)
    inferred = task == "auto"
    if inferred:
        task = "regression" if labels.dtype.kind == "f" else "classification"
    check_choice(include_self, name="include_self", choices=(True, False))
    how["n_jobs"] = check_jobs(how["n_jobs"])
    return join_all(
        points, labels, n_others=size - include_self, include_self=include_self, standardised=standardised, task=task,
        inferred=inferred, **how,
    )  # fmt: skip
