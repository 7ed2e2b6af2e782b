"""How a text table is written: its encoding, its separator and its decimal mark, detected in the text itself."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from steep.cli.tables.cells import decimal_of
from steep.cli.tables.dates import looks_like_number_too
from steep.exceptions import InputError

# Bytes and rows that separator and decimal mark are detected in.
_SAMPLE_BYTES, _SAMPLE_ROWS = 2**18, 500
_SEPARATORS = (",", ";", "\t", "|")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_COMMA = re.compile(r"[+-]?\d+,\d+")
_NAMES = {"\t": "tabs", " ": "spaces"}


@dataclass(frozen=True)
class Dialect:
    """How the text of a table is to be read.

    Attributes
    ----------
    encoding : str
        Name of the codec, for the text behind the byte-order mark.
    bom : bytes
        The byte-order mark the file starts with, or nothing.
    separator, decimal : str
        What stands between fields, and within most numbers: a column may differ.
    number_like : tuple of int
        Places of columns of dates that a reader of numbers would take for numbers.
    """

    encoding: str = "utf-8"
    bom: bytes = b""
    separator: str = ","
    decimal: str = "."
    number_like: tuple[int, ...] = ()

    def __str__(self) -> str:
        fields = _NAMES.get(self.separator, repr(self.separator))
        marks = ", decimal commas" if self.decimal == "," else ""
        return f"CSV separated by {fields}, {self.encoding.upper()}{marks}"


def detect(
    raw: bytes, *, encoding: str | None = None, separator: str | None = None, decimal: str | None = None
) -> Dialect:
    r"""Detect the dialect of a table from its bytes; what the caller knows is taken as it is.

    Examples
    --------
    >>> str(detect("größe;preis\n1,5;2\n".encode("cp1252")))
    "CSV separated by ';', CP1252, decimal commas"
    """
    dialect = _encoded(raw, encoding)
    rows = _sample_lines(raw, dialect)
    if separator is not None and len(separator) != 1:
        raise InputError(f"--separator is {separator!r}; expected one character, for example ';' or a tab")
    if decimal not in (None, ".", ","):
        raise InputError(f"--decimal is {decimal!r}; expected '.' or ','")
    dialect = replace(dialect, separator=separator or _separator(rows))
    return _with_columns(dialect, rows, decimal)


def _encoded(raw: bytes, encoding: str | None) -> Dialect:
    for bom, name in _BOMS:
        if raw.startswith(bom) and (encoding is None or name.startswith(_plain_name(encoding))):
            return Dialect(name, bom)
    if encoding is not None:
        return Dialect(_plain_name(encoding))
    if wide := _without_bom(raw):
        return Dialect(wide)
    # Text that reads as UTF-8 is UTF-8; what does not is nearly always Windows' western code page. Latin 1 takes
    # any byte.
    for name in ("utf-8", "cp1252"):
        try:
            raw.decode(name)
        except UnicodeDecodeError:
            continue
        return Dialect(name)
    return Dialect("latin-1")


def _plain_name(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)
    except (LookupError, ValueError) as error:
        raise InputError(
            f"--encoding {encoding!r} is unknown; expected a name such as utf-8, cp1252 or utf-16"
        ) from error
    return {"utf-8-sig": "utf-8"}.get(name, name)


def _without_bom(raw: bytes) -> str | None:
    """UTF-16 of western text has a zero in every second byte."""
    head = raw[:1000]
    if len(head) < 8:
        return None
    even, odd = head[::2].count(0) / len(head[::2]), head[1::2].count(0) / len(head[1::2])
    if odd > 0.6 and even < 0.1:
        return "utf-16-le"
    return "utf-16-be" if even > 0.6 and odd < 0.1 else None


def _sample_lines(raw: bytes, dialect: Dialect) -> list[str]:
    """The first lines, whole ones only."""
    head = raw[len(dialect.bom) : len(dialect.bom) + _SAMPLE_BYTES]
    lines = list(io.StringIO(head.decode(dialect.encoding, errors="replace"), newline=""))
    if len(head) == _SAMPLE_BYTES and len(lines) > 1:
        lines.pop()
    return lines[: _SAMPLE_ROWS + 1]


def _fields(lines: Sequence[str], separator: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if row]
    except csv.Error:
        return []


def _separator(lines: Sequence[str]) -> str:
    """The separator that gives the same number of fields, two or more, in the most rows; or spaces if there is none."""
    scores = {}
    for separator in _SEPARATORS:
        rows = _fields(lines, separator)
        width = len(rows[0]) if rows else 0
        if width > 1:
            scores[separator] = (sum(len(row) == width for row in rows) / len(rows), width)
    if scores:
        return max(scores, key=lambda separator: scores[separator])
    by_spaces = {len(row) for row in _fields(lines, " ")}
    return " " if len(by_spaces) == 1 and by_spaces != {1} else ","


def _with_columns(dialect: Dialect, lines: Sequence[str], decimal: str | None) -> Dialect:
    """The same with the decimal mark that columns prove, and the columns that hold dates such as 20130728."""
    rows = _fields(lines, dialect.separator)[1:]
    columns = [[text for cell in column if (text := cell.strip())] for column in zip_longest(*rows, fillvalue="")]
    proven = {mark for column in columns if (mark := decimal_of(column))}
    # 1,234 alone can be read both ways; a file with semicolons usually has them because of its decimal commas.
    is_likely = dialect.separator == ";" and any(_COMMA.fullmatch(text) for column in columns for text in column)
    # Between commas a decimal comma stands in quotes; such columns are read one by one.
    has_commas = dialect.separator != "," and (proven == {","} or (not proven and is_likely))
    usual = "," if has_commas else "."
    dates = tuple(place for place, column in enumerate(columns) if looks_like_number_too(column))
    return replace(dialect, decimal=decimal or usual, number_like=dates)
