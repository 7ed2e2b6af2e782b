"""NPZ and ARFF files: arrays of NumPy, and the tables of Weka and OpenML."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steep._validation import one_line
from steep.cli.tables.dialect import detect
from steep.cli.tables.part import Part
from steep.exceptions import InputError, StorageError

# What NumPy and zipfile raise for a file that is damaged, encrypted or packed in a way they do not know.
_BROKEN = (
    OSError,
    ValueError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    AttributeError,
    NotImplementedError,
    RuntimeError,
    struct.error,
)


def load_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an NPZ file by name; nothing in the file is ever executed."""
    try:
        # Opened here, since NumPy leaves a file that is no archive open.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not hasattr(archive, "files"):
                raise InputError(
                    f"{path} holds one array; need an .npz with several; save them by numpy.savez"
                )
            return {name: archive[name] for name in archive.files}
    except InputError:
        raise
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise StorageError(
            f"{path} cannot be read ({reason}); need an .npz of plain arrays; save numbers and text alone"
        ) from error


@dataclass(frozen=True)
class NpzTable(Part):
    """Arrays that all have one entry a sample; a column of ``X`` is called X0, X1, …."""

    path: Path

    @cached_property
    def arrays(self) -> dict[str, Any]:
        """The arrays by name."""
        arrays = load_arrays(self.path)
        sizes = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
        if not arrays or len(set(sizes.values())) > 1 or 0 in sizes.values():
            shown = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise InputError(
                f"{self.path} holds {shown or 'no arrays'}; need arrays with one entry a sample; save X and y alone"
            )
        return arrays

    @cached_property
    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for name, array in self.arrays.items():
            if array.ndim == 1:
                columns[name] = array
            else:
                flat = array.reshape(len(array), -1)
                columns |= {f"{name}{j}": flat[:, j] for j in range(flat.shape[1])}
        return columns

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.arrays.values())))

    @property
    def about(self) -> str:
        """How it was read, in words."""
        shapes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"NPZ with {shapes}"

    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Some columns, by their places."""
        names = [self.names[position] for position in columns]
        return pd.DataFrame({name: self._columns[name] for name in names}, columns=names)


@dataclass(frozen=True)
class ArffTable(Part):
    """An ARFF file; nominal attributes are categories, ``?`` is missing."""

    path: Path

    @cached_property
    def _frame(self) -> pd.DataFrame:
        from scipy.io import arff

        try:
            raw = self.path.read_bytes()
            text = raw.decode(detect(raw).encoding)
            data, meta = arff.loadarff(io.StringIO(text))
        except OSError as error:
            raise StorageError(
                f"{self.path} cannot be read ({error.strerror}); need an ARFF file; check its name"
            ) from error
        except (
            arff.ArffError,
            NotImplementedError,
            ValueError,
            IndexError,
            StopIteration,
            TypeError,
        ) as error:
            raise InputError(
                f"{self.path} is not an ARFF table that can be read ({one_line(error)}); need numeric, nominal or date "
                "attributes and dense rows; save it as CSV"
            ) from error
        frame = pd.DataFrame({name: data[name] for name in meta.names()})
        return pd.DataFrame({name: _decoded(frame[name]) for name in frame})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(self._frame.columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._frame)

    @property
    def about(self) -> str:
        """How it was read, in words."""
        return "ARFF"

    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Some columns, by their places."""
        return self._frame.iloc[:, list(columns)]


def _decoded(column: Any) -> Any:
    """Nominal values are bytes; a question mark is missing."""
    if column.dtype.kind not in "OS":
        return column
    texts = column.map(lambda value: value.decode() if isinstance(value, bytes) else value)
    return texts.where(texts != "?")
