"""``steep campaign run``: run a simulator until its budget is spent, and resume after anything."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.campaign.settings import DEFAULT, Function, Program, Store, read_campaign, settings_of, start_campaign
from steep.cli.campaign.status import describe_status
from steep.cli.options import Bounds, Debug, Force, Json, Report, check_page, load_target, parse_bounds, writer_of
from steep.cli.printing import aside, finish
from steep.exceptions import InputError, StorageError

if TYPE_CHECKING:
    from steep.campaign import Campaign
    from steep.cli.campaign.settings import Settings


def run_command(
    store: Store = DEFAULT,
    function: Function = None,
    command: Program = None,
    bounds: Bounds = None,
    runs: Annotated[int | None, typer.Option("-n", "--runs", help="Runs in all, those made before included.")] = None,
    initial: Annotated[
        int | None, typer.Option("--initial", help="Runs of the even start; default a quarter.")
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option("--outputs", help="How a program answers: json (default), csv, or a regular expression."),
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Runs at the same time; default 1.")] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds a run may take.")] = None,
    max_failures: Annotated[
        int | None,
        typer.Option("--max-failures", min=0, help="Runs in a row that may fail in one way; default 20, 0 is any."),
    ] = None,
    stop_error: Annotated[
        float | None,
        typer.Option("--stop-error", help="Stop when the error of the surrogate is certified to be at most this."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of a new campaign; default 0.")] = None,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Run a simulator where it varies; every result is kept, and the same command resumes.

    STORE is the campaign's file, made when it does not exist, or a TOML file next to the solver that says all of
    this and more. Each run of a program has a folder of its own; an argument that names a file is passed with its
    full path. Ctrl-C ends cleanly; runs without a result are made again.
    """
    check_page(report, force=force)
    settings = settings_of(store).overridden(
        command=command, function=function, bounds=None if bounds is None else parse_bounds(bounds), runs=runs,
        initial=initial, outputs=outputs, workers=workers, timeout=timeout, max_failures=max_failures,
        stop_error=stop_error, seed=seed,
    )  # fmt: skip
    with aside():  # what the simulator prints is not part of the result
        simulator, options = checked(settings)
    with start_campaign(settings) as campaign:
        with aside():
            _run(campaign, settings, simulator, options)
        reason = [f"  stopped early: {campaign.stop_reason}"] if campaign.stop_reason else []
        figures, lines = describe_status(campaign.status())
        if report is not None:
            writer_of("campaign_page")(report, campaign, title=f"Campaign {settings.store}")
    figures |= {"report": report, "stop_reason": campaign.stop_reason}
    finish(figures, [*lines, *reason], as_json=as_json, report=report)


def checked(settings: Settings) -> tuple[Any, dict[str, Any]]:
    """The simulator and where it runs: all checked before a store is made."""
    if settings.bounds is not None:
        names = tuple(settings.bounds)
    else:
        settings.check_bounds()
        with read_campaign(settings.store, warns=False) as campaign:
            names = campaign.box.names
    if settings.runs is None:
        raise InputError("the number of runs is missing; pass --runs 200")
    if settings.initial is not None and not 1 <= settings.initial <= settings.runs:
        raise InputError(
            f"--initial {settings.initial} and --runs {settings.runs} do not fit; expected a start within the runs; "
            "lower it"
        )
    return simulator_of(settings, names)


def _run(campaign: Campaign, settings: Settings, simulator: Any, options: dict[str, Any]) -> None:
    assert settings.runs is not None
    campaign.run(
        simulator, settings.runs, retries=settings.retries, max_failures=settings.max_failures or None,
        stop_when=settings.stop_when(), **options,
    )  # fmt: skip


def simulator_of(settings: Settings, names: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """The function to run for each point, and the options of :meth:`Campaign.run` that say where."""
    if (settings.command is None) == (settings.function is None):
        raise InputError(
            'need either a program or a function as the simulator; pass --command "./solver --u0 {u0}", or '
            "MODULE:FUNCTION"
        )
    if settings.command is not None:
        # A program is a process of its own: a thread is enough to wait for it.
        return program_of(settings, names), {"executor": "threads", "n_workers": settings.workers}
    function = load_target(str(settings.function), folder=settings.folder)
    from steep._function import calling_style

    style = calling_style(function, names, alone="keywords")
    where = "threads" if sys.platform == "win32" else "processes"
    return function, {
        "executor": where, "n_workers": settings.workers, "timeout": settings.timeout, "pass_as": style
    }  # fmt: skip


def program_of(settings: Settings, names: tuple[str, ...]) -> Any:
    """The program of a campaign as a function of its inputs."""
    from steep.campaign import command_simulator

    with contextlib.chdir(settings.folder):
        program = command_simulator(
            _located(str(settings.command), settings.folder), outputs=settings.outputs, file=settings.file,
            timeout=settings.timeout, input=settings.stdin, rejects=settings.rejects, keep=settings.keep,
            templates=_templates(settings),
        )  # fmt: skip
    if set(program.names) != set(names):
        braced = ", ".join(f"{{{name}}}" for name in program.names) or "no input"
        raise InputError(
            f"the command has {braced} and the bounds have {', '.join(names)}; expected the same inputs in both; "
            "rename them, put them in, or leave them out"
        )
    return program


def _templates(settings: Settings) -> dict[str, str]:
    """Input decks by the name they get in the folder of a run."""
    found = {}
    for name, path in (settings.templates or {}).items():
        try:
            found[name] = (settings.folder / str(path)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(
                f"template {path} cannot be read ({error}); expected a text file; check its name"
            ) from error
    return found


def _located(command: str, folder: Path) -> list[str]:
    """The arguments; one that names an existing file gets its full path: each run has a folder of its own."""
    from steep.campaign.command import command_parts

    parts = command_parts(command)
    is_path = [os.sep in part or i > 0 for i, part in enumerate(parts)]
    return [
        str(folder / part) if path and part and "{" not in part and (folder / part).is_file() else part
        for part, path in zip(parts, is_path, strict=True)
    ]
