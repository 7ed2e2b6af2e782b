"""``steep design``: choose where to run a function, run it there, and write the points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steep.cli import options
from steep.cli.printing import aside, finish, stage

if TYPE_CHECKING:
    import pandas as pd

    from steep.sampling import Design

EXAMPLE = 'steep design simulator:run --bounds "x=0:1,t=0:10" -n 60 -o design.csv'
_FUNCTION = "Your function: f(X) of an array of points, or f(x, t) of one point with the names of the bounds."
_FILE = "File for the points: .csv, .txt, .parquet, .feather or .arrow."
_START = "Start points; default a quarter, at least 2 (d + 1)."


def design_command(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", show_default=False, help=_FUNCTION)],
    bounds: options.Bounds = None,
    n: Annotated[int, typer.Option("-n", "--runs", help="Evaluations in all, the start included.")] = 200,
    n_initial: Annotated[int | None, typer.Option("--n-initial", help=_START)] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help=_FILE)] = Path("design.csv"),
    measure: Annotated[str, typer.Option("--measure", help="What counts as variation.")] = "auto",
    seed: options.Seed = 0,
    report: options.Report = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Choose where to run a function: a start, then points where it varies.

    The function is called as it is written: with an array of all points of a round, or once per point with its
    inputs by name. The file holds inputs, outputs, the variation where it was measured, which points belong
    to the start, and which are even: these stand for the whole domain, the others were placed.
    """
    from steep._function import calling_style
    from steep.cli.tables import write_frame
    from steep.domain import Box
    from steep.sampling import Adaptive, design

    box = Box(options.parse_bounds(bounds))
    options.check_destination(output, options.FRAMES, force=force)
    options.check_page(report, force=force)
    stage(f"running {function} {n} times")
    with aside(function):
        target = options.load_target(function)
        style = calling_style(target, box.names, alone="keywords")
        plan = design(target, box, n, n_initial=n_initial, strategy=Adaptive(measure), pass_as=style, random_state=seed)
    frame = _frame(plan)
    write_frame(output, frame)
    if report is not None:
        from steep.report import design_page

        design_page(report, plan, title=f"Design of {function}")
    figures = {
        "function": function, "output": output, "runs": len(frame), "start": int(plan.is_initial.sum()),
        "even": int((~plan.is_initial & ~plan.is_placed).sum()), "placed": int(plan.is_placed.sum()),
        "inputs": list(box.names), "outputs": list(plan.output_names), "evaluations": plan.n_evaluations,
        "seed": seed, "report": report,
        "called_with": "an array of points" if style == "array" else "one point by name",
    }  # fmt: skip
    lines = [
        f"{function}: called with {figures['called_with']}",
        f"{output}: {len(frame)} points, {plan.parts}; {plan.n_evaluations} evaluations",
    ]
    finish(figures, lines, as_json=as_json, report=report)


def _frame(plan: Design) -> pd.DataFrame:
    """Inputs, outputs, the variation where it was measured, and which points belong to the start or are even."""
    frame, name = plan.to_dataframe(), "variation"
    while name in frame:
        name = f"{name}_"
    frame.insert(len(plan.box.names) + len(plan.output_names), name, plan.variation)
    return frame
