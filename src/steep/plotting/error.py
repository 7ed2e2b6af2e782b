"""How the error of a surrogate fell with the number of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steep.exceptions import InputError
from steep.interpolation import error_curve, fewest_points
from steep.plotting.style import DRAWN, QUIET, Drawable, new_axes, plain_ticks, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_error(plan: Drawable, *, ax: Axes | None = None) -> Axes:
    """Draw the error of a cubic interpolant against the number of runs, on logarithmic axes.

    Each error is of at least ten results, predicted from the results before them, in standard deviations of the
    output; the worst output counts. Runs are placed where the function is hard: over the whole domain the error is
    usually smaller.

    Parameters
    ----------
    plan : Design
        Points in the order of the runs.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from steep import design
    >>> wave = design(lambda X: X[:, 0] ** 3, [(0, 1)], n_initial=16, n_samples=32, random_state=0)
    >>> plot_error(wave).get_xlabel()
    'runs'
    """
    box = plan.domain
    points = box.embed(box.unit(plan.X))
    sizes, errors = error_curve(points, plan.labels)
    if not len(sizes):
        least = 10 + max(10, fewest_points(points.shape[1]))
        raise InputError(
            f"there are {len(points)} results; need at least {least} to follow an error; run more"
        )
    ax = tidy(new_axes() if ax is None else ax)
    ax.plot(sizes, errors, color=DRAWN, marker="o", ms=5, lw=1.6)
    ax.set(xscale="log", yscale="log" if (errors > 0).all() else "linear", xlabel="runs")
    ax.set_ylabel("error on the next runs (deviations)")
    plain_ticks(ax.xaxis)
    if (errors > 0).all():
        plain_ticks(ax.yaxis)
    n_initial = int(plan.is_initial.sum())
    if sizes[0] < n_initial < len(points):
        ax.axvline(n_initial, color=QUIET, lw=1, ls=":")
        ax.annotate(
            " end of the start", (n_initial, 0.98), xycoords=("data", "axes fraction"), va="top", color=QUIET
        )
    return ax
