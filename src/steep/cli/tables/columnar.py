"""Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from steep.cli.tables.part import BATCH, Part, refuse_nested
from steep.exceptions import InputError, StorageError

# Bytes of a column that are read at once.
_BUFFER = 2**18


@contextmanager
def _explained(path: Path, kind: str) -> Iterator[None]:
    """Errors of Arrow in one line."""
    try:
        yield
    except InputError:
        raise
    except (OSError, pa.ArrowException, ValueError, KeyError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise StorageError(f"{path} cannot be read ({reason}); expected a whole {kind} file; check it") from error


@dataclass(frozen=True)
class ParquetTable(Part):
    """A Parquet file."""

    path: Path
    in_batches = True

    @cached_property
    def _file(self) -> Any:
        with _explained(self.path, "Parquet"):
            # A little is read at a time: a mapped file, or buffers of whole columns, would be another table in memory.
            return pq.ParquetFile(self.path, memory_map=False, pre_buffer=False, buffer_size=_BUFFER)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        with _explained(self.path, "Parquet"):
            return tuple(self._file.schema_arrow.names)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._file.metadata.num_rows)

    @property
    def about(self) -> str:
        """How it was read, in words."""
        return "Parquet"

    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Some columns, by their places."""
        names = [self.names[position] for position in columns]
        with _explained(self.path, "Parquet"):
            return _to_pandas(self._file.read(columns=names, use_pandas_metadata=False).select(names))

    def batches(self) -> Iterator[Any]:
        """The whole content, a few rows at a time."""
        with _explained(self.path, "Parquet"):
            yield from self._file.iter_batches(batch_size=BATCH, use_pandas_metadata=False)


@dataclass(frozen=True)
class ArrowTable(Part):
    """An Arrow file or stream, Feather included; columns that are not used are never loaded."""

    path: Path
    in_batches = True

    @cached_property
    def _table(self) -> Any:
        with _explained(self.path, "Arrow"):
            source = pa.memory_map(str(self.path))
            try:
                return pa.ipc.open_file(source).read_all()
            except pa.ArrowInvalid:
                source.seek(0)
            try:
                return pa.ipc.open_stream(source).read_all()
            except pa.ArrowInvalid:
                from pyarrow import feather

                return feather.read_table(self.path)  # the first version of Feather

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        with _explained(self.path, "Arrow"):
            return tuple(self._table.schema.names)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._table.num_rows)

    @property
    def about(self) -> str:
        """How it was read, in words."""
        return "Arrow"

    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Some columns, by their places."""
        with _explained(self.path, "Arrow"):
            return _to_pandas(_intact(self._table.select(list(columns))))

    def batches(self) -> Iterator[Any]:
        """The whole content, a few rows at a time."""
        with _explained(self.path, "Arrow"):
            yield from _intact(self._table).to_batches(max_chunksize=BATCH)


def _intact(table: Any) -> Any:
    """The same table, once its offsets are known to stay within it: a spoilt file ends the process otherwise."""
    table.validate(full=True)
    return table


def _to_pandas(table: Any) -> pd.DataFrame:
    """Arrow's columns as pandas', without the index and types that pandas may have noted in the file."""
    refuse_nested([field.name for field in table.schema if pa.types.is_nested(field.type)])
    return table.replace_schema_metadata(None).to_pandas(  # type: ignore[no-any-return]
        self_destruct=True, split_blocks=True, use_threads=False, date_as_object=False
    )
