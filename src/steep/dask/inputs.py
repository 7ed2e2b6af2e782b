"""What large data come as: Dask arrays and frames, ``.npy`` files; all become rows in chunks.

Chunks are those of the caller; a ``.npy`` file has none, and is cut into pieces that a task can hold.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steep._validation import is_collection
from steep.dask.plan import task_memory
from steep.exceptions import InputError, InputTypeError, StorageError


@dataclass(frozen=True)
class Rows:
    """A table in chunks."""

    blocks: list[Any]  # one Delayed per chunk
    lengths: tuple[int, ...]  # rows of each
    n_columns: int
    dtype: np.dtype[Any]  # of the numbers in memory, or of the labels
    kind: Literal["array", "frame"]  # whether a Dask array or a Dask series is returned
    source: str  # where the data are from; the same source is taken to hold the same data
    divisions: tuple[Any, ...] | None = None  # those of a frame

    @property
    def bounds(self) -> tuple[int, ...]:
        """First row of each chunk, and the number of rows last."""
        return (0, *np.cumsum(self.lengths).tolist())


def read_inputs(X: Any, y: Any) -> tuple[Rows, Rows]:
    """Both inputs as rows in chunks."""
    points = _rows(X, "X", two_dimensional=True)
    labels = _rows(y, "y", two_dimensional=False, like=points)
    _check_alike(points, labels)
    return points, labels


def _rows(data: Any, name: str, *, two_dimensional: bool, like: Rows | None = None) -> Rows:
    if isinstance(data, str | os.PathLike):
        data = _npy_array(data, name, like)
    if not is_collection(data):
        raise InputTypeError(
            f"{name} is a {type(data).__name__} in memory; expected a Dask array or frame or a path; call the function "
            "of the same name in steep, or use dask.array.from_array"
        )
    if hasattr(data, "map_partitions"):
        return _frame_rows(data, name, like)
    if not hasattr(data, "chunks"):
        raise InputTypeError(f"{name} is a Dask {type(data).__name__}; expected a Dask array or data frame; convert it")
    return _array_rows(data, name, two_dimensional)


# ------------------------------------------------------------------------------------------- arrays


def _array_rows(data: Any, name: str, two_dimensional: bool) -> Rows:
    if data.ndim != 2 and two_dimensional:
        raise InputError(f"{name} has {data.ndim} dimensions; expected 2 (n_samples, n_features); use reshape")
    if np.isnan(np.array([length for axis in data.chunks for length in axis], float)).any():
        raise InputError(
            f"{name} has unknown chunk sizes; expected their lengths; call {name}.compute_chunk_sizes() first"
        )
    if not len(data):
        raise InputError(f"{name} has 0 rows; expected at least 1; pass some data")
    if data.ndim == 2 and len(data.chunks[1]) > 1:
        data = data.rechunk({1: -1})
    if data.ndim == 2 and two_dimensional:
        _check_numeric(data.dtype, name)
    blocks = list(np.ravel(data.to_delayed()))
    width = int(data.shape[1]) if data.ndim == 2 else 1
    return Rows(blocks, tuple(int(n) for n in data.chunks[0]), width, data.dtype, "array", str(data.name))


def _check_numeric(dtype: Any, name: str) -> None:
    if dtype.kind not in "fiub":
        raise InputError(f"{name} has dtype {dtype}; expected real numbers in Dask arrays; encode {name} first")


def _check_alike(points: Rows, labels: Rows) -> None:
    n_points, n_labels = points.bounds[-1], labels.bounds[-1]
    if n_labels != n_points:
        raise InputError(f"y has {n_labels:,} rows and X has {n_points:,}; expected as many; pass the same rows")
    if points.lengths != labels.lengths:
        differs = [one != other for one, other in zip_longest(points.lengths, labels.lengths)]
        at = differs.index(True)
        raise InputError(
            f"X has {len(points.lengths)} partitions and y {len(labels.lengths)}, of other lengths from partition "
            f"{at} on; expected the same partitions; use y.rechunk(X.chunks[0]) or repartition"
        )


# ------------------------------------------------------------------------------------------- frames


def _frame_rows(data: Any, name: str, like: Rows | None) -> Rows:
    """A frame, the lengths of whose partitions are counted now: Dask does not know them."""
    import dask
    from dask.base import tokenize

    is_series = data.ndim == 1
    if not is_series and name == "X":
        for column, dtype in data.dtypes.items():
            if getattr(dtype, "kind", "O") not in "fiub":
                raise InputError(
                    f"column {column!r} of X has dtype {dtype}; expected numbers in Dask frames; drop or encode "
                    "it first"
                )
    # Optimising may join small partitions, and those of X otherwise than those of y.
    blocks = list(data.to_delayed(optimize_graph=False))
    if like is not None and len(like.lengths) == len(blocks):  # a chunk says if they are others than X's
        lengths = like.lengths
    else:
        lengths = tuple(int(n) for n in dask.compute(*(dask.delayed(len)(block) for block in blocks)))
    if not sum(lengths):
        raise InputError(f"{name} has 0 rows; expected at least 1; pass some data")
    kinds = [data.dtype] if is_series else list(data.dtypes)
    plain = [kind if isinstance(kind, np.dtype) else _plain_dtype(kind) for kind in kinds]
    source = str(tokenize(data))
    return Rows(blocks, lengths, len(kinds), np.result_type(*plain), "frame", source, tuple(data.divisions))


def _plain_dtype(dtype: Any) -> np.dtype[Any]:
    kind = getattr(dtype, "kind", "O")
    return np.dtype({"i": np.int64, "u": np.uint64, "f": np.float64, "b": np.bool_}.get(kind, np.object_))


# -------------------------------------------------------------------------------------- .npy files


def _npy_array(data: Any, name: str, like: Rows | None) -> Any:
    """A file as a Dask array, cut like X, or into pieces that a task can hold."""
    import dask.array as da
    from dask.base import tokenize

    path = str(Path(data).resolve())
    mapped = _mapped(path, name)
    if mapped.ndim not in (1, 2) or not len(mapped):
        raise InputError(f"{name}={path!r} has shape {mapped.shape}; expected (n_samples, n_features), some data")
    lengths = _cut(mapped) if like is None or like.bounds[-1] != len(mapped) else like.lengths
    state = os.stat(path)
    token = tokenize(path, state.st_size, state.st_mtime_ns, lengths)
    chunks = (lengths, *((n,) for n in mapped.shape[1:]))
    return da.map_blocks(_read_rows, path, chunks=chunks, dtype=mapped.dtype, meta=mapped[:0], name=f"npy-{token}")


def _read_rows(path: str, block_info: Any) -> npt.NDArray[Any]:
    first, last = block_info[None]["array-location"][0]
    return np.array(_mapped(path, "data")[first:last])


def _mapped(path: Any, name: str) -> Any:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise ValueError("it holds several arrays")
        return found
    except (OSError, ValueError, EOFError) as error:
        raise StorageError(
            f"{name}={str(path)!r} cannot be mapped ({type(error).__name__}: {error}); expected a .npy file of numbers "
            "that all workers see; read other files by Dask, as dask.dataframe.read_parquet does"
        ) from error


def _cut(mapped: Any) -> tuple[int, ...]:
    n_rows = len(mapped)
    n_pieces = min(n_rows, max(1, -(-mapped.nbytes * 8 // task_memory())))
    ends = np.linspace(0, n_rows, n_pieces + 1).astype(np.int64)
    return tuple(int(n) for n in np.diff(ends))
