"""What the cells of a text column hold: dates, numbers or names, decided from all of them.

pandas reads plain numbers. What it leaves as text is looked at here, column by column, so that a date never becomes a
number because another column has thousands separators.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from steep.cli.tables.dates import to_dates

# What stands for a missing value among dates and numbers; among names it is a name.
_GAPS = frozenset([
    "-", "--", "---", "–", "—", ".", "..", "*", "na", "n/a", "n.a.", "n.a", "nan", "nil", "none", "null", "(null)",
    "unknown", "missing", "not available", "k.a.", "#n/a", "#na", "#value!", "#div/0!", "#ref!", "#num!",
])  # fmt: skip
# What pandas takes for missing, and the question mark.
MISSING = ("?",)
_MISSING_TEXT = frozenset([
    "", "?", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan",
    "null",
])  # fmt: skip
# Columns of fewer different texts than this, or of fewer numbers among them, are names.
_MANY, _MOSTLY = 20, 0.8
_UNITS = ("%", "‰", "€", "$", "£", "¥", "EUR", "USD", "GBP", "CHF")
_SPACES = "'’ \u00a0\u202f"


def _number(decimal: str) -> re.Pattern[str]:
    """A number with this decimal mark; three digits at a time may be set apart by one mark."""
    mark, other = re.escape(decimal), re.escape("," if decimal == "." else ".")
    apart = "|".join(rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+" for group in (other, *_SPACES))
    return re.compile(rf"[+-]?(?:(?:\d+|{apart})(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?")


_NUMBERS = {decimal: _number(decimal) for decimal in (".", ",")}
_APART = {decimal: re.compile(f"[{',' if decimal == '.' else '.'}{_SPACES}]") for decimal in _NUMBERS}
_ANY_NUMBER = re.compile(f"{_NUMBERS['.'].pattern}|{_NUMBERS[','].pattern}")


def decimal_of(texts: Sequence[str]) -> str | None:
    """The decimal mark that texts prove; None where they are not all numbers, or can be read both ways.

    Examples
    --------
    >>> decimal_of(["1,5", "2"]), decimal_of(["1.5"]), decimal_of(["1.234.567"]), decimal_of(["1.234", "7"])
    (',', '.', ',', None)
    """
    fitting = _marks([text for text in texts if text not in _MISSING_TEXT and text.casefold() not in _GAPS])
    return fitting[0] if len(fitting) == 1 else None


def _marks(texts: Sequence[str]) -> list[str]:
    """The decimal marks with which all texts are numbers."""
    return [mark for mark, pattern in _NUMBERS.items() if texts and all(map(pattern.fullmatch, texts))]


def read_cells(column: Any, decimal: str = ".") -> tuple[Any, str | None]:
    """A text column as dates, numbers or names, and what to say where that may surprise.

    Parameters
    ----------
    column : Series
        Anything; columns that are not text are returned as they are.
    decimal : str
        The decimal mark of the file, for what can be read both ways.

    Examples
    --------
    >>> read_cells(pd.Series(["7.890,00", "-"]))[0].tolist()
    [7890.0, nan]
    """
    if getattr(column.dtype, "kind", "O") != "O" or isinstance(column.dtype, pd.CategoricalDtype):
        return column, None
    try:
        given = pd.unique(column.dropna())
    except TypeError:  # lists and records
        return column, None
    if not len(given) or not all(isinstance(text, str) for text in given):
        return column, None
    stripped = {text: text.strip() for text in given}
    names = [text for text in dict.fromkeys(stripped.values()) if text not in _MISSING_TEXT]
    values = [text for text in names if text.casefold() not in _GAPS]
    meaning, remark = _meaning(values, str(column.name), decimal) if values else (None, None)
    if meaning is not None:
        return column.map({text: meaning.get(stripped[text]) for text in given}), remark
    if len(names) == len(given) and all(text == plain for text, plain in stripped.items()):
        return column, remark
    kept = set(names)
    return column.map({text: plain if plain in kept else np.nan for text, plain in stripped.items()}), remark


def _meaning(texts: list[str], name: str, decimal: str) -> tuple[dict[str, Any] | None, str | None]:
    """What each text stands for, or None for names."""
    if dates := to_dates(texts):
        days, guess = dates
        said = f"{name!r} is read as {guess}, for example {texts[0]!r} as {days.iloc[0]:%Y-%m-%d}"
        return dict(zip(texts, days, strict=True)), said if guess else None
    if unit := _unit(texts):
        bare = {text: text.replace(unit, "").strip() for text in texts}
        if fitting := _marks(list(bare.values())):
            mark = decimal if decimal in fitting else fitting[0]
            numbers = {text: _to_number(number, mark) for text, number in bare.items()}
            first = f"for example {texts[0]!r} as {numbers[texts[0]]:.12g}"
            return numbers, f"{name!r} is read as numbers without {unit!r}, {first}"
    marks = _marks(texts)
    if not marks:
        return None, _mixed(texts, name)
    mark = decimal if decimal in marks else marks[0]
    numbers = {text: _to_number(text, mark) for text in texts}
    if odd := next((text for text in texts if _APART[mark].search(text)), None):
        return numbers, f"{name!r} has thousands separators: {odd!r} is read as {numbers[odd]:.12g}"
    if mark != decimal:
        odd = next(text for text in texts if mark in text)
        return numbers, f"{name!r} has another decimal mark: {odd!r} is read as {numbers[odd]:.12g}"
    return numbers, None


def _to_number(text: str, mark: str) -> float:
    return float(_APART[mark].sub("", text).replace(mark, "."))


def _unit(texts: list[str]) -> str | None:
    """The per cent sign or the currency that stands in all texts."""
    return next((unit for unit in _UNITS if all(unit in text for text in texts)), None)


def _mixed(texts: list[str], name: str) -> str | None:
    """What to say of a column that is nearly one of numbers."""
    others = [text for text in texts if not _ANY_NUMBER.fullmatch(text)]
    if len(texts) < _MANY or len(others) > (1 - _MOSTLY) * len(texts):
        return None
    return (
        f"{name!r} is read as categories: {len(others):,} of its {len(texts):,} different values, such as "
        f"{others[0]!r}, are not numbers; empty those cells to read it as numbers, or leave it out with --drop"
    )
