"""Features in a file: written batch by batch, and given their name only when they are complete.

features.npy           the features, one row per sample
features.labels.npy    the labels that came with the data, row by row
features.npy.json      which network and head the features belong to
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
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
    """Write the features and labels of one pass, of which only the labels are held; see :func:`write_whole`."""
    target, labels = _check_path(path), list[Array]()

    def write(temporary: Path) -> None:
        n_rows = 0
        first: Array = np.empty((0, 0))
        with temporary.open("w+b") as file:
            for rows, own in _read(batches):
                if not n_rows:
                    first = rows[:0]
                    file.write(_header(first, 0))
                _check_batch(rows, first, what="features")
                _add_labels(labels, own, len(rows), is_first=not n_rows)
                file.write(np.ascontiguousarray(rows, dtype=first.dtype).data)
                n_rows += len(rows)
            if not n_rows:
                raise InputError("data yielded no batch; expected at least 1 sample")
            file.seek(0)
            file.write(_header(first, n_rows))
        target.unlink(missing_ok=True)
        if labels:
            known = np.concatenate(labels)
            write_whole(labels_path(target), lambda part: np.save(part, known))
        note = {"format": _FORMAT, "network": network, "head": head, "n_rows": n_rows, "labels": bool(labels)}
        write_whole(note_path(target), lambda part: part.write_text(json.dumps(note, indent=1) + "\n"))

    write_whole(target, write)


def _read(batches: Batches) -> Batches:
    """The batches; that the data cannot be read is not an error of writing."""
    try:
        yield from batches
    except OSError as error:
        raise StorageError(f"the data cannot be read ({one_line(error)}); expected batches; check the files") from error


def _check_batch(rows: Array, first: Array, *, what: str) -> None:
    """All batches have one dtype and one shape."""
    if rows.shape[1:] != first.shape[1:] or not np.can_cast(rows.dtype, first.dtype, casting="safe"):
        raise InputError(
            f"{what} are {first.dtype} of shape {first.shape[1:]} in one batch and {rows.dtype} of shape "
            f"{rows.shape[1:]} in another; expected the same in all batches"
        )


def open_features(path: str | Path) -> tuple[FloatArray, Array | None, dict[str, Any]]:
    """Features and labels of a file, memory-mapped, and the note of the network they belong to."""
    file = _check_path(path)
    note = _read_note(file)
    labels = _mapped(labels_path(file), note["n_rows"]) if note["labels"] else None
    return _mapped(file, note["n_rows"]), labels, note


def labels_path(path: Path) -> Path:
    """Path of the labels of a feature file."""
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
        _check_batch(own, labels[0], what="labels")
    labels.append(own)


def _header(first: Array, n_rows: int) -> bytes:
    """The header of an ``.npy`` file; NumPy pads it to the same length for any number of rows."""
    buffer = io.BytesIO()
    about = {"descr": first.dtype.str, "fortran_order": False, "shape": (n_rows, *first.shape[1:])}
    np.lib.format.write_array_header_1_0(buffer, about)
    return buffer.getvalue()


def _check_path(path: Any) -> Path:
    try:
        found = Path(path)
        is_folder = found.parent.is_dir()
    except TypeError as error:
        raise InputTypeError(f"memmap is a {type(path).__name__}; expected the path of an .npy file") from error
    except ValueError as error:
        raise StorageError(f"memmap={str(path)!r} is not a valid path ({one_line(error)})") from error
    if found.suffix != ".npy":
        raise InputError(f"memmap={str(path)!r} must end in .npy, for example features.npy")
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
    if (
        not isinstance(found, dict)
        or found.get("format") != _FORMAT
        or not {"n_rows", "labels", "network", "head"} <= set(found)
    ):
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
