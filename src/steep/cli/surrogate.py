"""``steep surrogate`` and ``steep emulate``: a certified replacement of a simulator, from its runs or from itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli import options
from steep.cli.printing import aside, finish, listed, stage
from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.surrogate import Surrogate

EXAMPLE = 'steep surrogate runs.csv --bounds "x=0:1,t=0:10" -o model.steep'
EMULATE_EXAMPLE = 'steep emulate simulator:run --bounds "x=0:1,t=0:10" -n 90 -o model.steep'
# Columns that designs and campaigns write next to inputs and outputs.
_MARKS = {
    "variation", "is_initial", "is_even", "is_check", "state", "origin", "asked", "told", "run", "expires", "inside"
}  # fmt: skip

_OUTPUTS = "Columns of outputs, with commas; default all that are not inputs."
_PREDICTIONS = "File for them, with half-widths of 90 % intervals."
_Model = Annotated[Path, typer.Option("--output", "-o", help="File for the surrogate; steep.Surrogate.load reads it.")]


def surrogate_command(
    table: options.TableFile,
    bounds: options.Bounds = None,
    outputs: Annotated[str | None, typer.Option("--outputs", help=_OUTPUTS)] = None,
    output: _Model = Path("model.steep"),
    at: Annotated[
        Path | None, typer.Option("--predict", metavar="TABLE", help="Also predict at the points of a table.")
    ] = None,
    predictions: Annotated[Path, typer.Option("--predictions", help=_PREDICTIONS)] = Path("predictions.csv"),
    decimal: options.Decimal = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Fit a surrogate to the runs of a table, and certify its error on runs held out.

    Rows should be spread evenly over the bounds, for the error over the domain to be theirs. In a campaign's table the
    check runs certify, and only finished runs count.
    """
    from steep import Box, Surrogate
    from steep.cli.tables import open_table, write_frame

    box = Box(options.parse_bounds(bounds))
    options.check_destination(output, inputs=[table], force=force)
    options.check_destination(
        predictions if at else None, options.FRAMES, inputs=[table, *([at] if at else [])], force=force
    )
    frame = open_table(table, decimal=decimal).frame()
    if "state" in frame:
        frame = frame[frame["state"] == "done"]
    names = outputs.split(",") if outputs else [name for name in frame if name not in {*box.names, *_MARKS}]
    if missing := [name for name in (*box.names, *names) if name not in frame]:
        raise InputError(f"the table lacks column {listed(missing)}; it has {listed(frame)}; check --bounds")
    if not names:
        raise InputError(f"no column is left for outputs; the table has {listed(frame)}; name them by --outputs")
    check = (frame["origin"] == "check").to_numpy() if "origin" in frame else None
    stage(f"fitting {len(frame):,} runs", len(frame))
    model = Surrogate(box, random_state=seed)
    model.fit(frame[list(box.names)], frame[names], check=check if check is not None and check.any() else None)
    lines = []
    if at is not None:
        new = open_table(at, decimal=decimal).frame(box.names)
        values, halves = model.predict(new, return_error=True)
        for j, name in enumerate(model.outputs):
            new[name] = values.reshape(len(new), -1)[:, j]
            new[f"{name}_half_width"] = halves.reshape(len(new), -1)[:, j]
        write_frame(predictions, new)
        lines = [f"{predictions}: {len(new):,} predictions with 90 % intervals"]
    model.save(output)
    _finish(model, output, {"predictions": predictions if at else None}, lines, as_json=as_json)


def emulate_command(
    function: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", show_default=False, help="Your function, as for steep design.")
    ],
    bounds: options.Bounds = None,
    n: Annotated[int, typer.Option("-n", "--runs", help="Most runs, check runs included.")] = 500,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="Largest RMSE of every output, as a share of its spread.")
    ] = 0.05,
    absolute: Annotated[bool, typer.Option("--absolute", help="The tolerance is in the units of the outputs.")] = False,
    output: _Model = Path("model.steep"),
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Run a function until a surrogate of it is certified, or the runs are spent, and write the surrogate.

    The exit code is 0 in both cases; "certified" of --json tells them apart.
    """
    from steep import Box, emulate
    from steep._function import calling_style

    box = Box(options.parse_bounds(bounds))
    options.check_destination(output, force=force)
    stage(f"running {function} at most {n} times")
    with aside(function):
        target = options.load_target(function)
        style = calling_style(target, box.names, alone="keywords")
        model = emulate(target, box, tolerance, n, absolute=absolute, pass_as=style, random_state=seed)
        model.save(output)
    is_certified = model.certificate.reached(tolerance, absolute=absolute)
    reason = model.stop_reason or ""
    _finish(model, output, {"certified": is_certified, "reason": reason}, [reason], as_json=as_json)


def _finish(model: Surrogate, output: Path, figures: dict[str, Any], lines: list[str], *, as_json: bool) -> None:
    found = model.certificate
    each = {one.name: vars(one) | {"bound_share": one.share} for one in found.outputs}
    figures = {"model": output, "runs": found.n_runs, "checks": found.n_checks, "error": each} | figures
    finish(figures, [str(found), *lines, f"{output}: the surrogate"], as_json=as_json)
