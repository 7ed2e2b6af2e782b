"""Which data are not held in memory: Dask collections, memory-mapped ``.npy`` files, Parquet folders; imports none."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from steep.exceptions import InputError, InputTypeError

_COMPARED = 64  # rows by which a file that was replaced is noticed


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
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "__dask_graph__")


def is_npy(data: Any) -> bool:
    """Whether ``data`` is the whole of a ``.npy`` file, so that the file may be read in its place."""
    if not isinstance(data, np.memmap) or not str(data.filename).endswith(".npy"):
        return False
    # A copy-on-write map may hold changes that its file does not. A slice is a memmap, too, whose base is an array.
    if data.mode == "c" or isinstance(data.base, np.ndarray) or not data.flags.c_contiguous:
        return False
    try:
        again = np.load(str(data.filename), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return False
    return isinstance(again, np.memmap) and _is_same(data, again)


def _is_same(data: Any, again: Any) -> bool:
    """Whether two maps are of one array: a file may be mapped from any byte, or replaced since."""
    place = data.shape, data.dtype, data.offset
    if place != (again.shape, again.dtype, again.offset):
        return False
    rows = np.linspace(0, max(len(data) - 1, 0), min(len(data), _COMPARED)).astype(np.intp)
    return bool(np.array(data[rows]).tobytes() == np.array(again[rows]).tobytes())


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
