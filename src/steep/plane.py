"""A plane to look at points on: principal components, which show as much of the spread as a plane can."""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray


def principal_plane(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coordinates of points on the plane of their largest spread.

    Parameters
    ----------
    points : ndarray of shape (n_samples, n_features)
        Points whose columns are comparable, as standardised ones are.

    Returns
    -------
    coordinates : ndarray of shape (n_samples, 2)
        First two principal components; zeros where the points have no spread left.
    shares : ndarray of shape (2,)
        Share of the squared spread that each shows.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 5)[:, None] * [[3.0, 4.0, 0.0]]
    >>> coordinates, shares = principal_plane(line)
    >>> coordinates[:, 0].round(6), shares.round(6)
    (array([-5. , -2.5,  0. ,  2.5,  5. ]), array([1., 0.]))
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
