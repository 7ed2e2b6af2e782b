"""Tables in memory, read by Arrow and pandas; what goes through unchanged is kept as it came.

That is the text of a CSV file, where ``00002`` and ``NA`` stay, or the Arrow table of a Parquet or Feather file.
"""

from __future__ import annotations

import gzip
import io
import itertools
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

from steep._files import write_whole
from steep._validation import IntArray, one_line
from steep.cli.dialect import GAPS, Dialect, detect, read_cells
from steep.cli.printing import listed
from steep.exceptions import InputError, SteepError, StorageError

_TEXT = (".csv", ".tsv", ".txt", ".tab", ".data")
_EXCEL = (".xlsx", ".xls", ".ods")


@dataclass(frozen=True)
class Text:
    """The bytes of a CSV file behind its byte-order mark, and how they are written."""

    raw: bytes
    dialect: Dialect

    def records(self) -> Iterator[str]:
        """The text of the header and of each row, with its line end; blank lines are passed over."""
        pending = ""
        for line in io.TextIOWrapper(io.BytesIO(self.raw), encoding=self.dialect.encoding, newline=""):
            pending += line
            if pending.count('"') % 2:  # within a quoted field that has line ends
                continue
            if pending.rstrip("\r\n"):
                yield pending
            pending = ""
        if pending:
            yield pending

    def _cell(self, value: Any) -> str:
        """A value as the table writes its own; nothing for a missing one."""
        if isinstance(value, float):
            text = "" if value != value else repr(value)
            value = text.replace(".", ",") if self.dialect.decimal == "," else text
        needs_quotes = any(mark in str(value) for mark in f'{self.dialect.separator}"\r\n')
        return '"' + str(value).replace('"', '""') + '"' if needs_quotes else str(value)

    def replaced(self, record: str, place: int, value: Any) -> str:
        """A record with another value in one cell; the other cells keep their text."""
        mark, body = self.dialect.separator, record.rstrip("\r\n")
        fields: list[str] = []
        for part in body.split(mark):
            if fields and fields[-1].count('"') % 2:  # a separator within quotes belongs to its cell
                fields[-1] += mark + part
            else:
                fields.append(part)
        fields[place] = self._cell(value)
        return mark.join(fields) + record[len(body) :]

    def extended(self, columns: Mapping[str, Sequence[Any]], at: int | None, rows: IntArray | None) -> Iterator[str]:
        """The records with further columns: last, in place of column ``at``, or first if ``rows`` are chosen."""
        mark, records = self.dialect.separator, self.records()
        if rows is not None:
            header, *texts = records
            records = iter([header, *(texts[row] for row in rows.tolist())])
        added = itertools.chain([tuple(columns)], zip(*columns.values(), strict=True))
        for record, cells in zip(records, added, strict=True):
            text, body = mark.join(map(self._cell, cells)), record.rstrip("\r\n")
            if rows is not None:
                yield f"{text}{mark}{body}\n"
            elif at is None:
                yield f"{body}{mark}{text}{record[len(body) :]}"
            else:
                yield self.replaced(record, at, cells[0])

    def write(self, path: Path, records: Iterable[str]) -> None:
        """Write records with the byte-order mark and in the encoding of the table, whole or not at all."""

        def fill(temporary: Path) -> None:
            with temporary.open("wb") as file:
                file.write(self.dialect.bom)
                file.writelines(record.encode(self.dialect.encoding) for record in records)

        write_whole(path, fill)


