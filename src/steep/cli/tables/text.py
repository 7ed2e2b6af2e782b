"""A text table: its numbers are read by pandas, its text is handed on as it was.

Only one column is added or replaced. Every other field keeps its digits, quotes and line ends, so that
``00002`` stays ``00002`` and ``NA`` stays ``NA``; separator and encoding stay as well.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from steep._validation import FloatArray
from steep.cli.tables.dates import with_dates
from steep.cli.tables.dialect import Dialect, detect
from steep.cli.tables.part import Part
from steep.exceptions import InputError, StorageError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# What people write for "missing", beside what pandas knows.
_MISSING = ("?",)


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
                f"{error.reason}); need its true encoding; pass another --encoding, as cp1252 or utf-16"
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
        fields = (
            "comma-separated"
            if self.dialect.separator == ","
            else repr(self.dialect.separator) + "-separated"
        )
        return InputError(
            f"{self.path} is not a CSV table ({reason}); need {fields} rows with a header; mend it, or pass --separator"
        )

    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Return some columns as pandas reads them, dates as dates, with their names."""
        positions, dialect = range(len(self.names)), self.dialect
        try:
            frame = pd.read_csv(
                io.BytesIO(self.raw[len(dialect.bom):]), header=0, names=list(positions), usecols=list(columns),
                index_col=False, low_memory=False, encoding=dialect.encoding, sep=dialect.separator,
                decimal=dialect.decimal, thousands=dialect.thousands, na_values=list(_MISSING),
            )  # fmt: skip
        except pd.errors.ParserError as error:
            raise self._no_table(error) from error
        if len(frame) != self.n_rows:
            raise InputError(
                f"{self.path} has {self.n_rows} rows or {len(frame)}, which its quotes leave open; need a quote to be "
                "doubled inside quotes, and quotes around the whole field"
            )
        frame = with_dates(frame[list(columns)])
        frame.columns = pd.Index([self.names[position] for position in columns])
        return frame

    def with_column(self, name: str, values: FloatArray, *, header: bool = True) -> Iterator[str]:
        """Yield the text row by row with one more column, or with that column replaced."""
        separator = self.dialect.separator
        at = self.names.index(name) if name in self.names else None
        fields = iter([_quoted(name, separator), *map(self._written, values.tolist())])
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

    def _written(self, value: float) -> str:
        """A number as the table writes its own."""
        text = repr(value)
        return text.replace(".", ",") if self.dialect.decimal == "," else text


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


def _to_bytes(text: str, encoding: str, name: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise InputError(
            f"the column {name!r} cannot be written in {encoding.upper()}, the table's encoding; need other letters; "
            "pass --weight-column NAME"
        ) from error


def _read_bytes(path: Path) -> bytes:
    opener = _OPENERS.get(path.suffix)
    try:
        with opener(path) if opener else path.open("rb") as file:
            return bytes(file.read())
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{path} cannot be read ({reason}); need a table; check its name") from error


def _records(raw: bytes, dialect: Dialect) -> Iterator[tuple[str, list[str]]]:
    """Yield the text of each row with its line end, and its fields; a blank line has none."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        # Line ends are kept as they are.
        body = io.BytesIO(raw[len(dialect.bom) :])
        for line in io.TextIOWrapper(body, encoding=dialect.encoding, newline=""):
            taken.append(line)
            yield line

    for row in csv.reader(lines(), delimiter=dialect.separator):
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
        names = names or tuple(row)
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
    return re.compile(rf'(?:"(?:[^"]|"")*"[^{mark}]*|[^{mark}]*)(?:{mark}|\Z)')


def _quoted(name: str, separator: str) -> str:
    """A name as CSV writes it."""
    needs_quotes = any(mark in name for mark in f'{separator}"\r\n')
    return '"' + name.replace('"', '""') + '"' if needs_quotes else name
