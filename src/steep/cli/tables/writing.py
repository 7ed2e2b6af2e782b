"""The table with one more column, in the format that the name of the file asks for; a few rows at a time."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steep._files import write_whole
from steep._validation import FloatArray, one_line
from steep.cli.tables import Table
from steep.cli.tables.part import to_batches
from steep.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet", ".feather", ".arrow", ".npz")
FORMATS = (*TABLES, ".npy", ".txt")


def check_format(path: Path) -> str:
    """Return the suffix of a file that can be written."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(
            f"--output {path} has the suffix {suffix!r}; need one of {', '.join(FORMATS)}; name another file"
        )
    return suffix


def write_with_column(path: Path, table: Table, name: str, values: FloatArray) -> None:
    """Write all columns of the table and one more, or with that column replaced."""
    suffix = check_format(path)
    if suffix == ".csv" and (texts := _texts(table)):
        from steep.cli.tables.text import write_text

        write_whole(path, lambda temporary: write_text(temporary, texts, name, values))
    elif suffix == ".npz":
        arrays = _arrays(table, path) | {name: values}
        write_whole(path, lambda temporary: _save_npz(temporary, arrays))
    else:
        write_whole(path, lambda temporary: _write_batches(temporary, suffix, _joined(table, name, values)))


def write_column(path: Path, name: str, values: FloatArray) -> None:
    """Write the column alone."""
    suffix = check_format(path)
    if suffix == ".npy":
        write_whole(path, lambda temporary: np.save(temporary, values))
    elif suffix == ".npz":
        write_whole(path, lambda temporary: _save_npz(temporary, {name: values}))
    elif suffix in (".csv", ".txt"):
        lines = "\n".join([name, *map(repr, values.tolist()), ""])
        write_whole(path, lambda temporary: temporary.write_text(lines, encoding="utf-8"))
    else:
        import pandas as pd

        write_frame(path, pd.DataFrame({name: values}))


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame."""
    suffix = check_format(path)
    if suffix in (".csv", ".txt"):
        write_whole(path, lambda temporary: frame.to_csv(temporary, index=False))
    elif suffix in (".npz", ".npy"):
        if suffix == ".npy":
            raise InputError(
                f"--output {path} has room for one column; need a table; name a .csv or .parquet file"
            )
        arrays = {str(column): _without_objects(frame[column]) for column in frame}
        write_whole(path, lambda temporary: _save_npz(temporary, arrays))
    else:
        write_whole(path, lambda temporary: _write_batches(temporary, suffix, to_batches(frame)))


def _texts(table: Table) -> Any:
    """The parts as texts that go through unchanged, if all are written alike."""
    from steep.cli.tables.text import TextTable

    texts = [part for part in table.parts if isinstance(part, TextTable)]
    is_alike = len({part.dialect for part in texts}) == 1 and len({part.names for part in texts}) == 1
    return texts if is_alike and len(texts) == len(table.parts) else None


def _joined(table: Table, name: str, values: FloatArray) -> Iterator[Any]:
    """Batches of all rows with the column added or replaced; columns in the order of the first part."""
    import pyarrow as pa

    first, schema = 0, None
    for batch in _batches(table):
        column = pa.array(values[first : first + batch.num_rows])
        first += batch.num_rows
        joined = pa.Table.from_batches([batch]).select(list(table.names))
        at = joined.schema.get_field_index(name)
        joined = joined.append_column(name, column) if at < 0 else joined.set_column(at, name, column)
        joined = joined.replace_schema_metadata(None)
        schema = joined.schema if schema is None else schema
        try:
            yield from joined.cast(schema).to_batches()
        except pa.ArrowException as error:
            raise InputError(
                f"the files of {table.title} differ in the types of their columns ({one_line(error)}); need the same; "
                "write the weights alone, with --only"
            ) from error


def _batches(table: Table) -> Iterator[Any]:
    """All rows, from the files where they can be read in pieces."""
    if len(table.parts) == 1 or all(part.by_column for part in table.parts):
        for part in table.parts:
            yield from part.batches()
    else:
        yield from to_batches(table.frame(table.names))


def _write_batches(path: Path, suffix: str, batches: Iterator[Any]) -> None:
    first = next(batches)
    with closing(_writer(path, suffix, first.schema)) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _writer(path: Path, suffix: str, schema: Any) -> Any:
    import pyarrow as pa

    if suffix == ".parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(path, schema, compression="zstd", compression_level=1)
    if suffix == ".csv":
        from pyarrow import csv

        return csv.CSVWriter(path, schema)
    return pa.ipc.new_file(path, schema)


def _arrays(table: Table, path: Path) -> dict[str, Any]:
    """The arrays of an NPZ file, to be written again."""
    from steep.cli.tables.arrays import NpzTable

    (*_, part) = table.parts
    if len(table.parts) > 1 or not isinstance(part, NpzTable):
        raise InputError(
            f"--output {path} is an archive of arrays and {table.title} is none; need another format; name a .parquet "
            "file, or write the weights alone, with --only"
        )
    return part.arrays


def _without_objects(column: Any) -> Any:
    """A column as an array that needs no pickle."""
    values = column.to_numpy()
    return values.astype(str) if values.dtype == object else values


def _save_npz(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays under any names, none of which needs a pickle."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
