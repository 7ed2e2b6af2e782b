"""``steep campaign init``, ``run`` and ``submit``: write a campaign file, run it here, or as job arrays of SLURM.

Repeated after anything, ``run`` and ``submit`` resume; nothing has to stay alive between two calls of ``submit``.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep._files import write_whole
from steep.cli import options
from steep.cli.campaign import settings as campaigns
from steep.cli.campaign.settings import Settings
from steep.cli.campaign.status import describe_status
from steep.cli.printing import aside, finish, following, note
from steep.exceptions import InputError, InputTypeError

if TYPE_CHECKING:
    from steep.campaign import Campaign
    from steep.campaign.slurm import Progress, Slurm


_FILE = Path("case.toml")
_ANSWERS = "How a program answers: json (default), csv, or a regular expression."
_FAILURES = "Runs in a row that may fail in one way; default 20, 0 is any."
_STOP = "Stop when the error of the surrogate is certified to be at most this."
_QUEUE = "Runs in the queue at the same time; default an eighth of all."
_WATCH = "Keep the queue filled until all is done; Ctrl-C leaves the queue as it is."


def init_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = _FILE,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write a campaign file with an example of each entry, to be edited."""
    options.check_destination(path, (".toml",), force=force)
    text = (files("steep.cli.campaign") / "example.toml").read_bytes()
    write_whole(path, lambda temporary: temporary.write_bytes(text))
    finish({"output": path}, [f"{path}: edit it, then run steep campaign run {path}"], as_json=as_json)


