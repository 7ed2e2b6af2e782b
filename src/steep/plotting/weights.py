"""Samples coloured by their weight; what weights gain, with intervals, and by weight ratio and neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steep._validation import FloatArray, check_points, check_vector, one_line
from steep.exceptions import InputError, InputTypeError
from steep.metrics import Interval, without_rounding
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


def plot_heat_map(results: Any, *, chosen: int | None = None, label: str | None = None, factor: float = 1.0) -> Any:
    """Draw the mean gain over equal weights by weight ratio m and number of neighbours k.

    Parameters
    ----------
    results : mapping or DataFrame
        ``cv_results_`` of a :class:`steep.VarianceWeightedCV`, or ``verdict_.table``.
    chosen : int, optional
        Row of ``results`` that was chosen; it gets a frame.
    label : str, optional
        What is gained; default the name of the score.
    factor : float, default 1
        What gains are multiplied by: 100 for points of accuracy.

    Returns
    -------
    ndarray of Axes

    Examples
    --------
    >>> results = {"measure": ["variance"] * 2, "n_neighbors": [5, 5], "weight_ratio": [1.0, 3.0],
    ...            "mean_gain_r2": [0.0, 0.1]}
    >>> plot_heat_map(results)[0].get_title(loc="left")
    'variance'
    """
    rows, gain = _weightings(results)
    # A few ratios that lose badly would drown the rest: colours end at the four fifths that are smallest.
    largest = factor * float(np.quantile(np.abs(rows[gain].dropna()), 0.8)) or 1.0
    grids = {
        str(name): part.groupby(["n_neighbors", "weight_ratio"])[gain].max().unstack()
        for name, part in rows.groupby("measure", sort=False)
    }
    heights = [len(best) for best in grids.values()]
    size = (7.0, 0.9 + sum(0.95 + 0.42 * height for height in heights))
    panels = new_axes(len(grids), 1, size=size, squeeze=False, height_ratios=[h + 1 for h in heights])[:, 0]
    for ax, (measure, best) in zip(panels, grids.items(), strict=True):
        image = _draw(ax, factor * best, largest)
        if chosen is not None and chosen in rows.index and rows["measure"][chosen] == measure:
            column = list(best.columns).index(rows["weight_ratio"][chosen])
            row = list(best.index).index(rows["n_neighbors"][chosen])
            ax.add_patch(type(ax.patch)((column - 0.5, row - 0.5), 1, 1, fill=False, ec="black", lw=2))
        ax.set_title(name_of(measure), loc="left", fontsize="medium")
    panels[-1].set_xlabel("weight ratio m")
    label = label or f"gain in {gain.removeprefix('mean_gain_').replace('_', ' ')}"
    panels[0].figure.colorbar(image, ax=panels, label=name_of(label), shrink=0.9, extend="both")
    return panels


def _weightings(results: Any) -> tuple[pd.DataFrame, str]:
    """The rows of a search that weight, their gains without rounding, and the column of the gains."""
    try:
        if not isinstance(results, Mapping | pd.DataFrame):
            raise TypeError(type(results).__name__)
        table = pd.DataFrame(results).reset_index(drop=True)
    except (ValueError, TypeError) as error:
        raise InputError(f"results is not a table ({one_line(error)}); expected cv_results_ of a search") from error
    gain = next((str(name) for name in table.columns if str(name).startswith("mean_gain_")), "")
    if not {gain, "measure", "n_neighbors", "weight_ratio"} <= {*table.columns}:
        raise InputError(
            f"results have columns {', '.join(map(str, table.columns[:8]))}; expected those of cv_results_"
        )
    rows = table[table["measure"].notna()].copy()
    if not len(rows):
        raise InputError("results hold no weighting; expected at least one; pass a weight_ratio other than 1")
    rows[gain] = without_rounding(rows[gain], table.get(gain.replace("mean_gain_", "mean_test_")))
    return rows, gain


def _draw(ax: Any, best: pd.DataFrame, largest: float) -> Any:
    values: FloatArray = best.to_numpy(dtype=np.float64)
    image = ax.imshow(values, cmap=diverging(), vmin=-largest, vmax=largest, aspect="auto")
    ax.set_xticks(range(len(best.columns)), [f"{ratio:g}" for ratio in best.columns])
    ax.set_yticks(range(len(best.index)), [f"{size:g}" for size in best.index])
    ax.set_ylabel("k")
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if value > 0.7 * largest else "black"
            text = f"{value:.2g}".replace("-", "−", 1)
            ax.text(column, row, text, ha="center", va="center", color=colour, fontsize="small")
    return image
