"""Tables as named columns: CSV, Parquet, Arrow, Excel and JSON; one file or several as one."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steep.cli.tables.part import Part
from steep.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Part", "Table", "open_table"]

_TEXT = {".csv", ".tsv", ".txt", ".tab", ".data", ".gz", ".bz2", ".xz", ".zip", ""}
_KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".xlsx": "excel",
    ".xls": "excel", ".ods": "excel", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".npz": "npz",
    ".npy": "npz", ".arff": "arff",
}  # fmt: skip
# What a file starts with, where its name does not say what it is.
_MAGIC = ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"FEA1", "arrow"))


@dataclass(frozen=True)
class Table:
    """Rows of one or several files, one below the other."""

    parts: tuple[Part, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the first file."""
        return self.parts[0].names

    @property
    def n_rows(self) -> int:
        """Rows of all files."""
        return sum(part.n_rows for part in self.parts)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [part.path for part in self.parts]

    @property
    def title(self) -> str:
        """What to call the table."""
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        return f"{self.parts[0].path}{more}"

    @property
    def about(self) -> str:
        """How the files were read, in words."""
        return "; ".join(dict.fromkeys(part.about for part in self.parts))

    @property
    def remarks(self) -> dict[str, str]:
        """Readings that may surprise, by column."""
        return {name: remark for part in self.parts for name, remark in part.remarks.items()}

    def frame(self, names: Sequence[str]) -> pd.DataFrame:
        """Some columns of all rows."""
        import pandas as pd

        frames = [part.frame([part.names.index(name) for name in names]) for part in self.parts]
        return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def open_table(paths: Sequence[Path], **told: str | None) -> Table:
    """Open files, globs or folders of Parquet files as one table.

    Parameters
    ----------
    paths : sequence of Path
        Files; a name with ``*`` stands for all that match, a folder for its Parquet files, "-" for standard input.
    **told : str or None
        How text is written, if the user knows it: ``encoding``, ``separator``, ``decimal``.

    Returns
    -------
    Table
    """
    files = [file for path in paths for file in _expanded(path)]
    table = Table(tuple(_open(file, told) for file in files))
    for part in table.parts[1:]:
        if sorted(part.names) != sorted(table.names):
            odd = sorted(set(part.names) ^ set(table.names))
            raise InputError(
                f"{part.path} and {table.parts[0].path} differ in their columns ({', '.join(map(repr, odd[:5]))}); "
                "expected the same columns in all files; use one file at a time"
            )
    if table.n_rows == 0:
        raise InputError(f"{table.title} has 0 rows; expected samples; check the file")
    if not table.names:
        raise InputError(f"{table.title} has no columns; expected a target and features; check the file")
    return table


def _expanded(path: Path) -> list[Path]:
    text = os.fspath(path)
    if path.is_dir():
        found = sorted(path.glob("*.parquet"))
        if not found:
            raise InputError(
                f"{path} is a folder without .parquet files; expected tables; name the files, for example {path}/*.csv"
            )
        return found
    if path.exists() or not glob.has_magic(text):
        return [path]
    matches = sorted(map(Path, glob.glob(text, recursive=True)))
    if not matches:
        raise InputError(f"nothing matches {text}; expected a table; check the name")
    return matches


def _open(path: Path, told: dict[str, str | None]) -> Part:
    """A file as the kind that its name or its first bytes say."""
    kind = _kind(path)
    if kind == "csv":
        from steep.cli.tables.text import TextTable

        return TextTable(path, told)
    if kind in ("npz", "arff"):
        what = "a NumPy file" if kind == "npz" else "an ARFF file"
        raise InputError(
            f"{path} is {what}; expected CSV, Parquet, Arrow, Excel or JSON; save the table as CSV or Parquet"
        )
    if any(told.values()):
        raise InputError(
            f"{path} is not a text table; --encoding, --separator and --decimal are for CSV; leave them out"
        )
    if kind in ("parquet", "arrow"):
        from steep.cli.tables.columnar import ArrowTable, ParquetTable

        return ParquetTable(path) if kind == "parquet" else ArrowTable(path)
    from steep.cli.tables.records import ExcelTable, JsonTable

    return JsonTable(path) if kind == "json" else ExcelTable(path)


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix in _KINDS:
        return _KINDS[suffix]
    # Pipes can be read once only: they are text.
    if suffix in _TEXT - {""} or not path.is_file():
        return "csv"
    with path.open("rb") as file:
        head = file.read(8)
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), "csv")
