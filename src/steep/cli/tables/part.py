"""One file of a table: its columns by name, read when they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steep._validation import one_line
from steep.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

# Rows that are written at once.
BATCH = 65_536


class Part(ABC):
    """A file of rows and named columns.

    Attributes
    ----------
    path : Path
        The file.
    names : tuple of str
        Its columns.
    n_rows : int
        Its rows.
    about : str
        How it was read, in words.
    remarks : dict
        Readings that may surprise, by column.
    """

    path: Path
    # Whether the file can be read a few rows at a time.
    in_batches = False

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def about(self) -> str:
        """How it was read, in words."""

    @property
    def remarks(self) -> dict[str, str]:
        """Readings that may surprise, by column."""
        return {}

    @abstractmethod
    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Some columns, by their places."""

    def batches(self) -> Iterator[Any]:
        """The whole content as Arrow record batches, in the order of the rows."""
        yield from to_batches(self.frame(range(len(self.names))))


def to_batches(frame: pd.DataFrame) -> Iterator[Any]:
    """A frame as Arrow record batches."""
    import pyarrow as pa

    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"the table does not fit this format ({one_line(error)}); expected one kind of value per column; write .csv"
        ) from error
    yield from table.to_batches(max_chunksize=BATCH) or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def refuse_nested(names: Sequence[str]) -> None:
    """Reject columns that hold more than one value per cell."""
    if names:
        raise InputError(
            f"columns {', '.join(map(repr, names))} hold lists or records; expected one value per cell; leave them out "
            "with --drop"
        )
