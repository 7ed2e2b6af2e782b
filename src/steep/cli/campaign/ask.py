"""``steep campaign ask``: points to run elsewhere, as by a batch system, each with the number of its run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.campaign.settings import DEFAULT, Store, settings_of, start_campaign
from steep.cli.options import FRAMES, Bounds, Debug, Force, Json, check_destination, parse_bounds
from steep.cli.printing import finish

if TYPE_CHECKING:
    import pandas as pd

    from steep.campaign import Campaign

_TIME = "%Y-%m-%dT%H:%M:%SZ"


def ask_command(
    store: Store = DEFAULT,
    n: Annotated[int, typer.Option("-n", "--points", help="How many points.")] = 1,
    lease: Annotated[
        str, typer.Option("--lease", help='How long no one else gets these points: "12 h", "30 min".')
    ] = "24 h",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File: .csv or .parquet; default CSV on stdout.")
    ] = None,
    bounds: Bounds = None,
    initial: Annotated[int | None, typer.Option("--initial", help="Runs of the even start of a new campaign.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of a new campaign; default 0.")] = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Ask which points to run next, and write them with the numbers of their runs.

    No process has to stay alive: tell the results with steep campaign tell, from any process, when they are
    there. Points whose lease is over without a result are asked again. With --bounds a new campaign is started.
    """
    settings = settings_of(store).overridden(
        bounds=None if bounds is None else parse_bounds(bounds), initial=initial, seed=seed
    )
    check_destination(output, FRAMES, inputs=[settings.store], force=force)
    with start_campaign(settings) as campaign:
        frame = campaign.ask(n, lease=lease)
        try:
            _show(campaign, frame, output, as_json=as_json)
            sys.stdout.flush()
        except BaseException:
            # These points were not handed out: they are free to be asked again.
            campaign._release(frame[frame.columns[0]].tolist())
            raise


def _show(campaign: Campaign, frame: pd.DataFrame, output: Path | None, *, as_json: bool) -> None:
    from steep.cli.tables import write_frame

    expires = frame[frame.columns[-1]].dt.strftime(_TIME).tolist()
    frame[frame.columns[-1]] = expires
    figures: dict[str, Any] = {"storage": campaign.journal.path, "output": output, "asked": len(frame)}
    if output is None and not as_json:
        finish({}, [str(frame.to_csv(index=False)).rstrip("\n")], as_json=False)
        return
    if output is not None:
        write_frame(output, frame)
    lines = [f"{output}: {len(frame):,} points, yours until {expires[0]}"]
    runs = [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
    finish(figures | {"runs": runs}, lines, as_json=as_json)
