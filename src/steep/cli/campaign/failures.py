"""``steep campaign failures``: what went wrong, alike ones together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.campaign.store import DEFAULT, Store, read_campaign
from steep.cli.destinations import check_destination
from steep.cli.options import Debug, Force, Json
from steep.cli.printing import finish, one_line, table_of

if TYPE_CHECKING:
    import pandas as pd

EXAMPLE = "steep campaign failures campaign.db"
# Characters of a message that tell failures apart, and kinds of failure that are shown.
_ALIKE, _SHOWN = 200, 20
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def failures_command(
    store: Store = DEFAULT,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show the last one's traceback as well.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write every failed attempt to this file: .csv or .parquet.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the attempts that failed: how often, where, and why."""
    from steep.cli.tables.writing import check_format, write_frame

    if output is not None:
        check_format(output)
        check_destination(output, force=force)
    with read_campaign(store) as campaign:
        frame, inputs, given_up = campaign.failures(), list(campaign.box.names), campaign.n_failed
    if output is not None:
        write_frame(output, frame)
    figures = {
        "attempts": len(frame), "given_up": given_up, "output": output, "failures": frame.to_dict("records")
    }  # fmt: skip
    finish(figures, _lines(frame, inputs, given_up, output, traceback=traceback), as_json=as_json)


def _lines(frame: pd.DataFrame, inputs: list[str], given_up: int, output: Path | None, *, traceback: bool) -> list[Any]:
    if not len(frame):
        return ["no run has failed"]
    marks = [name for name in frame.columns if name not in inputs]
    kind, message, trace = (next(m for m in marks if m.startswith(word)) for word in ("kind", "message", "traceback"))
    # Messages that differ in their numbers alone are one kind of failure.
    alike = frame[message].map(lambda text: _NUMBER.sub("#", one_line(text))[:_ALIKE])
    rows = []
    for (name, _), group in frame.groupby([frame[kind], alike], sort=False):
        last = group.iloc[-1]
        where = ", ".join(f"{name}={_short(last[name])}" for name in inputs)
        rows.append((len(group), name, one_line(last[message])[:_ALIKE], where))
    rows.sort(key=lambda row: -row[0])
    lines: list[Any] = [
        f"{len(frame):,} attempts failed, {given_up:,} runs were given up",
        table_of(["times", "kind", "why", "last at"], rows[:_SHOWN]),
    ]
    if traceback and frame[trace].iloc[-1]:
        lines.append(str(frame[trace].iloc[-1]).rstrip())
    return [*lines, *([f"{output}: all of them"] if output is not None else [])]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
