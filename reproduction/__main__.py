"""``python -m reproduction table1 --scale laptop``: run the tables and figures of the paper, or write their page."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from reproduction.jobs import Scale
from reproduction.report import print_claims, write_report
from reproduction.runner import reproduce, resolve
from steep.exceptions import SteepError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class ScaleName(StrEnum):
    """How many networks and epochs."""

    smoke = "smoke"
    laptop = "laptop"
    paper = "paper"


@app.command()
def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="table1 … table7, figure1 … figure6, lemma1, surrogates, open, or all")
    ] = None,
    scale: Annotated[
        ScaleName | None,
        typer.Option(help="smoke: minutes, stand-in data; laptop: hours; paper: the paper's full counts"),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="folder of the data sets (default: STEEP_DATA)")] = None,
    cache: Annotated[Path | None, typer.Option(help="folder of trained networks and downloads")] = None,
    results: Annotated[Path, typer.Option(help="folder of the lines")] = Path("results"),
    docs: Annotated[Path, typer.Option(help="folder of the page, with --report")] = Path("docs"),
    device: Annotated[str, typer.Option(help="cpu, cuda or mps: where networks are trained")] = "cpu",
    report: Annotated[bool, typer.Option("--report", help="write the pages from the lines")] = False,
) -> None:
    """Reproduce tables and figures of the paper. A run that was stopped continues where it ended."""
    if names or not report:
        chosen: Scale = scale.value if scale else "smoke"
        written = reproduce(names or ["all"], scale=chosen, data=data, cache=cache, results=results, device=device)
        typer.echo(f"{written} lines written to {results / chosen}\n")
        print_claims(resolve(names or ["all"]), results, chosen, typer.echo)
    if report:
        typer.echo(f"page written: {write_report(results, docs, scale.value if scale else None)}")


def main() -> None:
    """Run the command; an error ends with one line on stderr and exit code 2."""
    try:
        app(prog_name="python -m reproduction")
    except SteepError as error:
        print(f"reproduction: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
