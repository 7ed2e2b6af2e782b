"""``steep campaign import``, ``correct``, ``retry``, ``forget`` and ``events``: what is recorded, and its changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steep.cli import options
from steep.cli.campaign.settings import DEFAULT, Store, open_campaign, read_campaign, settings_of, start_campaign
from steep.cli.campaign.tell import Value, numbers_of, read_results
from steep.cli.printing import finish, table_of
from steep.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

_CHOICE = "Only runs with this value; may be repeated."
Where = Annotated[list[str] | None, typer.Option("--where", metavar="COLUMN=VALUE", help=_CHOICE)]
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


def retry_command(store: Store = DEFAULT, where: Where = None, as_json: options.Json = False) -> None:
    """Have runs that were given up made again, as after a mistake in the simulator was fixed.

    --where chooses by the columns of steep campaign failures -o, as --where kind=timeout.
    """
    with open_campaign(store) as campaign:
        n = campaign.retry_failures(_chosen(where, campaign.failures()) if where else None)
    finish({"retried": n}, [f"{n:,} runs are asked again"], as_json=as_json)


def forget_command(
    store: Store = DEFAULT,
    run: Annotated[list[int] | None, typer.Option("--run", help="The number of a run; may be repeated.")] = None,
    where: Where = None,
    reason: Reason = "",
    as_json: options.Json = False,
) -> None:
    """Leave runs out of results, failures and budget; --where chooses by the columns of steep campaign export."""
    if bool(run) == bool(where):
        raise InputError("either runs or a choice of them is needed; pass --run 7, or --where state=failed")
    with open_campaign(store) as campaign:
        n = campaign.forget(run or _chosen(where or [], campaign.to_dataframe()), reason=reason)
    finish({"forgotten": n}, [f"{n:,} runs were forgotten"], as_json=as_json)


def events_command(store: Store = DEFAULT, as_json: options.Json = False) -> None:
    """List what was changed after it had been recorded: when, which run, what it was and what it became."""
    with read_campaign(store, warns=False) as campaign:
        frame = campaign.events()
    frame["detail"] = frame.detail.map(str)
    rows = zip(frame.kind, frame.run.fillna(0).astype(int).tolist(), frame.detail, strict=True)
    lines = [table_of(["event", "run", "detail"], rows)] if len(frame) else ["nothing was changed"]
    finish({"events": frame.to_dict("records")}, lines, as_json=as_json)


def _chosen(texts: list[str], frame: pd.DataFrame) -> list[int]:
    """Numbers of the runs of a table that have all of these values, given as COLUMN=VALUE."""
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--where {text} is not COLUMN=VALUE; write it as --where state=failed")
        if name not in frame.columns:
            raise InputError(f"--where {text} names an unknown column; expected one of {', '.join(frame.columns)}")
        try:
            wanted = float(value) if frame[name].dtype.kind in "iuf" else value
        except ValueError as error:
            raise InputError(f"--where {text}: column {name} has numbers; expected a number") from error
        frame = frame[frame[name] == wanted]
    run = next(name for name in reversed(frame.columns) if name.rstrip("_") == "run")
    return [int(number) for number in frame[run]]
