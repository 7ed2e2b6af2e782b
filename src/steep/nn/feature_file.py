"""Features in a file: written batch by batch, and given their name only when they are complete.

features.npy           the features, one row per sample
features.labels.npy    the labels that came with the data, row by row
features.npy.json      which network and head the features belong to
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._files import write_whole
from steep._validation import FloatArray, one_line
from steep.exceptions import InputError, InputTypeError, StorageError

Array = npt.NDArray[Any]
Batches = Iterator[tuple[FloatArray, Array | None]]

_FORMAT = 1


def write_features(path: str | Path, batches: Batches, *, network: str, head: str) -> None:
    """Write the features and labels of one pass; an interrupted pass leaves what was there.

    The labels are held until the end; the features are not.
    """
    target = _check_path(path)
    part, labels, n_rows = target.with_name(f"{target.name}.part"), list[Array](), 0
    dtype, shape = np.dtype(np.float32), (0,)
    try:
        with _stored(part):
            file = part.open("w+b")
        with file:
            for rows, own in batches:
                if not n_rows:
                    dtype, shape = rows.dtype, rows.shape[1:]
                _check_batch(rows, dtype, shape, what="features")
                _add_labels(labels, own, len(rows), is_first=not n_rows)
                with _stored(part):
                    file.write(b"" if n_rows else _header(dtype, n_rows, shape))
                    file.write(np.ascontiguousarray(rows, dtype=dtype).data)
                n_rows += len(rows)
            if not n_rows:
                raise InputError("data yielded no batch; expected at least 1 sample")
            with _stored(part):
                file.seek(0)
                file.write(_header(dtype, n_rows, shape))
                file.flush()
                os.fsync(file.fileno())
        target.unlink(missing_ok=True)
        if labels:
            known = np.concatenate(labels)
            write_whole(labels_path(target), lambda temporary: _save(temporary, known))
        note = {"format": _FORMAT, "network": network, "head": head, "n_rows": n_rows, "labels": bool(labels)}
        text = json.dumps(note, indent=1) + "\n"
        write_whole(note_path(target), lambda temporary: temporary.write_text(text, encoding="utf-8"))
        with _stored(part):
            part.replace(target)
    finally:
        with suppress(OSError):
            part.unlink()


def _check_batch(rows: Array, dtype: np.dtype[Any], shape: tuple[int, ...], *, what: str) -> None:
    """All batches have one dtype and one shape."""
    if rows.shape[1:] != shape or not np.can_cast(rows.dtype, dtype, casting="safe"):
        raise InputError(
            f"{what} are {dtype} of shape {shape} in one batch and {rows.dtype} of shape {rows.shape[1:]} in another; "
            "expected the same in all batches"
        )


def open_features(path: str | Path) -> tuple[FloatArray, Array | None, dict[str, Any]]:
    """Features and labels of a file, memory-mapped, and the note of the network they belong to."""
    file = _check_path(path)
    note = _read_note(file)
    labels = _mapped(labels_path(file), note["n_rows"]) if note["labels"] else None
    return _mapped(file, note["n_rows"]), labels, note


def labels_path(path: Path) -> Path:
    """Where the labels of a feature file are."""
    return path.with_name(f"{path.stem}.labels.npy")


def note_path(path: Path) -> Path:
    """The file that names the network of a feature file."""
    return path.with_name(f"{path.name}.json")


def _add_labels(labels: list[Array], own: Array | None, n_rows: int, *, is_first: bool) -> None:
    if not is_first and (own is None) != (not labels):
        raise InputError("some batches have labels and some do not; expected labels in all or in none")
    if own is None:
        return
    if len(own) != n_rows:
        raise InputError(f"a batch has {len(own)} labels for {n_rows} samples; expected one per sample")
    if own.dtype.hasobject:
        raise InputTypeError(f"labels have dtype {own.dtype}; expected numbers or text of one length")
    if labels:
        _check_batch(own, labels[0].dtype, labels[0].shape[1:], what="labels")
    labels.append(own)


def _save(path: Path, array: Array) -> None:
    with path.open("wb") as file:
        np.save(file, array)


def _header(dtype: np.dtype[Any], n_rows: int, shape: tuple[int, ...]) -> bytes:
    """The header of an ``.npy`` file; NumPy pads it to the same length for any number of rows."""
    buffer = io.BytesIO()
    about = {"descr": dtype.str, "fortran_order": False, "shape": (n_rows, *shape)}
    np.lib.format.write_array_header_1_0(buffer, about)
    return buffer.getvalue()


@contextmanager
def _stored(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror or error}); choose another folder, or free some space"
        ) from error


def _check_path(path: Any) -> Path:
    try:
        found = Path(path)
    except TypeError as error:
        raise InputTypeError(f"memmap is a {type(path).__name__}; expected the path of an .npy file") from error
    if found.suffix != ".npy":
        raise InputError(f"memmap={str(path)!r} must end in .npy, for example features.npy")
    try:
        is_folder = found.parent.is_dir()
    except ValueError as error:
        raise StorageError(f"memmap={str(path)!r} is not a valid path ({one_line(error)})") from error
    if not is_folder:
        raise StorageError(f"memmap={str(path)!r}: the folder {found.parent} does not exist; create it first")
    return found


def _read_note(path: Path) -> dict[str, Any]:
    note = note_path(path)
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StorageError(
            f"{path} has no {note.name}: the features do not exist or were not written to the end; run "
            "project(network, data, memmap=...)"
        ) from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{note} cannot be read ({one_line(error)}); run project again") from error
    wanted = {"n_rows", "labels", "network", "head"}
    if not isinstance(found, dict) or found.get("format") != _FORMAT or not wanted <= set(found):
        raise StorageError(f"{note} was not written by project; run project again")
    return found


def _mapped(path: Path, n_rows: int) -> Array:
    try:
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read ({one_line(error)}); run project again") from error
    if len(found) != n_rows:
        raise StorageError(f"{path} has {len(found)} rows, but {n_rows} were written; run project again")
    return found
