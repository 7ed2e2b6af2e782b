"""``steep campaign export``: all runs as a table."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from steep.cli.campaign.store import DEFAULT, Store, find_store, read_campaign
from steep.cli.destinations import check_destination
from steep.cli.options import Debug, Force, Json
from steep.cli.printing import finish

EXAMPLE = "steep campaign export campaign.db -o runs.csv"


class State(StrEnum):
    """Which runs."""

    all = "all"
    done = "done"
    pending = "pending"
    failed = "failed"


def export_command(
    store: Store = DEFAULT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File: .csv, .parquet, .feather or .arrow; default STORE.csv.")
    ] = None,
    state: Annotated[State, typer.Option("--state", help="Which runs.")] = State.all,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the runs as a table: inputs, outputs, state, origin, when they were asked and told."""
    from steep.cli.tables.writing import check_format, write_frame

    output = find_store(store).with_suffix(".csv") if output is None else output
    check_format(output)
    check_destination(output, inputs=[find_store(store)], force=force)
    with read_campaign(store) as campaign:
        frame = campaign.to_dataframe()
    marks = [name for name in frame.columns if name.rstrip("_") == "state"]
    if state is not State.all:
        frame = frame[frame[marks[-1]] == state.value]
    write_frame(output, frame)
    figures = {"output": output, "runs": len(frame), "columns": list(map(str, frame.columns))}
    finish(figures, [f"{output}: {len(frame):,} runs, {len(frame.columns)} columns"], as_json=as_json)
