"""Features in a file: appended batch by batch, resumed after a kill, and whole under their name or not there.

    features.npy           the features, one row a sample
    features.labels.npy    the labels that came with the data, row by row
    features.npy.json      whose features they are, and how many rows are safe
    ….part                 the first two while they are being written

Rows are appended to plain files and forced to the disk every few thousand, then the note of them is replaced in one
step. What a killed pass left behind that note is cut off and made again, so that the bytes are those of a pass that
was never disturbed.
"""

from __future__ import annotations

import io
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from steep._files import write_whole
from steep._validation import FloatArray, one_line
from steep.exceptions import InputError, InputTypeError, StorageError

Array = npt.NDArray[Any]

_FORMAT = 1
# Rows after which a pass is made safe: often enough that a kill costs little, seldom enough that the disk is not felt.
BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Origin:
    """Whose features a file holds.

    Attributes
    ----------
    network : str
        A digest of everything in the network before its head.
    head : str
        Where the head is.
    data : str
        A digest of the first samples, and their number where it is known.
    random_state : int
        The seed of the pass.
    """

    network: str
    head: str
    data: str
    random_state: int


_DIFFERENCES = {
    "network": "another network", "head": "another head", "data": "other data", "random_state": "another random_state",
}  # fmt: skip


def is_mapped(array: Any) -> bool:
    """Whether an array lies in a file and is read as it is used.

    Examples
    --------
    >>> is_mapped(np.zeros(3))
    False
    """
    return isinstance(array, np.memmap)


