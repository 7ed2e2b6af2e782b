"""How much each axis matters: distances along an axis on which nothing happens should count for less."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from steep._blas import one_blas_thread
from steep._validation import FloatArray
from steep.domain import Box
from steep.measures.surprise import standardised
from steep.neighbors.query import nearest
from steep.sampling.process import length_scales
from steep.sampling.strategies import MANY_INPUTS

# No axis counts for less than this share of the one that counts most: an axis that looks irrelevant may matter later.
_LEAST = 0.1


def axis_scales(points: FloatArray, labels: FloatArray) -> tuple[FloatArray, float | None]:
    """Scale of each coordinate, of geometric mean one, and from five on the length of a process so scaled."""
    if points.shape[1] < MANY_INPUTS:
        return axis_relevance(points, labels), None
    lengths = length_scales(points, standardised(labels))
    middle = float(np.exp(np.log(lengths).mean()))
    return middle / lengths, middle


@one_blas_thread()
def axis_relevance(points: FloatArray, labels: FloatArray) -> FloatArray:
    """Scale of each unit coordinate, of geometric mean one: root mean square slope of local linear fits."""
    n_samples, n_coordinates = points.shape
    k = min(2 * n_coordinates + 3, n_samples)
    if k < 3 or n_coordinates == 1:
        return np.ones(n_coordinates)
    distances, around = nearest(points, points, k)
    size = distances.mean(axis=1)[:, None, None] + 1e-12
    offsets = (points[around] - points[around].mean(axis=1, keepdims=True)) / size
    values = standardised(labels)[around]
    values = values - values.mean(axis=1, keepdims=True)
    # A little ridge settles slopes that few neighbours leave open.
    normal = offsets.transpose(0, 2, 1) @ offsets + 1e-3 * np.eye(n_coordinates)
    slopes = np.linalg.solve(normal, offsets.transpose(0, 2, 1) @ values) / size
    rms = np.sqrt((slopes**2).mean(axis=(0, 2)))
    if not rms.max() > 0:
        return np.ones(n_coordinates)
    scale = np.maximum(rms, _LEAST * rms.max())
    return np.asarray(scale / np.exp(np.log(scale).mean()))


def input_relevance(box: Box, X: FloatArray, labels: FloatArray) -> FloatArray:
    """How much each input matters: :func:`axis_relevance`, a category as much as its most relevant value."""
    unit = box.unit(X)
    widths = [axis.embed(unit[:1, i]).shape[1] for i, axis in enumerate(box.axes)]
    ends = np.cumsum([0, *widths])
    scale = axis_relevance(box.embed(unit), labels)
    return np.array([scale[start:end].max() for start, end in pairwise(ends)])
