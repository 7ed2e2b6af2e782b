"""What the command says: the result on stdout, notes on stderr, and nothing that a terminal could take for orders."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from steep.exceptions import FunctionError

# Tables of more rows take long enough that each stage is announced.
_MANY_ROWS = 100_000


def printable(text: Any) -> str:
    r"""Text with control characters spelled out: names in a table must not steer the terminal.

    Examples
    --------
    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(text))


def one_line(text: Any) -> str:
    """Text without line ends and control characters."""
    return printable(" ".join(str(text).split()))


def note(text: str) -> None:
    """Say something in addition to the result."""
    print(f"steep: {one_line(text)}", file=sys.stderr)


def in_shell_words(text: str) -> str:
    """Name the parameters of the library as the options of the command are named.

    Examples
    --------
    >>> in_shell_words("n_neighbors=50 requires at least 51 samples, but X has 40; lower n_neighbors or pass more data")
    '--n-neighbors 50 requires at least 51 samples, but X has 40; lower --n-neighbors or pass more data'
    """

    def option(found: re.Match[str]) -> str:
        name = {"random_state": "seed", "n_runs": "runs"}.get(found[1], found[1]).replace("_", "-")
        return f"--{name} " if found[2] else f"--{name}"

    names = r"\b(n_neighbors|weight_ratio|n_initial|n_runs|random_state|(?:scoring|measure|task)(?==))(=?)"
    return re.sub(names, option, text)


def finish(figures: Mapping[str, Any], lines: Iterable[str], *, as_json: bool, report: Any = None) -> None:
    """Print the result: the figures as JSON, or the lines and the page for people."""
    if as_json:
        print(json.dumps(_plain(figures), ensure_ascii=not is_unicode(sys.stdout), allow_nan=False))
        return
    for line in (*lines, *([f"{report}: a page to look at"] if report is not None else [])):
        print(printable(line))


def is_unicode(stream: Any) -> bool:
    """Whether a stream takes every character."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def table_of(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A plain table for :func:`finish`, between blank lines; numbers to the right."""
    given = [list(row) for row in rows]
    right = [bool(given) and all(isinstance(row[j], int | float) for row in given) for j in range(len(columns))]
    cells = [[one_line(name) for name in columns], *([_cell(value) for value in row] for row in given)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        aligned = zip(row, widths, right, strict=True)
        lines.append(" " + "   ".join(c.rjust(w) if is_right else c.ljust(w) for c, w, is_right in aligned).rstrip())
    rule = ("─" if is_unicode(sys.stdout) else "-") * (sum(widths) + 3 * len(widths) - 1)
    return "\n".join(["", lines[0], f" {rule}", *lines[1:], ""])


def listed(names: Iterable[Any], *, most: int = 8) -> str:
    """Names in quotes, the first few of many."""
    all_names = [repr(str(name)) for name in names]
    more = len(all_names) - most
    return ", ".join(all_names[:most]) + (f" and {more} more" if more > 0 else "")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else one_line(value)


def _plain(value: Any) -> Any:
    """Values as JSON has them: NaN and infinity, which it lacks, are null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


class Terminated(SystemExit):
    """The command was terminated by a signal."""


def has_lost_its_reader(error: BaseException) -> bool:
    """Whether an error, or an exit that came from it, says that no one reads our output any more."""
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)


def stage(text: str, n_rows: int = 0) -> None:
    """Say what is under way: on a terminal, and with many rows."""
    if n_rows > _MANY_ROWS or sys.stderr.isatty():
        note(f"{text} …")


@contextmanager
def aside(name: str = "your code") -> Iterator[None]:
    """Run the user's own code, called ``name``: what it prints goes to stderr, and its exit is an error."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    except SystemExit as end:
        if isinstance(end, Terminated) or has_lost_its_reader(end):
            raise
        code = "" if end.code is None else repr(end.code)
        raise FunctionError(f"{name} called sys.exit({code}); return a value or raise an exception instead") from end
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def following(*, as_json: bool) -> Callable[[Mapping[str, Any], list[str]], None]:
    """What shows a result that changes, each change once: in one place on a terminal, as lines elsewhere."""
    last: list[str] = []

    def show(figures: Mapping[str, Any], lines: list[str]) -> None:
        if lines == last:
            return
        if last and not as_json and sys.stdout.isatty():
            print(f"\x1b[{len(last)}F\x1b[J", end="")  # up to the first line, and clear from there
        finish(figures, lines, as_json=as_json)
        sys.stdout.flush()
        last[:] = lines

    return show
