"""Gains with their intervals, one under the other: a forest plot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from steep.exceptions import InputError, InputTypeError
from steep.metrics import Interval
from steep.plotting.style import CURVE, DRAWN, QUIET, name_of, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_gains(
    gains: Mapping[str, Interval],
    *,
    chosen: str | None = None,
    label: str = "gain",
    factor: float = 1.0,
    ax: Axes | None = None,
) -> Axes:
    """Draw gains with their intervals; zero is no gain.

    Parameters
    ----------
    gains : mapping of str to Interval
        Names and gains, drawn from top to bottom.
    chosen : str, optional
        The one that was chosen, drawn in orange.
    label : str, default "gain"
        What is gained.
    factor : float, default 1
        What gains are multiplied by: 100 for points of accuracy.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = plot_gains({"weighted": Interval(0.2, 0.1, 0.3, 10)}, label="gain in accuracy")
    >>> ax.get_xlabel()
    'gain in accuracy'
    """
    if not isinstance(gains, Mapping) or not all(isinstance(gain, Interval) for gain in gains.values()):
        raise InputTypeError(f"gains is a {type(gains).__name__}; need a mapping of names to Intervals")
    if not gains:
        raise InputError("gains is empty; need at least one")
    ax = tidy(new_axes(size=(6.4, 1.1 + 0.36 * len(gains))) if ax is None else ax)
    ax.axvline(0, color=CURVE, lw=1)
    for place, (name, gain) in enumerate(gains.items()):
        colour = DRAWN if name == chosen else QUIET
        low, mean, high = (factor * value for value in (gain.low, gain.mean, gain.high))
        if np.isfinite([low, high]).all():
            ax.plot([low, high], [place, place], color=colour, lw=2.2, solid_capstyle="butt")
        ax.plot(mean, place, color=colour, marker="s" if name == chosen else "o", ms=7)
    ax.set_yticks(range(len(gains)), [name_of(name) for name in gains])
    ax.set_ylim(len(gains) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(name_of(label, 80))
    return ax
