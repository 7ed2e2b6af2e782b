"""Samples coloured by their weight; what is gained, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from steep._validation import FloatArray, check_points, check_vector
from steep.exceptions import InputError, InputTypeError
from steep.metrics import Interval
from steep.neighbors.folds import standardise
from steep.plotting.style import CURVE, DRAWN, QUIET, diverging, name_of, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Ends of the colours: a tenth of the average weight, and ten times it.
_ENDS = (0.1, 10.0)


def plot_weights(X: Any, sample_weight: Any, *, ax: Axes | None = None) -> Axes:
    """Draw samples coloured by their weight: orange heavier than the average, blue lighter, heavy ones on top.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples. Two features are drawn as they are; of more, standardised, the first two principal components.
    sample_weight : array-like of shape (n_samples,)
        What :func:`steep.sample_weights` returned.
    ax : matplotlib Axes, optional
        Axes to draw on; default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from steep import sample_weights
    >>> X, y = load_wine(return_X_y=True)
    >>> plot_weights(X, sample_weights(X, y)).get_xlabel()
    'component 1 (36 % of the spread)'
    """
    points = check_points(X)
    weights = check_vector(sample_weight, name="sample_weight", n_samples=len(points), minimum=0.0)
    names = [f"x{i}" for i in range(points.shape[1])]
    if points.shape[1] == 1:
        points, names = np.column_stack([points, weights]), ["x0", "sample weight"]
    elif points.shape[1] > 2:
        points, shares = principal_plane(standardise(points))
        names = [f"component {i + 1} ({100 * share:.0f} % of the spread)" for i, share in enumerate(shares)]
    ax = tidy(new_axes() if ax is None else ax)
    _scatter(ax, points, weights)
    ax.set(xlabel=names[0], ylabel=names[1])
    return ax


def _scatter(ax: Axes, points: Any, weights: Any) -> None:
    from matplotlib.colors import LogNorm

    order = np.argsort(weights, kind="stable")  # heavy samples on top
    relative = weights / (weights.mean() or 1.0)
    # A file of very many vectors opens slowly: then the points are pixels.
    marks = ax.scatter(
        points[order, 0], points[order, 1], c=np.clip(relative[order], *_ENDS), cmap=diverging(), lw=0,
        s=10 * np.clip(relative[order], 0.6, 5), norm=LogNorm(*_ENDS), rasterized=len(points) > 20_000,
    )  # fmt: skip
    bar = ax.figure.colorbar(marks, ax=ax, label="sample weight (average 1)", extend="both")
    bar.set_ticks([0.1, 0.3, 1, 3, 10], labels=["0.1", "0.3", "1", "3", "10"])
    bar.minorticks_off()


def principal_plane(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The first two principal components, ``(n_samples, 2)``, and the share of the squared spread each shows.

    Columns must be comparable, as standardised ones are; components are zero where no spread is left.
    """
    centred = np.asarray(points, dtype=np.float64) - points.mean(axis=0, dtype=np.float64)
    # Where the samples are many, their triangular factor has the same directions and is small.
    factor = np.linalg.qr(centred, mode="r") if len(centred) > centred.shape[1] else centred
    _, sizes, directions = np.linalg.svd(factor, full_matrices=False)
    coordinates, shares = np.zeros((len(centred), 2)), np.zeros(2)
    total = float((sizes**2).sum())
    for i in range(min(2, len(sizes))):
        if sizes[i] <= 1e-12 * sizes[0]:
            break
        # The sign of a direction is arbitrary: its largest entry is made positive.
        direction = directions[i] * np.sign(directions[i][np.abs(directions[i]).argmax()])
        coordinates[:, i], shares[i] = centred @ direction, sizes[i] ** 2 / total
    return coordinates, shares


def plot_gains(
    gains: Mapping[str, Interval],
    *,
    chosen: str | None = None,
    label: str = "gain",
    factor: float = 1.0,
    ax: Axes | None = None,
) -> Axes:
    """Draw gains with their intervals; zero is not a gain.

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
        Axes to draw on; default a new figure.

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
        raise InputTypeError(f"gains is a {type(gains).__name__}; expected a mapping of names to Intervals")
    if not gains:
        raise InputError("gains is empty; expected at least one")
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
