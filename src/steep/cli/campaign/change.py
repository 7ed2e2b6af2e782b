"""``steep campaign import``, ``correct``, ``retry``, ``forget`` and ``events``: what is recorded, and its changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steep.cli import options
from steep.cli.campaign.settings import DEFAULT, Store, open_campaign, read_campaign, settings_of, start_campaign
from steep.cli.campaign.tell import Value, numbers_of, read_results
from steep.cli.printing import finish, table_of
from steep.exceptions import InputError

Runs = Annotated[list[int] | None, typer.Option("--run", help="The number of a run; may be repeated.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept with the event.")]
Table = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, Parquet or JSON.", show_default=False)]
_OUTPUTS = "Columns that are outputs, with commas; others are left out. Default all."


def import_command(
    store: Store,
    table: Table,
    outputs: Annotated[str | None, typer.Option("--outputs", help=_OUTPUTS)] = None,
    as_json: options.Json = False,
) -> None:
    """Add runs that were made before: a column for each input and each output, by name.

    A text in the column error says that the run failed, so that its surroundings are avoided. Importing a table twice
    does no harm.
    """
    names = None if outputs is None else [name.strip() for name in outputs.split(",")]
    with start_campaign(settings_of(store)) as campaign:
        before = campaign.n_done, campaign.n_failed
        campaign.load_dataframe(read_results(table), outputs=names)
        done, failed = campaign.n_done - before[0], campaign.n_failed - before[1]
    line = f"{table}: {done:,} results and {failed:,} failures added"
    finish({"new_results": done, "new_failures": failed}, [line], as_json=as_json)


def correct_command(
    store: Store = DEFAULT,
    run: Annotated[int, typer.Option("--run", help="The number of the run.")] = 0,
    value: Value = None,
    reason: Reason = "",
    as_json: options.Json = False,
) -> None:
    """Replace the result of a run; the old one stays in steep campaign events."""
    if not run or not value:
        raise InputError("a run and its values are missing; pass --run 7 --value u=3.2")
    with open_campaign(store) as campaign:
        campaign.correct(run, numbers_of(value), reason=reason)
    finish({"corrected": run}, [f"run {run} was corrected"], as_json=as_json)


def retry_command(store: Store = DEFAULT, run: Runs = None, as_json: options.Json = False) -> None:
    """Have runs that were given up made again, all or some, as after a mistake in the simulator was fixed."""
    with open_campaign(store) as campaign:
        n = campaign.retry_failures(run)
    finish({"retried": n}, [f"{n:,} runs are asked again"], as_json=as_json)


def forget_command(
    store: Store = DEFAULT, run: Runs = None, reason: Reason = "", as_json: options.Json = False
) -> None:
    """Leave runs out of results, failures and budget; steep campaign export shows their numbers."""
    if not run:
        raise InputError("the runs are missing; pass --run 7")
    with open_campaign(store) as campaign:
        n = campaign.forget(run, reason=reason)
    finish({"forgotten": n}, [f"{n:,} runs were forgotten"], as_json=as_json)


def events_command(store: Store = DEFAULT, as_json: options.Json = False) -> None:
    """List what was changed after it had been recorded: when, which run, what it was and what it became."""
    with read_campaign(store, warns=False) as campaign:
        frame = campaign.events()
    frame["detail"] = frame.detail.map(str)
    rows = zip(frame.kind, frame.run.fillna(0).astype(int).tolist(), frame.detail, strict=True)
    lines = [table_of(["event", "run", "detail"], rows)] if len(frame) else ["nothing was changed"]
    finish({"events": frame.to_dict("records")}, lines, as_json=as_json)
