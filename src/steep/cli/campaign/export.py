"""``steep campaign export`` and ``plot``: all runs as a table, and a picture of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from steep._files import write_whole
from steep.cli.campaign.settings import DEFAULT, Store, read_campaign, settings_of
from steep.cli.options import FRAMES, Debug, Force, Json, check_destination
from steep.cli.printing import finish
from steep.exceptions import MissingExtraError


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
    from steep.cli.tables import write_frame

    output = settings_of(store).store.with_suffix(".csv") if output is None else output
    check_destination(output, FRAMES, inputs=[settings_of(store).store], force=force)
    with read_campaign(store) as campaign:
        frame = campaign.to_dataframe()
    marks = [name for name in frame.columns if name.rstrip("_") == "state"]
    if state is not State.all:
        frame = frame[frame[marks[-1]] == state.value]
    write_frame(output, frame)
    figures = {"output": output, "runs": len(frame), "columns": list(map(str, frame.columns))}
    finish(figures, [f"{output}: {len(frame):,} runs, {len(frame.columns)} columns"], as_json=as_json)


def plot_command(
    store: Store = DEFAULT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Picture: .svg, .pdf or .png; default STORE.svg.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw where a campaign has run, where it varies, and how its error falls."""
    output = settings_of(store).store.with_suffix(".svg") if output is None else output
    check_destination(output, (".svg", ".pdf", ".png"), inputs=[settings_of(store).store], force=force)
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib; run pip install 'steep[report]'") from error
    matplotlib.use("agg")
    with read_campaign(store) as campaign:
        n_done = campaign.n_done
        drawn = campaign.plot()
    import numpy as np

    figure = np.ravel(drawn)[0].figure
    write_whole(output, lambda path: figure.savefig(path, dpi=150, bbox_inches="tight"))
    finish({"output": output, "runs": n_done}, [f"{output}: a picture of {n_done:,} runs"], as_json=as_json)
