"""Columns of dates written as text, told from the text."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

# Values a column is judged by before all of it is read.
_JUDGED = 1000
_TIME = r"(?:[ T]\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?)?"
_ISO = re.compile(rf"\d{{4}}-\d{{1,2}}(?:-\d{{1,2}}{_TIME})?")
_YEAR_FIRST = re.compile(rf"\d{{4}}[/.]\d{{1,2}}[/.]\d{{1,2}}{_TIME}")
_YEAR_LAST = re.compile(rf"(\d{{1,2}})([/.-])(\d{{1,2}})\2(?:\d{{4}}|\d{{2}}){_TIME}")


def with_dates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with columns of dates as dates.

    Examples
    --------
    >>> frame = with_dates(pd.DataFrame({"day": ["24.12.2025", "31.12.2025"], "note": ["a", "b"]}))
    >>> [frame[name].dtype.kind for name in frame]
    ['M', 'O']
    """
    found = {name: dates for name in frame if (dates := _dates(frame[name])) is not None}
    return (
        frame.assign(**{str(name): dates for name, dates in found.items()})
        if _plain(frame)
        else _put(frame, found)
    )


def _plain(frame: pd.DataFrame) -> bool:
    return all(isinstance(name, str) for name in frame.columns)


def _put(frame: pd.DataFrame, found: dict[Any, Any]) -> pd.DataFrame:
    frame = frame.copy(deep=False)
    for name, dates in found.items():
        frame[name] = dates
    return frame


def _dates(column: Any) -> Any:
    """The column as dates, or None when it is something else."""
    if getattr(column.dtype, "kind", "O") != "O":
        return None
    sample = column.dropna().head(_JUDGED)
    if not len(sample) or not all(isinstance(value, str) for value in sample):
        return None
    texts = [value.strip() for value in sample]
    if all(map(_ISO.fullmatch, texts)):
        return _parsed(column, {"format": "ISO8601"})
    if all(map(_YEAR_FIRST.fullmatch, texts)):
        return _parsed(column, {"format": "mixed", "yearfirst": True})
    matches = [_YEAR_LAST.fullmatch(text) for text in texts]
    if not all(matches):
        return None
    return _parsed(column, {"format": "mixed", "dayfirst": _is_day_first(matches)})


def _is_day_first(matches: list[Any]) -> bool:
    """Whether 3/4 is the third of April: numbers above 12 tell, points mean so, slashes alone do not."""
    if any(int(match[1]) > 12 for match in matches):
        return True
    if any(int(match[3]) > 12 for match in matches):
        return False
    return bool(matches[0][2] != "/")


def _parsed(column: Any, how: dict[str, Any]) -> Any:
    try:
        # In UTC, since one column may hold summer and winter time.
        return pd.to_datetime(column.str.strip(), utc=True, **how).dt.tz_localize(None)
    except (ValueError, TypeError, OverflowError):  # a later value is no date: it is text
        return None
