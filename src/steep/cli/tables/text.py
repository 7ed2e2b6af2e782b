"""A text table: its numbers are read by pandas, its text is handed on as it was.

Columns are added or replaced. Every other field keeps its digits, quotes and line ends, so that
``00002`` stays ``00002`` and ``NA`` stays ``NA``; separator and encoding stay as well.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from steep._validation import FloatArray, IntArray, one_line
from steep.cli.printing import listed
from steep.cli.tables.cells import MISSING, read_cells
from steep.cli.tables.dialect import Dialect, detect
from steep.cli.tables.part import Part
from steep.exceptions import InputError, StorageError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class TextTable(Part):
    """The bytes of a table with a header, known to decode and to have equally many fields in every row.

    ``told`` is how the file is written, where the user knows it: encoding, separator, decimal.
    """

    path: Path
    told: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def raw(self) -> bytes:
        """The bytes of the file, unpacked."""
        return _read_bytes(self.path)

    @cached_property
    def dialect(self) -> Dialect:
        """How it is written."""
        return detect(self.raw, **self.told)

    @property
    def about(self) -> str:
        """How it is written, in words."""
        return str(self.dialect)

    @cached_property
    def _counted(self) -> tuple[tuple[str, ...], int]:
        try:
            return _count(self.raw, self.dialect)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.path} is not {self.dialect.encoding.upper()} (byte 0x{error.object[error.start]:02x}: "
                f"{error.reason}); expected its true encoding; pass another --encoding, for example cp1252 or utf-16"
            ) from error
        except (csv.Error, InputError) as error:
            raise self._no_table(error) from error

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the header."""
        return self._counted[0]

    @property
    def n_rows(self) -> int:
        """Rows under the header."""
        return self._counted[1]

    def _no_table(self, reason: object) -> InputError:
        fields = "comma-separated" if self.dialect.separator == "," else repr(self.dialect.separator) + "-separated"
        return InputError(
            f"{self.path} is not a CSV table ({reason}); expected {fields} rows with a header; fix the file, or "
            "pass --separator"
        )

    @cached_property
    def _read(self) -> tuple[pd.DataFrame, dict[int, str]]:
        """All columns, read once, and what to say of some of them."""
        positions, dialect = range(len(self.names)), self.dialect
        try:
            frame = pd.read_csv(
                io.BytesIO(self.raw[len(dialect.bom):]), header=0, names=list(positions), index_col=False,
                low_memory=False, encoding=dialect.encoding, sep=dialect.separator, decimal=dialect.decimal,
                na_values=list(MISSING), skipinitialspace=True, dtype=dict.fromkeys(dialect.number_like, str),
            )  # fmt: skip
        except pd.errors.ParserError as error:
            raise self._no_table(error) from error
        if len(frame) != self.n_rows:
            raise InputError(
                f"{self.path} has {self.n_rows} rows or {len(frame)}, because of its quotes; expected quotes around "
                "whole fields, and doubled quotes inside them; fix the quotes"
            )
        columns, remarks = {}, {}
        for place in positions:
            column, remark = read_cells(frame[place].rename(self.names[place]), dialect.decimal)
            columns[place] = column
            if remark is not None:
                remarks[place] = remark
        return pd.DataFrame(columns), remarks

    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Return some columns, dates as dates, with their names."""
        frame = self._read[0][list(columns)]
        frame.columns = pd.Index([self.names[position] for position in columns])
        return frame

    @property
    def remarks(self) -> dict[str, str]:
        """Readings that may surprise, by column."""
        return {self.names[place]: remark for place, remark in self._read[1].items()}

    def with_column(self, name: str, values: FloatArray, *, header: bool = True) -> Iterator[str]:
        """Yield the text row by row with one more column, or with that column replaced."""
        separator = self.dialect.separator
        at = self.names.index(name) if name in self.names else None
        fields = iter([_quoted(name, separator), *map(self.written, values.tolist())])
        is_first = True
        for text, row in _records(self.raw, self.dialect):
            if not row:
                yield text
                continue
            body = text.rstrip("\r\n")
            end = text[len(body) :]
            added = next(fields)
            whole = f"{body}{separator}{added}" if at is None else _replaced(body, at, added, separator)
            if header or not is_first:
                yield whole + end
            is_first = False

    def lines(self) -> list[str]:
        """The text of the header and of every row, without line ends."""
        return [text.rstrip("\r\n") for text, row in _records(self.raw, self.dialect) if row]

    def written(self, value: Any) -> str:
        """A value as the table writes its own; nothing for a missing one."""
        if isinstance(value, float):
            text = "" if value != value else repr(value)
            value = text.replace(".", ",") if self.dialect.decimal == "," else text
        return _quoted(str(value), self.dialect.separator)


def write_text(path: Path, parts: Sequence[TextTable], name: str, values: FloatArray) -> None:
    """Write the text of the parts, one after another under one header, with one more column."""
    dialect, first = parts[0].dialect, 0
    with path.open("wb") as file:
        file.write(dialect.bom)
        for i, part in enumerate(parts):
            lines = part.with_column(name, values[first : first + part.n_rows], header=i == 0)
            last = ""
            for last in lines:
                file.write(_to_bytes(last, dialect.encoding, name))
            if last and not last.endswith(("\n", "\r")) and i < len(parts) - 1:
                file.write("\n".encode(dialect.encoding))
            first += part.n_rows


def write_chosen(path: Path, parts: Sequence[TextTable], rows: IntArray, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write some rows, in the order given, as they are; further columns come first."""
    part, dialect = parts[0], parts[0].dialect
    texts = [text for each in parts for text in each.lines()[1:]]
    added = (
        [*map(part.written, columns)],
        *zip(*[map(part.written, values) for values in columns.values()], strict=True),
    )
    with path.open("wb") as file:
        file.write(dialect.bom)
        for fields, text in zip(added, [part.lines()[0], *(texts[row] for row in rows.tolist())], strict=True):
            whole = dialect.separator.join([*fields, text]) + "\n"
            file.write(_to_bytes(whole, dialect.encoding, ", ".join(columns)))


