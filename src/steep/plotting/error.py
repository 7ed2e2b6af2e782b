"""How the error of a surrogate fell with the number of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steep.exceptions import InputError
from steep.expected_error import error_history
from steep.plotting.style import DRAWN, QUIET, Drawable, new_axes, plain_ticks, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_error(plan: Drawable, *, ax: Axes | None = None) -> Axes:
    """Draw the estimated error against the number of runs, on logarithmic axes, with its 90 % interval.

    Each is what :meth:`steep.Campaign.estimated_error` said after that many runs: the error of a surrogate over the
    domain, in standard deviations of the output; the worst output counts.

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
    >>> wave = design(lambda X: X[:, 0] ** 3, [(0, 1)], 48, n_initial=16, random_state=0)
    >>> plot_error(wave).get_xlabel()
    'runs'
    """
    box = plan.domain
    points = box.embed(box.unit(plan.X))
    history = error_history(points, plan.labels, plan.is_even)
    if not history:
        raise InputError(f"there are {len(points)} results, which are too few to estimate an error; run more")
    ax = tidy(new_axes() if ax is None else ax)
    sizes = [error.n_runs for error in history]
    ax.fill_between(
        sizes, [error.low for error in history], [error.high for error in history], color=DRAWN, alpha=0.15, lw=0
    )  # fmt: skip
    ax.plot(sizes, history, color=DRAWN, marker="o", ms=5, lw=1.6)
    ax.set(xscale="log", yscale="log", xlabel="runs")
    ax.set_ylabel("estimated error (deviations)")
    plain_ticks(ax.xaxis)
    plain_ticks(ax.yaxis)
    n_initial = int(plan.is_initial.sum())
    if sizes[0] < n_initial < len(points):
        ax.axvline(n_initial, color=QUIET, lw=1, ls=":")
        ax.annotate(" end of the start", (n_initial, 0.98), xycoords=("data", "axes fraction"), va="top", color=QUIET)
    return ax
