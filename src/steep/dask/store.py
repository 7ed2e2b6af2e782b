"""The folder where stages meet: arrays written whole, read in slices, and a note of what a run was about.

A task writes its arrays first and its *summary* last. So an existing summary says that the task is done: any task that
runs it again, after a worker died or in the next run of a checkpoint, reads the summary and does nothing.
"""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._files import write_whole
from steep.exceptions import InputError, StorageError

_MANIFEST = "steep.json"

Summary = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Store:
    """A folder that the client and all workers see."""

    folder: str
    durable: bool = False  # whether files must outlive the machine, as those of a checkpoint must

    def path(self, name: str) -> Path:
        """The file of an array."""
        return Path(self.folder) / f"{name}.npy"

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Write an array row by row, as it is read; whole or not at all."""
        rows = np.ascontiguousarray(array)
        self._write(self.path(name), lambda path: np.save(path, rows, allow_pickle=False))

    def read(self, name: str, first: int = 0, last: int | None = None) -> npt.NDArray[Any]:
        """Read some rows of an array into memory of ours: mapped pages would count as the worker's."""
        path = self.path(name)
        shape, dtype, begin = _header(path, path.stat().st_mtime_ns)
        last = shape[0] if last is None else last
        width = int(np.prod(shape[1:], dtype=np.int64))
        with open(path, "rb") as file:
            file.seek(begin + first * width * dtype.itemsize)
            flat = np.fromfile(file, dtype, (last - first) * width)
        return flat.reshape(last - first, *shape[1:])

    def write_index(self, name: str, index: Any) -> None:
        """Write the index of a frame, of whatever kind."""
        import pandas as pd

        path = Path(self.folder) / f"{name}.parquet"
        # Without a column a range would lose its length.
        frame = pd.DataFrame({"row": np.zeros(len(index), np.int8)}, index=index)
        self._write(path, lambda path: frame.to_parquet(path))

    def read_index(self, name: str) -> Any:
        """Read the index of a frame."""
        import pandas as pd

        return pd.read_parquet(Path(self.folder) / f"{name}.parquet").index

    def drop(self, *names: str) -> None:
        """Remove arrays that no stage needs any more."""
        for name in names:
            self.path(name).unlink(missing_ok=True)

    def summary(self, name: str) -> Summary | None:
        """What a task has left behind, or None if it is not done."""
        path = Path(self.folder) / f"{name}.npz"
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as found:
            return {key: found[key] for key in found.files}

    def once(self, name: str, stage: Callable[..., Mapping[str, Any]], *arguments: Any) -> Summary:
        """What a stage has left behind for the next ones; it runs only if it is not done."""
        done = self.summary(name)
        if done is not None:
            return done
        figures = stage(*arguments)
        if not Path(self.folder).is_dir():
            raise unseen(self.folder)
        summary: Any = {key: np.asarray(value) for key, value in figures.items()}
        self._write(Path(self.folder) / f"{name}.npz", lambda path: np.savez(path, **summary))
        return dict(summary)

    def _write(self, path: Path, write: Callable[[Path], object]) -> None:
        if self.durable:
            write_whole(path, write)
            return
        temporary = path.with_name(f".steep-{secrets.token_hex(8)}{path.suffix}")
        try:
            write(temporary)
            temporary.replace(path)
        except OSError as error:
            if not path.parent.is_dir():
                raise unseen(path.parent) from error
            raise StorageError(
                f"{path} cannot be written ({error.strerror or error}); expected room for about three times the "
                "data; set dask's temporary-directory, or pass checkpoint="
            ) from error
        finally:
            temporary.unlink(missing_ok=True)


def unseen(folder: str | Path) -> StorageError:
    """The error of a worker that looks in vain."""
    return StorageError(
        f"{folder} is not visible to this worker; expected a folder that the client and all workers share; pass "
        "checkpoint='/a/shared/folder'"
    )


@lru_cache(maxsize=4_096)
def _header(path: Path, stamp: int) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and dtype of an array, and where it begins in its file, whose time stamp is given."""
    mapped: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped.shape, mapped.dtype, mapped.offset


# --------------------------------------------------------------------------------- temporary folders


class Holder:
    """Part of a lazy result: the folder is removed with it, at the latest at the end of the process."""

    def __init__(self, folder: str) -> None:
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


_KEPT: list[Holder] = []  # under a client a result may be computed after its owner has dropped it


def temporary_store() -> tuple[Store, Holder]:
    """A new folder, and what the lazy result must hold on to."""
    from dask import config

    parent = config.get("temporary-directory", None) or tempfile.gettempdir()
    Path(parent).mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="steep-dask-", dir=parent)
    holder = Holder(folder)
    if current_client() is not None:
        _KEPT.append(holder)
    return Store(folder), holder


def current_client() -> Any:
    """The Dask client that would compute now, or None."""
    try:
        library: Any = import_module("distributed")
        return library.default_client()
    except (ValueError, ImportError):
        return None


# ------------------------------------------------------------------------------------- checkpoints


def checkpoint_store(folder: Any, about: Mapping[str, Any]) -> Store:
    """The folder of a checkpoint, begun or continued; one of other data or settings is rejected."""
    path = Path(folder)
    note = path / _MANIFEST
    asked = json.loads(json.dumps(about))
    if note.exists():
        _check_same(path, asked)
    elif path.is_dir() and any(path.iterdir()):
        raise InputError(
            f"checkpoint={str(path)!r} holds other files; expected an empty folder or a checkpoint of steep; name "
            "another"
        )
    else:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"checkpoint={str(path)!r} cannot be made ({error.strerror or error}); expected a folder that you may "
                "write to; name another"
            ) from error
        write_whole(note, lambda file: file.write_text(json.dumps(asked, indent=1)))
    for left in path.glob(".steep-*"):  # by writers that were killed
        left.unlink(missing_ok=True)
    return Store(str(path.resolve()), durable=True)


def _check_same(path: Path, asked: Mapping[str, Any]) -> None:
    note = path / _MANIFEST
    try:
        found = dict(json.loads(note.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(
            f"{note} cannot be read ({error}); expected a checkpoint of steep; name another folder"
        ) from error
    for key, value in asked.items():
        if found.get(key) != value:
            before, now = (shorten(json.dumps(one), 60, placeholder="...") for one in (found.get(key), value))
            raise InputError(
                f"checkpoint={str(path)!r} was made with {key} {before}, not {now}; expected the same data and "
                "settings; name another folder"
            )
