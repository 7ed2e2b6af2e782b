"""``steep design``: choose where to run a function, run it there, and write the points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steep.cli.options import (
    FRAMES,
    Bounds,
    Force,
    Json,
    Report,
    Seed,
    check_destination,
    check_page,
    load_target,
    parse_bounds,
    writer_of,
)
from steep.cli.printing import aside, finish, shell_words, stage
from steep.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

    from steep.sampling import Design

EXAMPLE = 'steep design simulator:run --bounds "x=0:1,t=0:10" -n 60 -o design.csv'


def design_command(
    function: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION", show_default=False,
            help="Your function: f(X) of an array of points, or f(x, t) of one point with the names of the bounds.",
        ),
    ],
    bounds: Bounds = None,
    n: Annotated[int, typer.Option("-n", "--runs", help="Evaluations in all, the start included.")] = 200,
    n_initial: Annotated[
        int | None, typer.Option("--n-initial", help="Start points; default a quarter, at least 2 (d + 1).")
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File for the points: .csv, .txt, .parquet, .feather or .arrow."),
    ] = Path("design.csv"),
    measure: Annotated[str, typer.Option("--measure", help="What counts as variation.")] = "auto",
    seed: Seed = 0,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Choose where to run a function: a start, then points where it varies.

    The function is called as it is written: with an array of all points of a round, or once a point with its
    inputs by name. The file holds inputs, outputs, the variation where it was measured, which points belong
    to the start, and which are even: these stand for the whole domain, the others were placed.
    """
    from steep._function import calling_style
    from steep.cli.tables import write_frame
    from steep.domain import Box
    from steep.sampling import Adaptive, design

    if bounds is None:
        raise InputError('--bounds is missing; expected the inputs and their ranges; pass --bounds "x=0:1,t=0:10"')
    box = Box(parse_bounds(bounds))
    check_destination(output, FRAMES, force=force)
    check_page(report, force=force)
    with aside(function), stage(f"running {function} {n} times"), shell_words():
        target = load_target(function)
        style = calling_style(target, box.names, alone="keywords")
        plan = design(target, box, n, n_initial=n_initial, strategy=Adaptive(measure), pass_as=style, random_state=seed)
    frame = _frame(plan)
    write_frame(output, frame)
    if report is not None:
        writer_of("design_page")(report, plan, title=f"Design of {function}")
    figures = {
        "function": function, "output": output, "runs": len(frame), "start": int(plan.is_initial.sum()),
        "even": int((~plan.is_initial & ~plan.is_placed).sum()), "placed": int(plan.is_placed.sum()),
        "inputs": list(box.names), "outputs": list(plan.output_names), "evaluations": plan.n_evaluations,
        "seed": seed,
        "called_with": "an array of points" if style == "array" else "one point by name", "report": report,
    }  # fmt: skip
    lines = [
        f"{function}: called with {figures['called_with']}",
        f"{output}: {len(frame)} points, {plan.parts}; {plan.n_evaluations} evaluations",
    ]
    finish(figures, lines, as_json=as_json, report=report)


def _frame(plan: Design) -> pd.DataFrame:
    """Inputs, outputs, the variation where it was measured, and which points belong to the start or are even."""
    frame = plan.to_dataframe()
    name = "variation"
    while name in frame:
        name = f"{name}_"
    frame.insert(len(plan.domain.names) + len(plan.output_names), name, plan.variation)
    return frame
