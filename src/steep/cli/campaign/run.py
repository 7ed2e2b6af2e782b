"""``steep campaign run``: run a simulator until its budget is spent, and resume after anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.bounds import parse_bounds
from steep.cli.campaign.simulator import simulator_of
from steep.cli.campaign.status import describe_status
from steep.cli.campaign.store import DEFAULT, Store, settings_of, start_campaign
from steep.cli.options import Bounds, Debug, Force, Json, Report
from steep.cli.pages import check_page, writer_of
from steep.cli.printing import aside, finish
from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.campaign import Campaign
    from steep.cli.campaign.settings import Settings

EXAMPLE = 'steep campaign run --command "./solver --u0 {u0}" --bounds u0=0:1 -n 24'


def run_command(
    store: Store = DEFAULT,
    function: Annotated[
        str | None,
        typer.Argument(metavar="MODULE:FUNCTION", help="Your simulator as a Python function.", show_default=False),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--command", help='Your simulator as a program: "./solver --u0 {u0}". No shell is involved.'),
    ] = None,
    bounds: Bounds = None,
    runs: Annotated[int | None, typer.Option("-n", "--runs", help="Runs in all, those made before included.")] = None,
    n_initial: Annotated[
        int | None, typer.Option("--initial", help="Runs of the even start; default a quarter.")
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option("--outputs", help="How a program answers: json (default), csv, or a regular expression."),
    ] = None,
    file: Annotated[str | None, typer.Option("--file", help="File the program answers in, instead of stdout.")] = None,
    stdin: Annotated[str | None, typer.Option("--stdin", help="Text for the program's stdin, with {u0} in it.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Runs at the same time; default 1.")] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds a run may take.")] = None,
    retries: Annotated[int | None, typer.Option("--retries", help="Attempts after the first; default 1.")] = None,
    max_failures: Annotated[
        int | None,
        typer.Option("--max-failures", min=0, help="Runs in a row that may fail alike; default 20, 0 is any number."),
    ] = None,
    stop_error: Annotated[
        float | None,
        typer.Option("--stop-error", help="Stop when the error's upper end is at most this at 3 looks in a row."),
    ] = None,
    stop_seconds: Annotated[float | None, typer.Option("--stop-seconds", help="Stop after so many seconds.")] = None,
    measure: Annotated[str | None, typer.Option("--measure", help="What counts as variation.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of a new campaign; default 0.")] = None,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Run a simulator where it varies; every result is kept, and the same command resumes.

    STORE is the campaign's file, made when it is not there, or a TOML file beside the solver that says all of
    this. Each run of a program has a folder of its own; an argument that names a file is passed with its
    full path. Ctrl-C ends cleanly; runs without a result are made again.
    """
    check_page(report, force=force)
    settings = settings_of(store).overridden(
        command=command, function=function, bounds=None if bounds is None else parse_bounds(bounds), runs=runs,
        n_initial=n_initial, outputs=outputs, file=file, stdin=stdin, workers=workers, timeout=timeout, retries=retries,
        max_failures=max_failures, stop_error=stop_error, stop_seconds=stop_seconds, measure=measure, seed=seed,
    )  # fmt: skip
    with aside():  # what the simulator prints is no part of the result
        simulator, options = _checked(settings)
    with start_campaign(settings) as campaign:
        with aside():
            _run(campaign, settings, simulator, options)
        reason = [f"  stopped early: {campaign.stop_reason}"] if campaign.stop_reason else []
        if report is not None:
            writer_of("campaign_page")(report, campaign, title=f"Campaign {settings.store}")
    from steep.campaign.status import StatusReader

    with StatusReader(settings.store) as reader:
        figures, lines = describe_status(reader.read())
    page = [f"{report}: a page to look at"] if report is not None else []
    finish(figures | {"report": report, "stop_reason": campaign.stop_reason}, [*lines, *reason, *page], as_json=as_json)


def _checked(settings: Settings) -> tuple[Any, dict[str, Any]]:
    """The simulator and where it runs: all checked before a store is made."""
    names = _names(settings)
    if settings.runs is None:
        raise InputError("the number of runs is missing; need it; pass --runs 200")
    if settings.n_initial is not None and not 1 <= settings.n_initial <= settings.runs:
        raise InputError(
            f"--initial {settings.n_initial} and --runs {settings.runs} do not fit; need a start within the runs; "
            "lower it"
        )
    return simulator_of(settings, names)


def _names(settings: Settings) -> tuple[str, ...]:
    """The inputs, from the bounds or from the store."""
    if settings.bounds is not None:
        return tuple(settings.bounds)
    if not settings.store.exists():
        raise InputError(
            f'{settings.store} is not there yet; need bounds for a new campaign; pass --bounds "u0=0:1,t=0.1:10:log"'
        )
    from steep.campaign.status import StatusReader

    with StatusReader(settings.store) as reader:
        return reader.box.names


def _run(campaign: Campaign, settings: Settings, simulator: Any, options: dict[str, Any]) -> None:
    assert settings.runs is not None
    given = {"error": settings.stop_error, "seconds": settings.stop_seconds}
    campaign.run(
        simulator, settings.runs, retries=settings.retries, max_failures=settings.max_failures or None,
        stop_when={name: value for name, value in given.items() if value is not None} or None, **options,
    )  # fmt: skip
