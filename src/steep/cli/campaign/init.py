"""``steep campaign init``: write a campaign file to start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from steep._files import write_whole
from steep.cli.campaign.run import program_of
from steep.cli.campaign.settings import Settings
from steep.cli.options import ENTRY, Bounds, Debug, Force, Json, check_destination, parse_bounds
from steep.cli.printing import finish

_TEXT = """\
# A campaign: steep campaign run {name}, or steep campaign submit {name} for SLURM. Paths are relative to this file.
store = {store}
command = {command}
outputs = "json"                # or "csv", or a regular expression such as 'CL = (?P<CL>\\S+)'
runs = {runs}
workers = 2
# timeout = 600                 # seconds a run may take
# constraint = {constraint}
# rejects = 3                   # exit code of the program for inputs that it does not accept
# keep = "kept"                 # keep the folder of each run, with its inputs and output

[bounds]                        # name = [low, high], "low:high:log", "low:high:int" or a list of texts
{bounds}

# [templates]                   # input decks, with {{u0:12.4e}} for inputs, by the name they get in the folder of a run
# "case.in" = "case.template"

# [slurm]                       # for steep campaign submit
# time = "2:00:00"
# partition = "batch"
# in_flight = 50
# options = ["--mem=4G"]
"""


def init_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("case.toml"),
    command: Annotated[
        str, typer.Option("--command", help="Your simulator as a program.")
    ] = "./solver --u0 {u0} --t {t}",
    bounds: Bounds = "u0=0:1,t=0.1:10:log",
    runs: Annotated[int, typer.Option("-n", "--runs", min=1, help="Runs in all.")] = 200,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a campaign file with an example of each entry, to be edited."""
    check_destination(path, (".toml",), force=force)
    names = tuple(parse_bounds(bounds or ""))
    program_of(Settings(command=command), names)
    ranges = "\n".join(f"{_quoted(name)} = {_quoted(entry.strip())}" for name, entry in ENTRY.findall(bounds or ""))
    text = _TEXT.format(
        name=path.name, store=_quoted(path.with_suffix(".db").name), command=_quoted(command), runs=runs,
        constraint=_quoted(f"{names[0]} <= 0.9"), bounds=ranges,
    )  # fmt: skip
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    finish({"output": path}, [f"{path}: edit it, then run steep campaign run {path}"], as_json=as_json)


def _quoted(text: str) -> str:
    """Text as TOML and JSON both write it."""
    return json.dumps(text, ensure_ascii=False)
