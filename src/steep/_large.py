"""Which data are not held in memory: Dask collections, memory-mapped ``.npy`` files, Parquet folders; imports none."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from steep.exceptions import InputError, InputTypeError


def is_large(data: Any) -> bool:
    """Whether ``data`` is to be weighed by Dask, piece by piece.

    Examples
    --------
    >>> is_large([[1.0]]), is_large("points.npy")
    (False, True)
    """
    return is_collection(data) or isinstance(data, str | PathLike) or is_npy(data)


def is_collection(data: Any) -> bool:
    """Whether ``data`` is a lazy Dask array, frame, series or bag."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(
        data, "__dask_graph__"
    )


def is_npy(data: Any) -> bool:
    """Whether ``data`` is the whole of a ``.npy`` file as ``np.load(path, mmap_mode="r")`` maps it."""
    if not isinstance(data, np.memmap) or not str(data.filename).endswith(".npy"):
        return False
    # A slice of it is a memmap, too, and says nothing of where it begins: its base is another array.
    return not isinstance(data.base, np.ndarray) and data.flags.c_contiguous


def refuse_large(data: Any, name: str, instead: str) -> None:
    """Refuse a Dask collection where it would be loaded whole; ``instead`` says what to do."""
    if is_collection(data):
        raise InputTypeError(
            f"{name} is a Dask {type(data).__name__}, which would be loaded whole; need data in memory; {instead}"
        )


def refuse_unloaded(data: Any, name: str) -> None:
    """Reject a Dask collection, or the path of a file, where data in memory are expected."""
    if is_collection(data):
        raise InputTypeError(
            f"{name} is a Dask {type(data).__name__}; expected data in memory; pass {name}.compute() if it fits, or "
            "some of the rows"
        )
    if isinstance(data, str | PathLike):
        raise InputTypeError(
            f"{name} is the path {str(data)!r}; expected data in memory; load the file first and pass what it holds"
        )


def refuse_checkpoint(checkpoint: Any) -> None:
    """Refuse a checkpoint of data in memory, of which none is made."""
    if checkpoint is not None:
        raise InputError(
            f"checkpoint={str(checkpoint)!r} is for data that are not in memory; need a Dask array or frame, a .npy "
            "file or a folder of Parquet; leave it out"
        )


def refuse_graph(neighbors: Any) -> None:
    """Refuse a graph beside data that are not in memory."""
    if neighbors is not None:
        raise InputError(
            "neighbors= is given with data that are not in memory; need data in memory, or no graph; leave it out"
        )