def _to_bytes(text: str, encoding: str, name: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise InputError(
            f"the column {name!r} cannot be written in {encoding.upper()}, the table's encoding; expected other "
            "letters; pass --weight-column NAME"
        ) from error


def _read_bytes(path: Path) -> bytes:
    if str(path) == "-":
        return sys.stdin.buffer.read()
    if path.suffix.lower() == ".zip":
        return _unzipped(path)
    opener = _OPENERS.get(path.suffix.lower())
    try:
        with opener(path) if opener else path.open("rb") as file:
            return bytes(file.read())
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(
            f"{path} cannot be read ({reason}); expected a table; check the file and its name"
        ) from error


def _unzipped(path: Path) -> bytes:
    """The one file of an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
            if names and all(name.endswith(".npy") for name in names):
                raise InputError(
                    f"{path} is a NumPy archive; expected one CSV file in it; save the table as CSV or Parquet"
                )
            if len(names) != 1:
                raise InputError(
                    f"{path} holds {len(names)} files{f' ({listed(names, most=3)})' if names else ''}; expected one "
                    "CSV file in it; unpack it and name the files"
                )
            if Path(names[0]).suffix.lower() not in ("", ".csv", ".tsv", ".txt", ".tab", ".data"):
                raise InputError(f"{path} holds {names[0]!r}; expected one CSV file in it; unpack it and name the file")
            return archive.read(names[0])
    except InputError:
        raise
    except (
        OSError,
        RuntimeError,
        NotImplementedError,
        ValueError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise StorageError(
            f"{path} cannot be read ({reason}); expected a zipped table; check the file and its name"
        ) from error


def _records(raw: bytes, dialect: Dialect) -> Iterator[tuple[str, list[str]]]:
    """Yield the text of each row with its line end, and its fields; a blank line has none."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        # Line ends are kept as they are.
        body = io.BytesIO(raw[len(dialect.bom) :])
        for line in io.TextIOWrapper(body, encoding=dialect.encoding, newline=""):
            taken.append(line)
            yield line

    for row in csv.reader(lines(), delimiter=dialect.separator, skipinitialspace=True):
        text = taken[0] if len(taken) == 1 else "".join(taken)
        taken.clear()
        # pandas passes over blank lines too.
        yield text, (row if len(row) > 1 or text.strip(" \t\r\n") else [])


def _count(raw: bytes, dialect: Dialect) -> tuple[tuple[str, ...], int]:
    """Names in the header and the number of rows under it; each must have as many fields."""
    names: tuple[str, ...] = ()
    n_rows = -1
    for _, row in _records(raw, dialect):
        if not row:
            continue
        names = names or tuple(name.strip() for name in row)
        if len(row) != len(names):
            raise InputError(f"row {n_rows + 1} has {len(row)} fields and the header {len(names)}")
        n_rows += 1
    if n_rows < 1:
        raise InputError("it has no rows" if names else "it is empty")
    return names, n_rows


def _replaced(body: str, at: int, field: str, separator: str) -> str:
    fields = [match[0] for match in _field_pattern(separator).finditer(body)]
    end = separator if fields[at].endswith(separator) else ""
    return "".join([*fields[:at], field + end, *fields[at + 1 :]])


def _field_pattern(separator: str) -> re.Pattern[str]:
    """One field with its quotes; what follows a closing quote belongs to it, as it does for the csv module."""
    mark = re.escape(separator)
    return re.compile(rf'(?: *"(?:[^"]|"")*"[^{mark}]*|[^{mark}]*)(?:{mark}|\Z)')


def _quoted(name: str, separator: str) -> str:
    """A name as CSV writes it."""
    needs_quotes = any(mark in name for mark in f'{separator}"\r\n')
    return '"' + name.replace('"', '""') + '"' if needs_quotes else name