@dataclass(frozen=True)
class Table:
    """Named columns, which may share a name, what they came from, and what is written back unchanged."""

    path: Path
    names: tuple[str, ...]
    columns: list[Any]
    about: str
    remarks: dict[str, str] = field(default_factory=dict)
    text: Text | None = None
    arrow: Any = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0]) if self.columns else 0

    def frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Some columns, by name, or all; the values are not copied."""
        places = range(len(self.names)) if names is None else [self.names.index(name) for name in names]
        frame = pd.DataFrame({place: self.columns[place] for place in places}, copy=False)
        frame.columns = pd.Index([self.names[place] for place in places])
        return frame


@contextmanager
def _reading(path: Path, expected: str) -> Iterator[None]:
    """Say in one line what is wrong with a file: every reader has errors of its own."""
    try:
        yield
    except (SteepError, MemoryError):
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise StorageError(f"{path} cannot be read ({reason}); expected {expected}; check the file") from error


def open_table(path: Path, *, decimal: str | None = None) -> Table:
    """Read a file, "-" for stdin, as the kind that its name or its first bytes say."""
    table = _open(path, decimal)
    if table.n_rows == 0:
        raise InputError(f"{path} has 0 rows; expected samples; check the file")
    return table


def _open(path: Path, decimal: str | None) -> Table:
    suffix = path.suffix.lower()
    head = b""
    if suffix not in (*_TEXT, *_EXCEL, ".gz", ".zip") and path.is_file():  # pipes can be read only once: they are text
        with path.open("rb") as file:
            head = file.read(8)
    if suffix in (".parquet", ".pq") or head.startswith(b"PAR1"):
        return _from_arrow(path, "Parquet")
    if suffix in (".feather", ".arrow", ".ipc") or head.startswith(b"ARROW1"):
        return _from_arrow(path, "Arrow")
    if suffix in _EXCEL:
        return _from_excel(path)
    with _reading(path, "a table"):
        raw = _unpacked(path)
    dialect = detect(raw, decimal)
    return _from_text(path, Text(raw[len(dialect.bom) :], dialect))


def _from_text(path: Path, text: Text) -> Table:
    dialect = text.dialect
    body = text.raw if dialect.encoding == "utf-8" else text.raw.decode(dialect.encoding).encode()
    has_quotes = b'"' in body
    parsing = arrow_csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=has_quotes)
    cells = arrow_csv.ConvertOptions(null_values=GAPS, strings_can_be_null=False, decimal_point=dialect.decimal)
    for use_threads in (True, False):
        reading = arrow_csv.ReadOptions(use_threads=use_threads)
        try:
            found = arrow_csv.read_csv(pa.py_buffer(body), reading, parsing, cells)
            break
        except (pa.ArrowException, ValueError) as error:
            if not use_threads:  # whose error has the number of the row
                reason = one_line(error).removeprefix("CSV parse error: ").replace("Empty CSV file", "it is empty")
                raise _no_table(path, dialect, reason) from error
    if has_quotes and (n_rows := sum(1 for _ in text.records()) - 1) != found.num_rows:
        raise _no_table(path, dialect, f"it has {found.num_rows} rows or {n_rows}, because of its quotes")
    names = tuple(name.strip() for name in found.column_names)
    table = Table(path, names, [], str(dialect), {}, text)
    for name in names:
        # One by one: all as text would be another table in memory.
        column, found = found.column(0), found.remove_column(0)
        values, remark = read_cells(_to_series(column, name), dialect.decimal)
        table.columns.append(values)
        if remark is not None:
            table.remarks[name] = remark
    return table


def _no_table(path: Path, dialect: Dialect, reason: str) -> InputError:
    fields = "comma-separated" if dialect.separator == "," else repr(dialect.separator) + "-separated"
    return InputError(
        f"{path} is not a CSV table ({reason}); expected {fields} rows with a header, and quotes around whole fields; "
        "fix the file"
    )


def _to_series(column: Any, name: str) -> pd.Series[Any]:
    """A column of Arrow as pandas holds it, without a copy if it can be."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit))  # the same moments, in UTC
    return column.to_pandas(date_as_object=False).rename(name)  # type: ignore[no-any-return]


def _from_arrow(path: Path, kind: str) -> Table:
    with _reading(path, f"a whole {kind} file"):
        if kind == "Parquet":
            found = parquet.ParquetFile(path, pre_buffer=False).read(use_pandas_metadata=False)
        else:
            source = pa.memory_map(str(path))
            try:
                found = pa.ipc.open_file(source).read_all()
            except pa.ArrowInvalid:
                source.seek(0)
                found = pa.ipc.open_stream(source).read_all()
            found.validate(full=True)  # a spoilt file would end the process
        found = found.replace_schema_metadata(None)
        columns = [_to_series(column, name) for name, column in zip(found.column_names, found.columns, strict=True)]
    return Table(path, tuple(found.column_names), columns, kind, arrow=found)


