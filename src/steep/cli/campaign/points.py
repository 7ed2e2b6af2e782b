"""Tables of single runs, as they go to a batch system and come back: CSV, JSON, or any table the command reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steep._files import write_whole
from steep.cli.printing import listed
from steep.exceptions import InputError, StorageError

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (".csv", ".json", ".parquet")
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_JSON, _LINES = (".json",), (".jsonl", ".ndjson")
# What a table of results is called; a first name of another kind is that of a campaign.
_TABLES = {".csv", ".tsv", ".txt", ".tab", ".gz", ".bz2", ".xz", ".parquet", ".pq", ".arrow", ".feather", ".ipc"}


def is_table(path: Path) -> bool:
    """Whether a name is that of results, not of a campaign.

    Examples
    --------
    >>> is_table(Path("results.csv")), is_table(Path("-")), is_table(Path("campaign.db"))
    (True, True, False)
    """
    return str(path) == "-" or path.suffix.lower() in {*_TABLES, *_JSON, *_LINES}


def check_points_file(path: Path) -> None:
    """Refuse a file that points cannot be written to."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"--output {path} has the suffix {path.suffix!r}; need one of {', '.join(FORMATS)}; name another file"
        )


def text_of(frame: pd.DataFrame) -> str:
    """Points as CSV, numbers with all their digits."""
    return str(frame.to_csv(index=False, date_format=_TIME))


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Points as objects for JSON, one object per run."""
    rows = [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
    for row in rows:
        row[str(frame.columns[-1])] = row[str(frame.columns[-1])].strftime(_TIME)
    return rows


def write_points(path: Path, frame: pd.DataFrame) -> None:
    """Write points, whole or not at all."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        from steep.cli.tables.writing import write_frame

        write_frame(path, frame)
        return
    is_json = suffix == ".json"
    text = json.dumps(records_of(frame), indent=1, ensure_ascii=False) + "\n" if is_json else text_of(frame)
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_results(path: Path) -> pd.DataFrame:
    """Read a table of results: ``run``, and a column for each output, or ``error``.

    Parameters
    ----------
    path : Path
        CSV and other tables; JSON (one object per run, or a list of them), JSON lines; "-" is CSV on stdin.
    """
    suffix = path.suffix.lower()
    if suffix in (*_JSON, *_LINES):
        return _of_json(path, by_line=suffix in _LINES)
    from steep.cli.tables import open_table

    try:
        table = open_table([Path("/dev/stdin") if str(path) == "-" else path])
        if len(set(table.names)) < len(table.names):
            raise InputError(f"{path} has the columns {listed(table.names)}, some of them twice; rename them")
        return table.frame(table.names)
    except InputError as error:
        # What to do about it is said of commands with more options.
        what = str(error).partition(";")[0]
        raise InputError(
            f"{what}; expected a table with a column run and a column for each output, or a column error"
        ) from error


def _of_json(path: Path, *, by_line: bool) -> pd.DataFrame:
    import pandas as pd

    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}); need a file; check its name") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; expected JSON; write it as UTF-8") from error
    try:
        found = [_read(line) for line in text.splitlines() if line.strip()] if by_line else _read(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); expected one object per run; write it again") from error
    rows = _rows(found)
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f'{path} has no list of objects; expected one object per run, as {{"run": 7, "u": 3.2}}')
    # Objects, so that a whole number next to a missing one does not become a rounded float.
    return pd.DataFrame(rows, dtype=object)


def _read(text: str) -> Any:
    """The JSON value of a text; an object that has a name twice is an error, not its last value."""
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"an object has the names {names}; expected each once")
    return dict(pairs)


def _rows(found: Any) -> list[Any]:
    if isinstance(found, dict):
        inner = found.get("runs")
        return inner if isinstance(inner, list) else [found]
    return found if isinstance(found, list) else []
