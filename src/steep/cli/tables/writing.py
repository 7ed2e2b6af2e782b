"""The table with further columns, in the format that the name of the file says; a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steep._files import write_whole
from steep._validation import FloatArray, IntArray, one_line
from steep.cli.tables import Table
from steep.cli.tables.part import to_batches
from steep.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet", ".feather", ".arrow")
# With room for several columns.
FRAMES = (*TABLES, ".txt")
FORMATS = (*FRAMES, ".npy")


def check_format(path: Path, formats: Sequence[str] = FORMATS) -> str:
    """Return the suffix of a file that can be written."""
    suffix = path.suffix.lower()
    if suffix not in formats:
        raise InputError(
            f"--output {path} has the suffix {suffix!r}; expected one of {', '.join(formats)}; name another file"
        )
    return suffix


def write_with_column(path: Path, table: Table, name: str, values: FloatArray) -> None:
    """Write all columns of the table and one more, or with that column replaced."""
    suffix = check_format(path)
    if suffix == ".csv" and (texts := _texts(table)):
        from steep.cli.tables.text import write_text

        write_whole(path, lambda temporary: write_text(temporary, texts, name, values))
    else:
        write_whole(path, lambda temporary: _write_batches(temporary, suffix, _joined(table, name, values)))


def write_column(path: Path, name: str, values: FloatArray) -> None:
    """Write the column alone."""
    suffix = check_format(path)
    if suffix == ".npy":
        write_whole(path, lambda temporary: np.save(temporary, values))
    elif suffix in (".csv", ".txt"):
        lines = "\n".join([name, *map(repr, values.tolist()), ""])
        write_whole(path, lambda temporary: temporary.write_text(lines, encoding="utf-8"))
    else:
        import pandas as pd

        write_frame(path, pd.DataFrame({name: values}))


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame."""
    suffix = check_format(path)
    if suffix == ".npy":
        raise InputError(f"--output {path} has room for one column; expected a table; name a .csv or .parquet file")
    if suffix in (".csv", ".txt"):
        write_whole(path, lambda temporary: frame.to_csv(temporary, index=False))
    else:
        write_whole(path, lambda temporary: _write_batches(temporary, suffix, to_batches(frame)))


def write_chosen_rows(path: Path, table: Table, rows: IntArray, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write some rows of the table, in the order given, with further columns that come first."""
    if check_format(path) == ".csv" and (texts := _texts(table)):
        from steep.cli.tables.text import write_chosen

        write_whole(path, lambda temporary: write_chosen(temporary, texts, rows, columns))
        return
    frame = table.frame(table.names).iloc[rows].reset_index(drop=True)
    for place, (name, values) in enumerate(columns.items()):
        frame.insert(place, name, list(values))
    write_frame(path, frame)


def _texts(table: Table) -> Any:
    """The parts as texts that go through unchanged, if all are written alike."""
    from steep.cli.tables.text import TextTable

    texts = [part for part in table.parts if isinstance(part, TextTable)]
    is_alike = (
        len({(part.dialect.separator, part.dialect.encoding, part.dialect.decimal) for part in texts}) == 1
        and len({part.names for part in texts}) == 1
    )
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
                f"the files of {table.title} differ in the types of their columns ({one_line(error)}); expected "
                "the same types; write the weights alone, with --only"
            ) from error


def _batches(table: Table) -> Iterator[Any]:
    """All rows, from the files where they can be read in pieces."""
    if len(table.parts) == 1 or all(part.in_batches for part in table.parts):
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
