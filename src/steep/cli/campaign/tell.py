"""``steep campaign ask`` and ``tell``: points to run elsewhere, and their results, by the numbers of the runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli import options
from steep.cli.campaign.settings import DEFAULT, Initial, NewSeed, Store, open_campaign, settings_of, start_campaign
from steep.cli.printing import finish, listed, note
from steep.exceptions import InputError, SteepError, StorageError

if TYPE_CHECKING:
    import pandas as pd

    from steep.campaign import Campaign


_TIME = "%Y-%m-%dT%H:%M:%SZ"
_JSON, _LINES = (".json",), (".jsonl", ".ndjson")
# What a table of results is called; a first name of another kind is that of a campaign.
_TABLES = (".csv", ".tsv", ".txt", ".tab", ".gz", ".parquet", ".pq", ".arrow", ".feather", ".ipc", *_JSON, *_LINES)

_LEASE = 'How long no one else gets these points: "12 h", "30 min".'
_FILE = "File: .csv or .parquet; default CSV on stdout."
_RESULTS = "The campaign's file, default campaign.db; then tables of results: CSV, JSON or Parquet, - is stdin."
_RETRIES = "Times a failed run is asked again before it is given up."
Value = Annotated[
    list[str] | None,
    typer.Option("--value", metavar="NAME=NUMBER", help="An output of that run; once for each output."),
]


def ask_command(
    store: Store = DEFAULT,
    n: Annotated[int, typer.Option("-n", "--points", help="How many points.")] = 1,
    lease: Annotated[str, typer.Option("--lease", help=_LEASE)] = "24 h",
    output: Annotated[Path | None, typer.Option("--output", "-o", help=_FILE)] = None,
    bounds: options.Bounds = None,
    initial: Initial = None,
    seed: NewSeed = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Ask which points to run next, and write them with the numbers of their runs.

    No process has to stay alive: tell the results with steep campaign tell, from any process, when they are
    ready. Points whose lease is over without a result are asked again. With --bounds a new campaign is started.
    """
    settings = settings_of(store).overridden(bounds, initial=initial, seed=seed)
    options.check_destination(output, options.FRAMES, inputs=[settings.store], force=force)
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
    if output is None and not as_json:
        finish({}, [str(frame.to_csv(index=False)).rstrip("\n")], as_json=False)
        return
    if output is not None:
        write_frame(output, frame)
    lines = [f"{output}: {len(frame):,} points, yours until {expires[0]}"]
    figures = {"output": output, "asked": len(frame), "runs": frame.to_dict("records")}
    finish({"storage": campaign.journal.path, **figures}, lines, as_json=as_json)


def tell_command(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[STORE] RESULTS…", help=_RESULTS, show_default=False)
    ] = None,
    run: Annotated[int | None, typer.Option("--run", help="The number of one run, instead of a table.")] = None,
    value: Value = None,
    error: Annotated[str | None, typer.Option("--error", help="Why that run failed, instead of a value.")] = None,
    retries: Annotated[int, typer.Option("--retries", min=0, help=_RETRIES)] = 0,
    as_json: options.Json = False,
) -> None:
    """Record results by the numbers that steep campaign ask gave.

    A table has the column run and one for each output; a text in the column error says that the run failed; rows
    with neither are left out, so the table that was asked may be filled in. Inputs in the table must be those
    that were asked. Each table is recorded as a whole or not at all, and telling it twice does no harm.
    """
    given = list(files or [])
    store = DEFAULT if not given or str(given[0]) == "-" or given[0].suffix.lower() in _TABLES else given.pop(0)
    if (run is None) != bool(given):
        raise InputError(
            f"got {'a run and tables' if given else 'neither a table nor a run'}; expected one of them; pass "
            "results.csv, or --run 7 --value u=3.2"
        )
    with open_campaign(store) as campaign:
        before = campaign.n_done, campaign.n_failed
        rejected = _tell_tables(campaign, given, retries)
        if run is not None:
            _tell_run(campaign, run, value or [], error, retries)
        done, failed, pending = campaign.n_done, campaign.n_failed, len(campaign.pending)
        figures = {
            "storage": campaign.journal.path, "new_results": done - before[0], "new_failures": failed - before[1],
            "n_done": done, "n_failed": failed, "n_pending": pending, "rejected": rejected,
        }  # fmt: skip
    line = (
        f"{figures['storage']}: {done - before[0]:,} results and {failed - before[1]:,} failures recorded; {done:,} "
        f"runs done, {pending:,} pending, {failed:,} failed"
    )
    finish(figures, [line], as_json=as_json)
    if rejected:
        raise InputError(f"{len(rejected)} of {len(given)} tables were not recorded: {', '.join(rejected)}; see above")


def _tell_tables(campaign: Campaign, tables: list[Path], retries: int) -> dict[str, str]:
    """Tell each table; those that were rejected, and why: one bad table does not keep back the others."""
    rejected: dict[str, str] = {}
    for path in tables:
        try:
            campaign.tell_dataframe(read_results(path), retries=retries)
        except SteepError as wrong:
            if len(tables) == 1:
                raise
            rejected[str(path)] = str(wrong)
            note(f"{path}: {wrong}")
    return rejected


def _tell_run(campaign: Campaign, run: int, values: list[str], error: str | None, retries: int) -> None:
    if bool(values) == (error is not None):
        raise InputError(f"--run {run} needs its values or an error, one of them; pass --value u=3.2, or --error TEXT")
    if error is not None:
        campaign.tell_failure(run=run, message=error, retries=retries)
    else:
        campaign.tell(run=run, y=numbers_of(values))


def numbers_of(values: list[str]) -> Any:
    """Outputs of one run from NAME=NUMBER; a lone number needs no name."""
    found: dict[str, list[float]] = {}
    for value in values:
        name, _, text = value.rpartition("=")
        if not name.strip() and len(values) > 1:
            raise InputError(f"--value {value} has no name; expected NAME=NUMBER where there are several")
        if name.strip() in found:
            raise InputError(f"--value names an output twice ({name.strip()}); expected each once")
        try:
            found[name.strip()] = [float(text)]
        except ValueError as error:
            raise InputError(f"--value {value} is not a number; expected NAME=NUMBER, as u=3.2") from error
    return found.get("", found)


def read_results(path: Path) -> pd.DataFrame:
    """Read a table or JSON of results: ``run``, and a column per output or ``error``; "-" is stdin."""
    suffix = path.suffix.lower()
    if suffix in (*_JSON, *_LINES):
        return _of_json(path, by_line=suffix in _LINES)
    from steep.cli.tables import open_table

    table = open_table(path)
    if len(set(table.names)) < len(table.names):
        raise InputError(f"{path} has the columns {listed(table.names)}, some of them twice; rename them")
    return table.frame()


def _of_json(path: Path, *, by_line: bool) -> pd.DataFrame:
    import pandas as pd

    try:
        text = path.read_text(encoding="utf-8-sig")
        if by_line:
            text = f"[{','.join(filter(str.strip, text.splitlines()))}]"
        found = json.loads(text)
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}); expected a file; check its name") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); expected one object per run; write it again") from error
    inner = found.get("runs") if isinstance(found, dict) else found
    rows = inner if isinstance(inner, list) else [found]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f'{path} has no list of objects; expected one object per run, as {{"run": 7, "u": 3.2}}')
    # Objects, so that a whole number next to a missing one does not become a rounded float.
    return pd.DataFrame(rows, dtype=object)
