"""``steep demo``: four questions, answered on real data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steep.cli.options import Debug, Json
from steep.cli.printing import finish


def demo_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pages.")] = Path("demo"),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Do each job once on real data, and write one page with the answers."""
    from steep.cli.four_questions import run_demo

    said: list[str] = []
    page = run_demo(output, say=said.append if as_json else print)
    finish({"page": page, "said": said}, [], as_json=as_json)
