"""Pictures of designs and weights with matplotlib, for papers and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steep._function import Function, evaluate
from steep._validation import check_points, check_vector
from steep.exceptions import InputError, MissingExtraError
from steep.sampling import Design

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that stay apart in print and for colour-blind readers (the paper's own blue and orange).
START, DRAWN, CURVE = "#235789", "#d94800", "#444444"


def plot_design(plan: Design, *, function: Function | None = None, ax: Axes | None = None) -> Axes:
    """Draw the points of a design; start points and drawn points in different colours.

    Parameters
    ----------
    plan : Design
        What :func:`steep.design` returned, with one or two inputs.
    function : callable, optional
        With one input, drawn as a curve behind the points.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
    """
    n_features = plan.X.shape[1]
    if n_features > 2:
        raise InputError(
            f"the design has {n_features} inputs; need 1 or 2 to draw; plot pairs of columns of plan.X"
        )
    ax = _axes(ax)
    if n_features == 1:
        _plot_curve(plan, function, ax)
    groups = ((plan.is_initial, START, "start"), (~plan.is_initial, DRAWN, "drawn where it varies"))
    for rows, colour, label in groups:
        height = plan.X[rows, 1] if n_features == 2 else plan.y.reshape(len(plan.X), -1)[rows, 0]
        ax.scatter(plan.X[rows, 0], height, s=18, color=colour, label=label, zorder=3)
    ax.legend(frameon=False)
    return ax


def _plot_curve(plan: Design, function: Function | None, ax: Axes) -> None:
    """f as a line, and the measured variation on a second axis."""
    low, high = plan.X.min(), plan.X.max()
    if function is not None:
        grid = np.linspace(low, high, 400)[:, None]
        ax.plot(grid, evaluate(function, grid)[:, 0], color=CURVE, lw=1, label="f")
    order = np.argsort(plan.X[plan.is_initial, 0])
    right = ax.twinx()
    right.fill_between(
        plan.X[plan.is_initial, 0][order],
        plan.variation[plan.is_initial][order],
        color=DRAWN,
        alpha=0.12,
        lw=0,
    )
    right.set_ylabel("variation")
    right.set_ylim(bottom=0)


def plot_weights(X: Any, sample_weight: Any, *, ax: Axes | None = None) -> Axes:
    """Draw samples of two features coloured by their weight (red heavy, blue light).

    Parameters
    ----------
    X : array-like of shape (n_samples, 2)
        Samples; project them to two columns first.
    sample_weight : array-like of shape (n_samples,)
        What :func:`steep.sample_weights` returned.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
    """
    points = check_points(X, n_features=2)
    weights = check_vector(sample_weight, name="sample_weight", n_samples=len(points))
    ax = _axes(ax)
    order = np.argsort(weights)  # heavy samples on top
    marks = ax.scatter(points[order, 0], points[order, 1], c=weights[order], s=18, cmap="coolwarm")
    ax.figure.colorbar(marks, ax=ax, label="sample weight")
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib; pip install 'steep[report]'") from error
    return pyplot.subplots(figsize=(6, 4), layout="constrained")[1]
