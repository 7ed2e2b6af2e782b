"""The pool: many candidates spread over S, each with the variation of the measured points around it."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.domain import Box
from steep.exceptions import InputError
from steep.neighbors.query import nearest

# Candidates to choose from: enough to be fine-grained in a few dimensions, few enough to stay fast.
_CANDIDATES = 4096
_CANDIDATES_PER_SAMPLE = 8
# Share of the candidates moved to a face, where surrogates extrapolate and err most. With three in ten, and several
# faces at once, a third of the points of five inputs lay on two faces or more, and networks erred more.
_EDGE = 0.1
# Corners are candidates up to so many inputs: beyond there are too many, and too little around each.
_CORNERS = 3
# Measured points a candidate's variation is averaged over.
_AROUND = 8


def candidate_pool(box: Box, n_samples: int, generator: np.random.Generator) -> FloatArray:
    """Unit points of S to choose ``n_samples`` from: a Sobol set, part of it moved to the faces, one each.

    A domain of fewer points, all of whole numbers or categories, is its own pool.

    Examples
    --------
    >>> pool = candidate_pool(Box([(0, 1)] * 2), 10, np.random.default_rng(0))
    >>> pool.shape, bool(np.mean(((pool == 0) | (pool == 1)).any(axis=1)) > 0.05)
    ((4096, 2), True)
    """
    size = max(_CANDIDATES, _CANDIDATES_PER_SAMPLE * n_samples)
    if box.n_points <= size:
        return whole_pool(box)
    pool = box.unit(box.sobol(1 << (size - 1).bit_length(), random_state=generator))
    n_moved = int(_EDGE * len(pool))
    moved, rows = pool[:n_moved].copy(), np.arange(n_moved)
    axis = generator.integers(box.n_features, size=n_moved)
    moved[rows, axis] = np.round(moved[rows, axis])
    if box.n_features <= _CORNERS:
        corners = np.array(list(product((0.0, 1.0), repeat=box.n_features)))
        moved[-len(corners) :] = corners
    allowed = box.contains(box.from_unit(moved))
    pool[:n_moved][allowed] = moved[allowed]
    if all(axis.kind in ("linear", "log") for axis in box.axes):
        return pool
    # Whole numbers and categories: candidates that mean the same point are one candidate.
    return np.unique(box.unit(box.from_unit(pool)), axis=0)


def whole_pool(box: Box) -> FloatArray:
    """Every point of a domain of whole numbers and categories, as unit points."""
    points = box.every_point()
    if not len(points):
        raise InputError(f"the constraint allows none of the {box.n_points:g} points of {box!r}; need at least one")
    return box.unit(points)


def distinct(pool: FloatArray) -> npt.NDArray[np.bool_]:
    """Mark each candidate once: only corners, to which many candidates were moved, come twice."""
    corners = np.flatnonzero(((pool == 0) | (pool == 1)).all(axis=1))
    _, first = np.unique(pool[corners], axis=0, return_index=True)
    once = np.ones(len(pool), dtype=bool)
    once[corners] = False
    once[corners[first]] = True
    return once


def interpolate(points: FloatArray, variation: FloatArray, pool: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variation of each candidate, and its distance to the nearest measured point.

    The variation is the mean of the nearest measured points, weighted by 1/distance².
    """
    distances, indices = nearest(points, pool, min(_AROUND, len(points)))
    closeness = 1 / (distances + 1e-9) ** 2
    values: FloatArray = (closeness * variation[indices]).sum(axis=1) / closeness.sum(axis=1)
    return values, distances[:, 0]


def wanted_density(variation: FloatArray, *, temper: float, floor: float) -> FloatArray:
    """Weights of mean one over the candidates: a share ``floor`` spread evenly, the rest following variation^temper."""
    if variation.max() <= 0:
        return np.ones_like(variation)
    followed = (variation / variation.max()) ** temper
    weights: FloatArray = (1 - floor) * followed / followed.mean() + floor
    return weights