def _from_excel(path: Path) -> Table:
    with _reading(path, "a spreadsheet and a package that reads it, such as openpyxl"):
        found = pd.read_excel(path)
    columns = [found.iloc[:, place].rename(str(name).strip()) for place, name in enumerate(found.columns)]
    read = [read_cells(column) for column in columns]
    remarks = {str(column.name): remark for column, remark in read if remark is not None}
    names = tuple(str(column.name) for column in columns)
    return Table(path, names, [column for column, _ in read], "the first sheet of a spreadsheet", remarks)


def _unpacked(path: Path) -> bytes:
    """The bytes of a text file, or of the only file of an archive."""
    if str(path) == "-":
        return sys.stdin.buffer.read()
    if path.suffix.lower() != ".zip":
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            return bytes(file.read())
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
        if len(names) != 1 or Path(names[0]).suffix.lower() not in ("", *_TEXT):
            raise InputError(
                f"{path} holds {len(names)} files ({listed(names, most=3)}); expected one CSV file in it; unpack it"
            )
        return archive.read(names[0])


def write_table(path: Path, table: Table, columns: Mapping[str, Any], rows: IntArray | None = None) -> None:
    """Write a table with further columns: last, in place of one of that name, or first where ``rows`` are chosen."""
    name = next(iter(columns))
    at = table.names.index(name) if name in table.names else None
    if path.suffix.lower() in (".csv", ".txt") and table.text is not None:
        lists = {name: values.tolist() if hasattr(values, "tolist") else values for name, values in columns.items()}
        table.text.write(path, table.text.extended(lists, at, rows))
        return
    found = _to_arrow(table.frame()) if table.arrow is None else table.arrow
    found = found if rows is None else found.take(pa.array(rows))
    for place, (name, values) in enumerate(columns.items()):
        column = pa.array(values, from_pandas=False)
        if rows is not None:
            found = found.add_column(place, name, column)
        else:
            found = found.append_column(name, column) if at is None else found.set_column(at, name, column)
    _write_arrow(path, found)


def write_changed(path: Path, table: Table, name: str, changed: Mapping[int, Any]) -> None:
    """Write a table with other values in some rows of one column; everything else stays as it is."""
    place = table.names.index(name)
    if path.suffix.lower() in (".csv", ".txt") and (text := table.text) is not None:
        records = enumerate(text.records(), start=-1)
        text.write(path, (text.replaced(r, place, changed[row]) if row in changed else r for row, r in records))
        return
    cells = table.columns[place].copy()
    if changed:
        new = np.array(list(changed.values()))
        cells = cells.astype(np.result_type(cells.dtype, new.dtype) if new.dtype.kind in "if" else cells.dtype)
        cells.iloc[list(changed)] = new
    write_table(path, table, {name: cells})


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame, as the suffix says."""
    if path.suffix.lower() in (".csv", ".txt"):
        write_whole(path, lambda temporary: frame.to_csv(temporary, index=False))
    else:
        _write_arrow(path, _to_arrow(frame))


def _to_arrow(frame: pd.DataFrame) -> Any:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"the table does not fit this format ({one_line(error)}); expected one kind of value per column; write .csv"
        ) from error


def _write_arrow(path: Path, table: Any) -> None:
    writers: dict[str, Callable[[Path], Any]] = {
        ".parquet": lambda file: parquet.write_table(table, file, compression="zstd", compression_level=1),
        ".feather": lambda file: feather.write_feather(table, file, compression="uncompressed"),
        ".arrow": lambda file: feather.write_feather(table, file, compression="uncompressed"),
        ".csv": lambda file: arrow_csv.write_csv(table, file),
        ".txt": lambda file: arrow_csv.write_csv(table, file),
    }
    write_whole(path, writers[path.suffix.lower()])
