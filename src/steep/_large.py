"""Data that are not held in memory: Dask collections, ``.npy`` files and Parquet folders; imports none of them."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from steep.exceptions import InputTypeError


def is_collection(data: Any) -> bool:
    """Whether ``data`` is a lazy Dask array, frame, series or bag."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "__dask_graph__")


def refuse_large(data: Any, name: str) -> None:
    """Reject a Dask collection or the path of a file where data in memory are expected."""
    if is_collection(data):
        got, instead = f"a Dask {type(data).__name__}", f"pass {name}.compute() if it fits"
    elif isinstance(data, PathLike) or (isinstance(data, str) and _is_path(data)):
        got, instead = f"the path {str(data)!r}", "load the file and pass what it holds"
    else:
        return
    raise InputTypeError(
        f"{name} is {got}; expected data in memory; {instead}, or call neighbor_graph, neighbor_variance or "
        "sample_weights of steep.dask"
    )


def _is_path(text: str) -> bool:
    return len(text) < 4_096 and (text.endswith((".npy", ".parquet", ".pq")) or Path(text).is_dir())
