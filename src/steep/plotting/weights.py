"""Samples on a plane, coloured by their weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steep._validation import FloatArray, check_points, check_vector
from steep.neighbors.folds import standardise
from steep.plotting.style import diverging, new_axes, tidy

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
    marks = ax.scatter(
        points[order, 0],
        points[order, 1],
        c=np.clip(relative[order], *_ENDS),
        s=10 * np.clip(relative[order], 0.6, 5),
        cmap=diverging(calm=True),
        norm=LogNorm(*_ENDS),
        lw=0,
        rasterized=len(points) > 20_000,  # a file of that many vectors opens slowly
    )
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
