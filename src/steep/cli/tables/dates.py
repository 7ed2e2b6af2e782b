"""Dates written as text: which day each of a column's texts means, if all of them are dates of one kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

_TIME = (
    r"(?:[ T]\s*(?P<h>\d{1,2}):(?P<min>\d{2})(?P<s>:\d{2}(?:[.,]\d+)?)?\s*(?P<half>[AaPp][Mm])?\s*"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
)
_YEAR = r"(?P<y>\d{4}|\d{2})"
_KINDS = tuple(
    re.compile(pattern + _TIME)
    for pattern in (
        r"(?P<y>\d{4})-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2}))?",
        r"(?P<y>\d{4})[/.](?P<m>\d{1,2})[/.](?P<d>\d{1,2})",
        r"(?P<y>(?:19|20)\d{2})(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01])",
        r"(?P<m>0?[1-9]|1[0-2])[/.](?P<y>(?:19|20)\d{2})",
        rf"(?P<d>\d{{1,2}})(?:\. ?|[ -])(?P<name>[^\W\d_]{{3,9}})\.?[ -]{_YEAR}",
        rf"(?P<name>[^\W\d_]{{3,9}})\.? (?P<d>\d{{1,2}}),? {_YEAR}",
        r"(?P<y>(?:19|20)\d{2})(?P<m>0[1-9]|1[0-2])",
    )
)
# Which of the first two is the day is decided by all texts together.
_YEAR_LAST = re.compile(rf"(?P<a>\d{{1,2}})(?P<mark>[/.-])(?P<b>\d{{1,2}})(?P=mark){_YEAR}{_TIME}")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# German names that begin otherwise.
_MORE_MONTHS = {"mär": 3, "mrz": 3, "mai": 5, "okt": 10, "dez": 12}
# Each with the number of different texts from which on it cannot be chance.
_NUMBER_LIKE = ((_KINDS[2], 1), (_KINDS[3], 1), (_KINDS[6], 6))
# Two-digit years from here on are of the last century, as for POSIX.
_CENTURY = 69


def looks_like_number_too(texts: Sequence[str]) -> bool:
    """Whether texts are dates that a reader of numbers would take for numbers, such as 20130728, 07.2013 and 201307.

    Examples
    --------
    >>> looks_like_number_too(["20130728", "20130801"]), looks_like_number_too(["20130728", "20131301"])
    (True, False)
    """
    different = set(texts)
    return any(len(different) >= fewest and all(map(kind.fullmatch, different)) for kind, fewest in _NUMBER_LIKE)


def to_dates(texts: Sequence[str]) -> tuple[Any, str] | None:
    """The days that texts mean, in UTC and without a zone, and how they were read where that is a guess; or None.

    Examples
    --------
    >>> days, _ = to_dates(["24.12.2025", "31.12.2025"])
    >>> days[0]
    Timestamp('2025-12-24 00:00:00')
    >>> to_dates(["1.2.3", "4.5.6"])
    """
    for kind in _KINDS:
        if kind.fullmatch(texts[0]):
            found = [kind.fullmatch(text) for text in texts]
            return (
                _days(found, lambda match: (_month(match), match.groupdict().get("d") or 1), "") if all(found) else None
            )
    matches = [_YEAR_LAST.fullmatch(text) for text in texts]
    return _year_last(matches) if all(matches) else None


def _year_last(matches: Sequence[Any]) -> tuple[Any, str] | None:
    """Numbers above 12 tell which is the day; otherwise points and dashes mean day first, slashes month first."""
    first, second = (any(int(match[part]) > 12 for match in matches) for part in ("a", "b"))
    if first and second:
        return None
    day_first = first or (not second and matches[0]["mark"] != "/")
    guess = "" if first or second or matches[0]["mark"] == "." else matches[0]["mark"].join(
        ("day", "month", "year") if day_first else ("month", "day", "year")
    )  # fmt: skip
    month, day = ("b", "a") if day_first else ("a", "b")
    return _days(matches, lambda match: (match[month], match[day]), guess)


def _month(match: Any) -> Any:
    parts = match.groupdict()
    if parts.get("name") is None:
        return parts["m"]
    start = parts["name"][:3].lower()
    return _MORE_MONTHS.get(start) or (_MONTHS.index(start) + 1 if start in _MONTHS else 0)


def _days(matches: Sequence[Any], split: Callable[[Any], Any], guess: str) -> tuple[Any, str] | None:
    """Parse all as ISO 8601; None where one is not a day of the calendar."""
    texts = []
    for match in matches:
        month, day = split(match)
        texts.append(f"{_full_year(match['y'])}-{int(month):02d}-{int(day):02d}{_time(match)}")
    try:
        # In UTC, since one column may hold summer and winter time.
        return pd.to_datetime(pd.Series(texts), utc=True, format="ISO8601").dt.tz_localize(None), guess
    except (ValueError, TypeError, OverflowError):
        return None


def _full_year(year: str) -> str:
    if len(year) == 4:
        return year
    return f"{'19' if int(year) >= _CENTURY else '20'}{year}"


def _time(match: Any) -> str:
    if match["h"] is None:
        return ""
    hour, half = int(match["h"]), (match["half"] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            return "T99:00"  # not an hour of the clock, so the text is not a date
        hour = hour % 12 + (12 if half == "pm" else 0)
    return f"T{hour:02d}:{match['min']}{(match['s'] or '').replace(',', '.')}{match['zone'] or ''}"