class FeatureFile:
    """The features of one pass over the data, and their labels.

    Parameters
    ----------
    path : str or path
        The ``.npy`` file of the features.
    origin : Origin
        Whose features these are; a file of others is refused.
    batch_rows : int, optional
        Samples of the first batch: a pass is resumed batch by batch.
    """

    def __init__(self, path: str | Path, origin: Origin, batch_rows: int | None) -> None:
        self.path = _check_path(path)
        self.labels_path = labels_path(self.path)
        self.origin = origin
        self.note = _read_note(self.path) or self._fresh(batch_rows)
        self._refuse_others(batch_rows)
        self._features, self._labels = _Rows(self.path), _Rows(self.labels_path)
        self._n_appended = 0
        if not self.is_complete:
            self._features.resume(self.note["n_rows"], self.note["features"])
            self._labels.resume(self.note["n_rows"], self.note["labels"])

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self.note["complete"])

    @property
    def n_batches(self) -> int:
        """Batches that are safe already."""
        return int(self.note["n_batches"])

    @property
    def n_rows(self) -> int:
        """Rows that are safe already."""
        return int(self.note["n_rows"])

    def append(self, features: FloatArray, labels: Array | None) -> None:
        """Add a batch; it is safe once enough rows have come together."""
        if self._features.form and (labels is None) != (self._labels.form is None):
            raise InputError(
                "some batches hold labels and some do not; need labels in all of them, or in none"
            )
        self._features.append(features, what="features")
        if labels is not None:
            if len(labels) != len(features):
                raise InputError(
                    f"a batch has {len(labels)} labels for {len(features)} samples; need one each"
                )
            self._labels.append(labels, what="labels")
        self._n_appended += 1
        if self._features.n_rows - self.n_rows >= BLOCK_ROWS:
            self.secure()

    def known_labels(self, first: int, n_rows: int) -> Array | None:
        """Labels of rows that are safe already."""
        return self._labels.rows(first, n_rows)

    def secure(self, *, complete: bool = False) -> None:
        """Force what was appended to the disk, then say so in the note."""
        self._features.force()
        self._labels.force()
        self.note |= {
            "n_rows": self._features.n_rows, "n_batches": self.n_batches + self._n_appended,
            "features": self._features.form, "labels": self._labels.form, "complete": complete,
        }  # fmt: skip
        self._n_appended = 0
        text = json.dumps(self.note, indent=1) + "\n"
        write_whole(note_path(self.path), lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def finish(self) -> None:
        """Give the files their names: they are whole now."""
        if self._features.form is None:
            raise InputError("data yielded no batch; need at least 1 sample; pass some data")
        self._features.close_whole()
        self._labels.close_whole()
        self.secure(complete=True)
        _settle(self.path)

    def close(self) -> None:
        """Keep the whole batches of a pass that ends early; one that has none leaves nothing behind."""
        try:
            if not self.is_complete and self._n_appended:
                self.secure()
        finally:
            self._features.close()
            self._labels.close()
            if not self.is_complete and not self.n_rows:
                for path in (_part(self.path), _part(self.labels_path), note_path(self.path)):
                    with suppress(OSError):
                        path.unlink()

    def _fresh(self, batch_rows: int | None) -> dict[str, Any]:
        if self.path.exists():
            raise StorageError(
                f"{self.path} is there and nothing says whose features it holds; need a new file, or one that project "
                "wrote; name another, or delete it"
            )
        return {
            "format": _FORMAT, **asdict(self.origin), "batch_rows": batch_rows, "n_rows": 0, "n_batches": 0,
            "features": None, "labels": None, "complete": False,
        }  # fmt: skip

    def _refuse_others(self, batch_rows: int | None) -> None:
        for name, value in asdict(self.origin).items():
            if self.note.get(name) != value:
                raise InputError(
                    f"{self.path} holds features of {_DIFFERENCES[name]}; need those of this pass; name another file, "
                    f"or delete it with {note_path(self.path).name}"
                )
        if not self.is_complete and self.note["batch_rows"] != batch_rows:
            raise InputError(
                f"{self.path} was begun with batches of {self.note['batch_rows']} samples, got {batch_rows}; need the "
                "same to resume; pass the same batch_size or loader, or delete it"
            )


def open_features(path: str | Path) -> tuple[FloatArray, Array | None, dict[str, Any]]:
    """Features and labels of a file that is whole, mapped, and the note of whose they are."""
    file = _check_path(path)
    note = _read_note(file)
    if note is None or not note["complete"]:
        state = "is not there" if note is None else f"has {note['n_rows']} rows so far"
        raise StorageError(
            f"{file} {state}; need features that were projected to the end; run project(network, data, memmap=...)"
        )
    _settle(file)
    labels = None if note["labels"] is None else _mapped(labels_path(file), note["n_rows"])
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
    """Where it says whose features a file holds."""
    return path.with_name(f"{path.name}.json")


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _check_path(path: Any) -> Path:
    try:
        found = Path(path)
    except TypeError as error:
        raise InputTypeError(f"memmap is a {type(path).__name__}; need the path of an .npy file") from error
    if found.suffix != ".npy":
        raise InputError(
            f"memmap={str(path)!r} does not end in .npy; need the name of an .npy file; rename it"
        )
    try:
        is_folder = found.parent.is_dir()
    except ValueError as error:
        raise StorageError(
            f"memmap={str(path)!r} is no path ({one_line(error)}); need the name of a file"
        ) from error
    if not is_folder:
        raise StorageError(
            f"memmap={str(path)!r} cannot be written ({found.parent} is no folder); need a file in a folder that is "
            "there; create it first"
        )
    return found


def _read_note(path: Path) -> dict[str, Any] | None:
    """What is known of the file, None where nothing is."""
    note = note_path(path)
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{note} cannot be read ({one_line(error)}); need what project wrote; delete it"
        ) from error
    wanted = {"n_rows", "n_batches", "features", "labels", "complete", "batch_rows"}
    if not isinstance(found, dict) or found.get("format") != _FORMAT or not wanted <= set(found):
        raise StorageError(f"{note} is not a note of features; need what project wrote; name another file")
    if found.get("augmented"):
        raise StorageError(
            f"{note} is of altered inputs, which an earlier version of steep wrote; need plain ones; project again"
        )
    return found


def _settle(path: Path) -> None:
    """Move whole parts to their names; done again without harm, where a kill came between."""
    for target in (labels_path(path), path):
        with suppress(FileNotFoundError):
            _part(target).replace(target)


def _mapped(path: Path, n_rows: int) -> Array:
    try:
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{path} cannot be read ({one_line(error)}); need the file as project wrote it; project again"
        ) from error
    if len(found) != n_rows:
        raise StorageError(
            f"{path} has {len(found)} rows where {n_rows} were written; need it as project left it; project again"
        )
    return found


