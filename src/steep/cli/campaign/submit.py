"""``steep campaign submit``: runs as job arrays of SLURM; nothing has to stay alive in between."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.campaign.run import checked
from steep.cli.campaign.settings import DEFAULT, Function, Program, Store, open_campaign, settings_of, start_campaign
from steep.cli.campaign.status import describe_status
from steep.cli.options import Bounds, Debug, Json, parse_bounds
from steep.cli.printing import aside, finish, following, note
from steep.exceptions import InputError, InputTypeError

if TYPE_CHECKING:
    from steep.campaign import Campaign
    from steep.campaign.slurm import Progress, Slurm
    from steep.cli.campaign.settings import Settings


def submit_command(
    store: Store = DEFAULT,
    function: Function = None,
    command: Program = None,
    bounds: Bounds = None,
    runs: Annotated[int | None, typer.Option("-n", "--runs", help="Runs in all, those made before included.")] = None,
    in_flight: Annotated[
        int | None, typer.Option("--in-flight", help="Runs in the queue at the same time; default an eighth of all.")
    ] = None,
    walltime: Annotated[str | None, typer.Option("--time", help='Walltime of a task, as "2:00:00".')] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep the queue filled until all is done; Ctrl-C leaves the queue as it is.")
    ] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.5, help="Refresh interval in seconds.")] = 10.0,
    cancel: Annotated[bool, typer.Option("--cancel", help="Take everything back from the queue instead.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Submit runs to SLURM as job arrays, and record those that have ended.

    Every later call of submit, or of status on the same store, records what has ended and fills the queue again; no
    process has to stay alive. Runs whose task was cancelled, preempted or lost with its node are submitted again, and
    this does not count as a failure. The walltime, the partition, the account and other options of sbatch belong into
    the table [slurm] of the TOML file.
    """
    if cancel:
        from steep.campaign.slurm import cancel as cancelled

        with open_campaign(store) as campaign:
            _show(campaign, cancelled(campaign), as_json=as_json)
        return
    settings = settings_of(store).overridden(
        command=command, function=function, bounds=None if bounds is None else parse_bounds(bounds), runs=runs
    )
    how = slurm_of(settings, in_flight=in_flight, time=walltime)
    with aside():
        simulator, options = checked(settings)
    with start_campaign(settings) as campaign:
        from steep.campaign import slurm
        from steep.campaign.runner import stopper

        style = options.get("pass_as", "keywords" if campaign.named else "array")
        progress = slurm.submit(
            campaign, simulator, settings.runs or 0, how, style=style, retries=settings.retries,
            timeout=options.get("timeout"), max_failures=settings.max_failures or None,
        )  # fmt: skip
        if not watch:
            _show(campaign, progress, as_json=as_json)
            if progress.stopped is not None:
                note(f"nothing more is submitted: {progress.stopped}")
            return
        with following(as_json=as_json) as show, contextlib.suppress(KeyboardInterrupt):
            stop = stopper(campaign, settings.stop_when(), campaign._n_initial_of(settings.runs))
            slurm.run(
                campaign, progress, stopper=stop, pace=interval, show=lambda now: show(*_described(campaign, now))
            )


def _show(campaign: Campaign, progress: Progress, *, as_json: bool) -> None:
    figures, lines = _described(campaign, progress)
    finish(figures, lines, as_json=as_json)


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
