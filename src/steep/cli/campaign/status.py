"""``steep campaign status``, ``failures``, ``export`` and ``page``: how far a campaign is, and what came out."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from steep.cli import options
from steep.cli.campaign.settings import DEFAULT, Store, move_on, read_campaign, settings_of
from steep.cli.printing import finish, following, one_line, table_of

if TYPE_CHECKING:
    import pandas as pd

    from steep.campaign.status import Status


# Characters of a message, and kinds of failure, that are shown.
_LENGTH, _SHOWN = 200, 20
_FOLLOW = "Follow it until it ends; Ctrl-C ends the watching, not the campaign."
_RUNS = "File: .csv, .parquet, .feather or .arrow; default STORE.csv."
_PAGE = "The page; default STORE.html."
State = Literal["all", "done", "pending", "failed"]


def status_command(
    store: Store = DEFAULT,
    watch: Annotated[bool, typer.Option("--watch", help=_FOLLOW)] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.05, help="Refresh interval in seconds.")] = 1.0,
    as_json: options.Json = False,
) -> None:
    """Show runs done, running and failed, the rate and the time left; nothing is written.

    --watch ends when the campaign has finished or no process runs it any more; with --json it prints one object a line.
    """
    settings = settings_of(store)
    with read_campaign(store, warns=False) as campaign:
        if not watch:
            finish(*describe_status(campaign.status()), as_json=as_json)
            return
        show, is_running = following(as_json=as_json), True
        with contextlib.suppress(KeyboardInterrupt):  # a clean end as well
            while is_running:
                move_on(settings)
                status = campaign.status()
                show(*describe_status(status))
                is_running = status.is_running
                time.sleep(interval if is_running else 0)


def describe_status(status: Status) -> tuple[dict[str, Any], list[str]]:
    """A status as figures, and as lines for people."""
    figures = asdict(status) | {"state": _state(status)}
    of = f" of {status.budget:,}" if status.budget is not None else ""
    counts = [f"{status.n_done:,}{of} runs done", f"{status.n_running:,} running"]
    kinds = {"in the queue of SLURM": status.n_queued, "leased": status.n_leased}
    kinds["waiting to be made again"] = status.n_waiting
    counts += [*(f"{n:,} {words}" for words, n in kinds.items() if n), f"{status.n_failed:,} failed"]
    lines = [f"{status.storage}: {_state(status)}", "  " + ", ".join(counts)]
    if status.rate > 0:
        is_known = status.is_running and status.seconds_left >= 0
        left = f", {timedelta(seconds=round(status.seconds_left))} left" if is_known else ""
        lines.append(f"  {60 * status.rate:.3g} runs a minute{left}")
    if status.n_failed:
        lines.append(f"  steep campaign failures {status.storage} shows why runs failed")
    return figures, lines


def _state(status: Status) -> str:
    if status.is_running:
        return "running"
    is_used = status.n_done + status.n_failed + status.n_leased + status.n_waiting
    words = {
        None: "runs are made outside steep (ask/tell)" if is_used else "not started", "finished": "finished",
        "interrupted": "interrupted; the same command resumes", "stopped": "stopped early, as it was asked to",
    }  # fmt: skip
    return words.get(status.outcome, "not started")


def failures_command(
    store: Store = DEFAULT,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show the last one's traceback as well.")] = False,
    as_json: options.Json = False,
) -> None:
    """List the attempts that failed: how often, where, and why; with --json each of them."""
    with read_campaign(store) as campaign:
        frame, inputs, given_up = campaign.failures(), list(campaign.box.names), campaign.n_failed
    figures = {"attempts": len(frame), "given_up": given_up, "failures": frame.to_dict("records")}
    finish(figures, _lines(frame, inputs, given_up, traceback=traceback), as_json=as_json)


def _lines(frame: pd.DataFrame, inputs: list[str], given_up: int, *, traceback: bool) -> list[Any]:
    if not len(frame):
        return ["no run has failed"]
    marks = [name for name in frame.columns if name not in inputs]
    kind, message, trace = (next(m for m in marks if m.startswith(word)) for word in ("kind", "message", "traceback"))
    from steep.campaign.runner import without_numbers

    rows = []
    for (name, _), group in frame.groupby([frame[kind], frame[message].map(without_numbers)], sort=False):
        last = group.iloc[-1]
        values = {name: f"{last[name]:.4g}" if isinstance(last[name], float) else last[name] for name in inputs}
        where = ", ".join(f"{name}={value}" for name, value in values.items())
        rows.append((len(group), name, one_line(last[message])[:_LENGTH], where))
    rows.sort(key=lambda row: -row[0])
    lines: list[Any] = [
        f"{len(frame):,} attempts failed, {given_up:,} runs were given up",
        table_of(["times", "kind", "why", "last at"], rows[:_SHOWN]),
    ]
    if traceback and frame[trace].iloc[-1]:
        lines.append(str(frame[trace].iloc[-1]).rstrip())
    return lines


def export_command(
    store: Store = DEFAULT,
    output: Annotated[Path | None, typer.Option("--output", "-o", help=_RUNS)] = None,
    state: Annotated[State, typer.Option("--state", help="Which runs.")] = "all",
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write the runs as a table: inputs, outputs, state, origin, when they were asked and told."""
    from steep.cli.tables import write_frame

    path = settings_of(store).store
    output = path.with_suffix(".csv") if output is None else output
    options.check_destination(output, options.FRAMES, inputs=[path], force=force)
    with read_campaign(store) as campaign:
        frame = campaign.to_dataframe()
    mark = [name for name in frame.columns if name.rstrip("_") == "state"][-1]
    frame = frame if state == "all" else frame[frame[mark] == state]
    write_frame(output, frame)
    figures = {"output": output, "runs": len(frame), "columns": list(map(str, frame.columns))}
    finish(figures, [f"{output}: {len(frame):,} runs, {len(frame.columns)} columns"], as_json=as_json)


def page_command(
    store: Store = DEFAULT,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="PAGE.html", help=_PAGE)] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Write it again while runs come in, until they end.")] = False,
    interval: Annotated[float, typer.Option("--interval", min=1.0, help="Seconds between two pages.")] = 10.0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write a page about a campaign, one HTML file that needs nothing else; with --watch it is replaced whole."""
    from steep.report import campaign_page

    settings = settings_of(store)
    output = settings.store.with_suffix(".html") if output is None else output
    options.check_page(output, force=force)
    with read_campaign(store) as campaign:
        is_running = True
        while is_running:
            began, status = time.monotonic(), campaign.status()
            campaign_page(output, campaign)
            if is_running := watch and status.is_running:
                # A page may take longer than the interval: it never takes more than half of the time.
                time.sleep(max(interval, time.monotonic() - began))
                move_on(settings)
    finish({"output": output, "runs": status.n_done}, [f"{output}: a page of {status.n_done:,} runs"], as_json=as_json)