class _Rows:
    """Rows appended to one ``.npy`` file; ``form`` is the dtype and the shape of a row, None before the first."""

    def __init__(self, target: Path) -> None:
        self.part = _part(target)
        self.form: dict[str, Any] | None = None
        self.n_rows = 0
        self._file: BinaryIO | None = None

    def resume(self, n_rows: int, form: dict[str, Any] | None) -> None:
        """Cut off what came after the rows that are safe; begin anew where there are none."""
        if form is None:
            with suppress(FileNotFoundError):
                self.part.unlink()
            return
        self.form, self.n_rows = form, n_rows
        wanted = len(self._header(n_rows)) + n_rows * self._row_bytes
        try:
            self._file = self.part.open("r+b")
            size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise StorageError(
                f"{self.part} cannot be opened ({one_line(error)}); need what the pass before left; delete the .json "
                "beside it to start again"
            ) from error
        if size < wanted:
            self.close()
            raise StorageError(
                f"{self.part} has {size} bytes where {wanted} were written; need what the pass before left; delete the "
                ".json beside it to start again"
            )
        self._file.truncate(wanted)
        self._file.seek(wanted)

    def append(self, rows: Array, *, what: str) -> None:
        """Write rows behind the others; all have one dtype and one shape."""
        if self.form is None:
            self._begin(rows, what)
        dtype, shape = np.dtype(self.form["dtype"]), tuple(self.form["shape"])  # type: ignore[index]
        if rows.shape[1:] != shape or not np.can_cast(rows.dtype, dtype, casting="safe"):
            raise InputError(
                f"{what} have {dtype} {shape} a row in one batch and {rows.dtype} {rows.shape[1:]} in another; need "
                "the same in all of them"
            )
        self._write(np.ascontiguousarray(rows, dtype=dtype).data)
        self.n_rows += len(rows)

    def rows(self, first: int, n_rows: int) -> Array | None:
        """Some of the rows, read back."""
        if self.form is None:
            return None
        self.flush()
        start = len(self._header(0)) + first * self._row_bytes
        dtype, shape = np.dtype(self.form["dtype"]), tuple(self.form["shape"])
        count = n_rows * int(np.prod(shape, dtype=np.int64))
        found: Array = np.fromfile(self.part, dtype=dtype, count=count, offset=start).reshape(-1, *shape)
        return found

    def flush(self) -> None:
        """Hand everything to the system."""
        if self._file is not None:
            self._file.flush()

    def force(self) -> None:
        """All of it on the disk."""
        if self._file is None or self._file.closed:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from error

    def close_whole(self) -> None:
        """Write how many rows there are where readers look for it."""
        if self._file is not None:
            self._file.seek(0)
            self._write(self._header(self.n_rows))
            self.force()
            self._file.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _begin(self, rows: Array, what: str) -> None:
        if rows.dtype.hasobject:
            raise InputTypeError(
                f"{what} have dtype {rows.dtype}; need numbers or text of one length; encode them"
            )
        self.form = {"dtype": rows.dtype.str, "shape": list(rows.shape[1:])}
        try:
            self._file = self.part.open("w+b")
        except OSError as error:
            raise self._failed(error) from error
        self._write(self._header(0))

    def _write(self, data: Any) -> None:
        assert self._file is not None
        try:
            self._file.write(data)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(
            f"{self.part} cannot be written ({error.strerror or error}); need a folder that is yours to write to and "
            "has room; make room and repeat the call: it resumes"
        )

    @property
    def _row_bytes(self) -> int:
        assert self.form is not None
        return int(np.dtype(self.form["dtype"]).itemsize * np.prod(self.form["shape"], dtype=np.int64))

    def _header(self, n_rows: int) -> bytes:
        """The head of an ``.npy`` file; NumPy pads it so that it is as long for any number of rows."""
        assert self.form is not None
        buffer = io.BytesIO()
        about = {"descr": self.form["dtype"], "fortran_order": False, "shape": (n_rows, *self.form["shape"])}
        np.lib.format.write_array_header_1_0(buffer, about)
        return buffer.getvalue()
