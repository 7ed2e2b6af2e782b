"""``steep campaign status``: how far a campaign is, also while another process runs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.campaign.store import DEFAULT, Store, find_store
from steep.cli.options import Debug, Json
from steep.cli.printing import finish, following

if TYPE_CHECKING:
    from steep.campaign.status import Status, StatusReader

EXAMPLE = "steep campaign status campaign.db --watch"


def status_command(
    store: Store = DEFAULT,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow it until it ends; Ctrl-C ends the watching, not the campaign.")
    ] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.05, help="Seconds between two looks.")] = 1.0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show runs done, running and failed, the rate, the estimated error and the time left.

    Nothing is written: look as often as you like. --watch ends when the campaign has finished or no process
    runs it any more; with --json it prints one object a line.
    """
    from steep.campaign.status import StatusReader

    with StatusReader(find_store(store)) as reader:
        if not watch:
            figures, lines = describe_status(reader.read())
            finish(figures, lines, as_json=as_json)
            return
        _follow(reader, interval, as_json=as_json)


def _follow(reader: StatusReader, interval: float, *, as_json: bool) -> None:
    """Show every change until nobody runs the campaign; Ctrl-C is a clean end as well."""
    with following(as_json=as_json) as show:
        try:
            for status in _changes(reader, interval):
                show(*describe_status(status))
        except KeyboardInterrupt:
            return


def _changes(reader: StatusReader, interval: float) -> Iterator[Status]:
    while True:
        began = time.monotonic()
        status = reader.read()
        yield status
        if not status.is_running:
            return
        # The estimate of the error may take longer than a look: never more than half of the time is spent on it.
        time.sleep(max(interval, time.monotonic() - began))


def describe_status(status: Status) -> tuple[dict[str, Any], list[str]]:
    """A status as figures, and as lines for people."""
    figures = asdict(status) | {"state": _state(status)}
    of = f" of {status.budget:,}" if status.budget is not None else ""
    counts = [f"{status.n_done:,}{of} runs done", f"{status.n_running:,} running"]
    if status.n_leased:
        counts.append(f"{status.n_leased:,} leased")
    if status.n_waiting:
        counts.append(f"{status.n_waiting:,} waiting to be made again")
    counts.append(f"{status.n_failed:,} failed")
    lines = [f"{status.storage}: {_state(status)}", "  " + ", ".join(counts)]
    if status.rate > 0:
        left = f", {_span(status.seconds_left)} left" if status.is_running and status.seconds_left >= 0 else ""
        lines.append(f"  {_rate(status.rate)}{left}")
    if status.estimated_error == status.estimated_error:
        lines.append(f"  estimated error {status.estimated_error.interval} in standard deviations of the output")
    if status.n_failed:
        lines.append(f"  steep campaign failures {status.storage} shows why runs failed")
    return figures, lines


def _state(status: Status) -> str:
    if status.is_running:
        return "running"
    if status.outcome is None and status.n_done + status.n_failed + status.n_leased + status.n_waiting:
        return "asked and told from outside"
    if status.outcome == "interrupted":
        return "interrupted; the same steep campaign run resumes"
    return {"finished": "finished", "stopped": "stopped early, as it was asked to"}.get(
        status.outcome or "", "not started"
    )


def _rate(rate: float) -> str:
    if rate >= 1:
        return f"{rate:.3g} runs a second"
    return f"{60 * rate:.3g} runs a minute" if rate >= 1 / 60 else f"{3600 * rate:.3g} runs an hour"


def _span(seconds: float) -> str:
    """Seconds as people say them.

    Examples
    --------
    >>> _span(42), _span(3700), _span(200_000)
    ('42 s', '1 h 1 min', '2 d 7 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"
