"""Features in a file: written batch by batch, and given their name only when they are whole.

features.npy           the features, one row per sample
features.labels.npy    the labels that came with the data, row by row
features.npy.json      which network and head the features belong to
"""

from __future__ import annotations

import io
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from steep._files import write_whole
from steep._validation import FloatArray, one_line
from steep.exceptions import InputError, InputTypeError, StorageError

Array = npt.NDArray[Any]

_FORMAT = 1


class FeatureWriter:
    """Writes the features and labels of one pass; an interrupted pass leaves nothing behind.

    Parameters
    ----------
    path : str or path
        The ``.npy`` file of the features; an existing one is replaced when the pass ends.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = _check_path(path)
        self._features, self._labels = _Rows(self.path), _Rows(labels_path(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._features.discard()
        self._labels.discard()

    def append(self, features: FloatArray, labels: Array | None) -> None:
        """Add a batch."""
        if self._features.n_rows and (labels is None) != (self._labels.n_rows == 0):
            raise InputError("some batches have labels and some do not; expected labels in all or in none")
        if labels is not None and len(labels) != len(features):
            raise InputError(f"a batch has {len(labels)} labels for {len(features)} samples; expected one per sample")
        self._features.append(features, what="features")
        if labels is not None:
            self._labels.append(labels, what="labels")

    def finish(self, *, network: str, head: str) -> None:
        """Give the files their names, that of the features last."""
        n_rows, has_labels = self._features.n_rows, self._labels.n_rows > 0
        if not n_rows:
            raise InputError("data yielded no batch; expected at least 1 sample")
        note = {"format": _FORMAT, "complete": True, "network": network, "head": head, "n_rows": n_rows,
                "labels": has_labels}  # fmt: skip
        text = json.dumps(note, indent=1) + "\n"
        self.path.unlink(missing_ok=True)
        if has_labels:
            self._labels.keep()
        write_whole(note_path(self.path), lambda temporary: temporary.write_text(text, encoding="utf-8"))
        self._features.keep()


def open_features(path: str | Path) -> tuple[FloatArray, Array | None, dict[str, Any]]:
    """Features and labels of a file, memory-mapped, and the note of the network they belong to."""
    file = _check_path(path)
    note = _read_note(file)
    labels = _mapped(labels_path(file), note["n_rows"]) if note["labels"] else None
    return _mapped(file, note["n_rows"]), labels, note


def labels_path(path: Path) -> Path:
    """Where the labels of a feature file are.

    Examples
    --------
    >>> labels_path(Path("features.npy")).name, note_path(Path("features.npy")).name
    ('features.labels.npy', 'features.npy.json')
    """
    return path.with_name(f"{path.stem}.labels.npy")


def note_path(path: Path) -> Path:
    """The file that names the network of a feature file."""
    return path.with_name(f"{path.name}.json")


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
    if not found.get("complete"):
        raise StorageError(f"{path} was not written to the end; run project again")
    return found


def _mapped(path: Path, n_rows: int) -> Array:
    try:
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read ({one_line(error)}); run project again") from error
    if len(found) != n_rows:
        raise StorageError(f"{path} has {len(found)} rows, but {n_rows} were written; run project again")
    return found


class _Rows:
    """Rows appended to one ``.npy`` file, whose number is known only in the end."""

    def __init__(self, target: Path) -> None:
        self.target, self.n_rows = target, 0
        self._part = target.with_name(f"{target.name}.part")
        self._file: BinaryIO | None = None
        self._dtype, self._shape = np.dtype(np.float32), (0,)

    def append(self, rows: Array, *, what: str) -> None:
        """Write rows; all have one dtype and one shape."""
        try:
            file = self._begin(rows, what) if self._file is None else self._file
            if rows.shape[1:] != self._shape or not np.can_cast(rows.dtype, self._dtype, casting="safe"):
                raise InputError(
                    f"{what} are {self._dtype} of shape {self._shape} in one batch and {rows.dtype} of shape "
                    f"{rows.shape[1:]} in another; expected the same in all batches"
                )
            file.write(np.ascontiguousarray(rows, dtype=self._dtype).data)
        except OSError as error:
            raise self._failed(error) from error
        self.n_rows += len(rows)

    def keep(self) -> None:
        """Write the number of rows to the header and give the file its name."""
        assert self._file is not None
        try:
            self._file.seek(0)
            self._file.write(self._header())
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.replace(self.target)
        except OSError as error:
            raise self._failed(error) from error

    def discard(self) -> None:
        """Remove what has not been kept."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self._part.unlink()

    def _begin(self, rows: Array, what: str) -> BinaryIO:
        if rows.dtype.hasobject:
            raise InputTypeError(
                f"{what} have dtype {rows.dtype}; expected numbers or text of one length; encode them first"
            )
        self._dtype, self._shape = rows.dtype, rows.shape[1:]
        self._file = self._part.open("w+b")
        self._file.write(self._header())
        return self._file

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(
            f"{self._part} cannot be written ({error.strerror or error}); choose another folder, or make room"
        )

    def _header(self) -> bytes:
        """The header of an ``.npy`` file; NumPy pads it to the same length for any number of rows."""
        buffer = io.BytesIO()
        about = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.n_rows, *self._shape)}
        np.lib.format.write_array_header_1_0(buffer, about)
        return buffer.getvalue()
