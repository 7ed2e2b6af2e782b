"""``steep campaign export``, ``plot`` and ``page``: all runs as a table, a picture or a page."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from steep._files import write_whole
from steep.cli.campaign.settings import DEFAULT, Store, move_on, read_campaign, settings_of
from steep.cli.options import FRAMES, Debug, Force, Json, check_destination, check_page, writer_of
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


def page_command(
    store: Store = DEFAULT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PAGE.html", help="The page; default STORE.html.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Write it again while runs come in, until they end.")] = False,
    interval: Annotated[float, typer.Option("--interval", min=1.0, help="Seconds between two pages.")] = 10.0,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a page about a campaign, one HTML file that needs nothing else; with --watch it is replaced whole."""
    settings = settings_of(store)
    output = settings.store.with_suffix(".html") if output is None else output
    check_page(output, force=force)
    with read_campaign(store) as campaign:
        is_running = True
        while is_running:
            began, status = time.monotonic(), campaign.status()
            writer_of("campaign_page")(output, campaign, title=None)
            if is_running := watch and status.is_running:
                # A page may take longer than the interval: it never takes more than half of the time.
                time.sleep(max(interval, time.monotonic() - began))
                move_on(settings)
    finish({"output": output, "runs": status.n_done}, [f"{output}: a page of {status.n_done:,} runs"], as_json=as_json)
