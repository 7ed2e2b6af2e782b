"""Pictures of the points of a design."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from steep._function import Function, evaluate
from steep._validation import FloatArray, check_count
from steep.exceptions import InputError
from steep.plotting.style import CURVE, DRAWN, EVEN, QUIET, START, Drawable, legend, name_of, new_axes, span, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Marks that differ in shape as well as in colour.
_GROUPS = (("start", START, "o", 22), ("even", EVEN, "s", 18), ("placed", DRAWN, "^", 24))


def plot_design(
    plan: Drawable,
    *,
    function: Function | None = None,
    output: int = 0,
    failed: FloatArray | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw the points of a design; the start, even points and placed points by colour and shape.

    With more than two inputs, the two steepest are drawn.

    Parameters
    ----------
    plan : Design
        What :func:`steep.design` returned.
    function : callable, optional
        With one input, drawn as a curve behind the points.
    output : int, default 0
        With one input, which output is drawn.
    failed : ndarray of shape (n_failed, n_features), optional
        Points that have no result, drawn as crosses; along the bottom if there is one input.
    ax : matplotlib Axes, optional
        Axes to draw on; default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from steep import design
    >>> bowl = design(lambda X: X[:, 0] ** 2 + X[:, 1], [(0, 1), (0, 1)], 16, n_initial=8, random_state=0)
    >>> plot_design(bowl).get_xlabel()
    'x0'
    """
    ax, number = tidy(new_axes() if ax is None else ax), _checked_output(plan, output)
    if plan.X.shape[1] == 1:
        _line(plan, ax, function, number, failed)
    else:
        across, up = sorted(int(i) for i in np.argsort(-plan.steepness(), kind="stable")[:2])
        _plane(plan, ax, across, up, failed)
    return ax


def _checked_output(plan: Drawable, output: Any) -> int:
    number = check_count(output, name="output", minimum=0)
    if number >= plan.labels.shape[1]:
        raise InputError(f"output={number} but there are {plan.labels.shape[1]}; expected a number below that")
    return number


def _line(plan: Drawable, ax: Axes, function: Function | None, output: int, failed: FloatArray | None = None) -> None:
    """One input: f, the points on it, and the measured variation on a second axis."""
    (axis,), (name,) = plan.box.axes, plan.box.names
    if function is not None:
        grid = axis.from_unit(np.linspace(0, 1, 400))[:, None]
        ax.plot(grid, evaluate(function, grid)[:, output], color=CURVE, lw=1, label="f")
    for rows, (label, colour, mark, size) in _parts(plan):
        heights = plan.labels[rows, output]
        ax.scatter(plan.X[rows, 0], heights, s=size, color=colour, marker=mark, label=label, zorder=3)
    _crosses(ax, failed, 0)
    span(ax, axis, along="x")
    ax.set(xlabel=name_of(name), ylabel=name_of(plan.output_names[output]))
    legend(ax)
    known = np.isfinite(plan.variation)
    if known.any():
        order = np.argsort(plan.X[known, 0])
        right = ax.twinx()
        right.fill_between(plan.X[known, 0][order], plan.variation[known][order], color=DRAWN, alpha=0.12, lw=0)
        right.set_ylabel("variation", color=QUIET)
        right.set_ylim(bottom=0)
        right.spines[["top"]].set_visible(False)
        ax.set_zorder(right.get_zorder() + 1)
        ax.patch.set_visible(False)


def _plane(plan: Drawable, ax: Axes, across: int, up: int, failed: FloatArray | None) -> None:
    """Points over two inputs: the start, even points and placed points."""
    for rows, (label, colour, mark, size) in _parts(plan):
        x, y = _spread(plan, across)[rows], _spread(plan, up)[rows]
        ax.scatter(x, y, s=size, color=colour, marker=mark, label=label, zorder=3, lw=0, alpha=0.85)
    _crosses(ax, failed, across, up)
    span(ax, plan.box.axes[across], along="x")
    span(ax, plan.box.axes[up], along="y")
    ax.set(xlabel=name_of(plan.box.names[across]), ylabel=name_of(plan.box.names[up]))
    legend(ax)


def _parts(plan: Drawable) -> list[tuple[npt.NDArray[np.bool_], tuple[str, str, str, int]]]:
    """Rows of each part of a design, and how it is drawn; parts without a point are left out."""
    rows = (plan.is_initial, ~plan.is_initial & ~plan.is_placed, plan.is_placed)
    return [(part, look) for part, look in zip(rows, _GROUPS, strict=True) if part.any()]


def _crosses(ax: Axes, failed: FloatArray | None, across: int, up: int | None = None) -> None:
    """Points that failed: over two inputs, or along the bottom."""
    if failed is None or not len(failed):
        return
    heights = np.full(len(failed), 0.02) if up is None else failed[:, up]
    place: dict[str, Any] = {"transform": ax.get_xaxis_transform()} if up is None else {}
    ax.scatter(failed[:, across], heights, s=26, marker="x", color=CURVE, label="failed", zorder=4, **place)


def _spread(plan: Drawable, column: int) -> FloatArray:
    """Values of an input; those of a category side by side, so that points on one value do not hide each other."""
    values: FloatArray = plan.X[:, column]
    if plan.box.axes[column].kind != "category":
        return values
    return np.asarray(values + 0.5 * (np.modf(np.arange(len(values)) * 0.618034)[0] - 0.5))
