"""``steep reproduce``: run the tables and figures of the paper, or write their page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from steep.cli.options import Debug, Json
from steep.cli.printing import aside, finish

EXAMPLE = "steep reproduce lemma1 --scale smoke"


class Scale(StrEnum):
    """How many networks and epochs."""

    smoke = "smoke"
    laptop = "laptop"
    paper = "paper"


def reproduce_command(
    names: Annotated[
        list[str] | None, typer.Argument(help="table1 … table7, figure1 … figure7, lemma1, open, or all")
    ] = None,
    scale: Annotated[
        Scale | None,
        typer.Option(help="smoke: minutes, stand-in data; laptop: hours; paper: the paper's full counts"),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="folder of the data sets (default: STEEP_DATA)")] = None,
    cache: Annotated[Path | None, typer.Option(help="folder of trained networks and downloads")] = None,
    results: Annotated[Path, typer.Option(help="folder of the lines")] = Path("results"),
    docs: Annotated[Path, typer.Option(help="folder of the page, with --report")] = Path("docs"),
    report: Annotated[bool, typer.Option("--report", help="write the page from the lines")] = False,
    trial: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="start each kind of job for so long and write what it would take (default scale: paper)",
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Reproduce tables and figures of the paper; a run that was stopped continues."""
    from steep.paper import reproduce as run
    from steep.paper.report import write_report

    figures: dict[str, Any] = {}
    lines: list[str] = []
    if trial is not None:
        with aside():
            figures, lines = _try_out(names, trial, scale.value if scale else "paper", data, cache, results)
    elif names or not report:
        chosen = scale.value if scale else "smoke"
        written = run(names or ["all"], scale=chosen, data=data, cache=cache, results=results)  # type: ignore[arg-type]
        figures |= {"lines": written, "results": results / chosen}
        lines.append(f"{written} lines written to {results / chosen}")
    if report:
        page = write_report(results, docs, scale.value if scale and trial is None else None)
        figures["page"] = page
        lines.append(f"page written: {page}")
    finish(figures, lines, as_json=as_json)


def _try_out(
    names: list[str] | None, seconds: float, scale: str, data: Path | None, cache: Path | None, results: Path
) -> tuple[dict[str, Any], list[str]]:
    from steep.paper.trial import run_trials, trials_of

    written = run_trials(
        names or ["all"],
        seconds=seconds,
        scale=scale,  # type: ignore[arg-type]
        data=data,
        cache=cache,
        results=results,
        say=typer.echo,
    )
    path = trials_of(results, scale).path
    return {"lines": written, "results": path}, [f"{written} lines written to {path}"]
