"""A design at a glance: its points beside the error, as results come in."""

from __future__ import annotations

from typing import Any

import numpy as np

from steep._validation import FloatArray
from steep.exceptions import InputError
from steep.plotting.design import crosses, line, scatter
from steep.plotting.error import plot_error
from steep.plotting.style import QUIET, Drawable, legend, name_of, new_axes, span, tidy


def plot_overview(plan: Drawable, *, failed: FloatArray | None = None, figure: Any = None) -> Any:
    """Draw the points over the two steepest inputs, and the error against the number of runs.

    Parameters
    ----------
    plan : Design
        Points in the order of the runs.
    failed : ndarray of shape (n_failed, n_features), optional
        Points that failed, drawn as crosses.
    figure : matplotlib Figure, optional
        Where to draw; default a new one.

    Returns
    -------
    ndarray of Axes

    Examples
    --------
    >>> from steep import design
    >>> plan = design(lambda X: X[:, 0] ** 3, [(0, 1)], 48, n_initial=16, random_state=0)
    >>> len(plot_overview(plan))
    2
    """
    panels = new_axes(1, 2, size=(9.0, 3.8)) if figure is None else figure.subplots(1, 2)
    left, right = map(tidy, panels)
    if plan.X.shape[1] == 1:
        line(plan, left, None, 0, failed)
    else:
        _steepest(plan, left, failed)
    try:
        plot_error(plan, ax=right)
    except InputError:
        right.set_axis_off()
        right.text(0.5, 0.5, "too few runs for an error", ha="center", color=QUIET, transform=right.transAxes)
    return panels


def _steepest(plan: Drawable, ax: Any, failed: FloatArray | None) -> None:
    across, up = (int(i) for i in np.argsort(-plan.steepness(), kind="stable")[:2])
    scatter(plan, ax, across, up)
    crosses(ax, failed, across, up)
    span(ax, plan.domain.axes[across], along="x")
    span(ax, plan.domain.axes[up], along="y")
    ax.set(xlabel=name_of(plan.domain.names[across]), ylabel=name_of(plan.domain.names[up]))
    legend(ax, fontsize="small")