def run_command(
    store: campaigns.Store = campaigns.DEFAULT,
    function: campaigns.Function = None,
    command: campaigns.Program = None,
    bounds: options.Bounds = None,
    runs: campaigns.Runs = None,
    initial: campaigns.Initial = None,
    outputs: Annotated[str | None, typer.Option("--outputs", help=_ANSWERS)] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Runs at the same time; default 1.")] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds a run may take.")] = None,
    max_failures: Annotated[int | None, typer.Option("--max-failures", min=0, help=_FAILURES)] = None,
    stop_error: Annotated[float | None, typer.Option("--stop-error", help=_STOP)] = None,
    seed: campaigns.NewSeed = None,
    report: options.Report = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Run a simulator where it varies; every result is kept, and the same command resumes.

    STORE is the campaign's file, made when it does not exist, or a TOML file next to the solver that says all of
    this and more. Each run of a program has a folder of its own; an argument that names a file is passed with its
    full path. Ctrl-C ends cleanly; runs without a result are made again.
    """
    options.check_page(report, force=force)
    settings = campaigns.settings_of(store).overridden(
        bounds, command=command, function=function, runs=runs, initial=initial, outputs=outputs, workers=workers,
        timeout=timeout, max_failures=max_failures, stop_error=stop_error, seed=seed,
    )  # fmt: skip
    with aside():  # what the simulator prints is not part of the result
        simulator, how = checked(settings)
    with campaigns.start_campaign(settings) as campaign:
        with aside():
            campaign.run(
                simulator, settings.runs or 0, retries=settings.retries, max_failures=settings.max_failures or None,
                stop_when=settings.stop_when(), **how,
            )  # fmt: skip
        reason = [f"  stopped early: {campaign.stop_reason}"] if campaign.stop_reason else []
        figures, lines = describe_status(campaign.status())
        if report is not None:
            from steep.report import campaign_page

            campaign_page(report, campaign, title=f"Campaign {settings.store}")
    figures |= {"report": report, "stop_reason": campaign.stop_reason}
    finish(figures, [*lines, *reason], as_json=as_json, report=report)


def checked(settings: Settings) -> tuple[Any, dict[str, Any]]:
    """The simulator and where it runs: all checked before a store is made."""
    if settings.bounds is not None:
        names = tuple(settings.bounds)
    else:
        settings.check_bounds()
        with campaigns.read_campaign(settings.store, warns=False) as campaign:
            names = campaign.box.names
    if settings.runs is None:
        raise InputError("the number of runs is missing; pass --runs 200")
    if settings.initial is not None and not 1 <= settings.initial <= settings.runs:
        raise InputError(
            f"--initial {settings.initial} and --runs {settings.runs} do not fit; expected a start within the runs; "
            "lower it"
        )
    return simulator_of(settings, names)


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
    function = options.load_target(str(settings.function), folder=settings.folder)
    from steep._function import calling_style

    style = calling_style(function, names, alone="keywords")
    where = "threads" if sys.platform == "win32" else "processes"
    how = {"executor": where, "n_workers": settings.workers, "timeout": settings.timeout, "pass_as": style}
    return function, how


def program_of(settings: Settings, names: tuple[str, ...]) -> Any:
    """The program of a campaign as a function of its inputs."""
    from steep.campaign import command_simulator

    with contextlib.chdir(settings.folder):
        decks = {name: Path(path).read_text(encoding="utf-8") for name, path in (settings.templates or {}).items()}
        program = command_simulator(
            _located(str(settings.command), settings.folder), outputs=settings.outputs, file=settings.file,
            timeout=settings.timeout, input=settings.stdin, rejects=settings.rejects, keep=settings.keep,
            templates=decks,
        )  # fmt: skip
    if set(program.names) != set(names):
        braced = ", ".join(f"{{{name}}}" for name in program.names) or "no input"
        raise InputError(
            f"the command has {braced} and the bounds have {', '.join(names)}; expected the same inputs in both; "
            "rename them, put them in, or leave them out"
        )
    return program


def _located(command: str, folder: Path) -> list[str]:
    """The arguments; one that names an existing file gets its full path: each run has a folder of its own."""
    from steep.campaign.command import command_parts

    parts = command_parts(command)
    is_path = [os.sep in part or i > 0 for i, part in enumerate(parts)]
    return [
        str(folder / part) if path and part and "{" not in part and (folder / part).is_file() else part
        for part, path in zip(parts, is_path, strict=True)
    ]


def submit_command(
    store: campaigns.Store = campaigns.DEFAULT,
    function: campaigns.Function = None,
    command: campaigns.Program = None,
    bounds: options.Bounds = None,
    runs: campaigns.Runs = None,
    in_flight: Annotated[int | None, typer.Option("--in-flight", help=_QUEUE)] = None,
    walltime: Annotated[str | None, typer.Option("--time", help='Walltime of a task, as "2:00:00".')] = None,
    watch: Annotated[bool, typer.Option("--watch", help=_WATCH)] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.5, help="Refresh interval in seconds.")] = 10.0,
    cancel: Annotated[bool, typer.Option("--cancel", help="Take everything back from the queue instead.")] = False,
    as_json: options.Json = False,
) -> None:
    """Submit runs to SLURM as job arrays, and record those that have ended.

    Every later call of submit, or of status on the same store, records what has ended and fills the queue again; no
    process has to stay alive. Runs whose task was cancelled, preempted or lost with its node are submitted again, and
    this does not count as a failure. The walltime, the partition, the account and other options of sbatch belong into
    the table [slurm] of the TOML file.
    """
    from steep.campaign import slurm
    from steep.campaign.runner import stopper

    if cancel:
        with campaigns.open_campaign(store) as campaign:
            finish(*_described(campaign, slurm.cancel(campaign)), as_json=as_json)
        return
    settings = campaigns.settings_of(store).overridden(bounds, command=command, function=function, runs=runs)
    how = slurm_of(settings, in_flight=in_flight, time=walltime)
    with aside():
        simulator, given = checked(settings)
    with campaigns.start_campaign(settings) as campaign:
        style = given.get("pass_as", "keywords" if campaign.named else "array")
        progress = slurm.submit(
            campaign, simulator, settings.runs or 0, how, style=style, retries=settings.retries,
            timeout=given.get("timeout"), max_failures=settings.max_failures or None,
        )  # fmt: skip
        if not watch:
            finish(*_described(campaign, progress), as_json=as_json)
            if progress.stopped is not None:
                note(f"nothing more is submitted: {progress.stopped}")
            return
        show = following(as_json=as_json)
        with contextlib.suppress(KeyboardInterrupt):
            stop = stopper(campaign, settings.stop_when(), campaign._n_initial_of(settings.runs))
            slurm.run(
                campaign, progress, stopper=stop, pace=interval, show=lambda now: show(*_described(campaign, now))
            )


def _described(campaign: Campaign, progress: Progress) -> tuple[dict[str, Any], list[str]]:
    figures, lines = describe_status(campaign.status())
    moved = f"  {progress.n_recorded:,} runs recorded, {progress.n_submitted:,} submitted"
    if progress.n_preempted:
        moved += f", {progress.n_preempted:,} preempted, which are submitted again"
    waits = [f"  tasks wait in the queue: {progress.waits_for}"] if progress.waits_for else []
    return figures | progress._asdict(), [*lines, moved, *waits]


def slurm_of(settings: Settings, **given: Any) -> Slurm:
    """The table ``[slurm]`` of a campaign file, and what the command line says in addition."""
    from steep.campaign.slurm import Slurm

    entries = {**(settings.slurm or {}), **{name: value for name, value in given.items() if value is not None}}
    try:
        return Slurm(**entries)
    except TypeError as error:
        if isinstance(error, InputTypeError):
            raise
        raise InputError(
            f"[slurm] has {', '.join(entries)}; it may have in_flight, runs_per_task, time, partition, account, options"
        ) from error
