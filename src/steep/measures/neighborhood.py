"""What a measure is given: labelled points with their neighbours, or points with a function to evaluate around them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from steep._function import Function
from steep._validation import LARGEST_NUMBER, SMALLEST_NUMBER, FloatArray, IntArray, Seed, check_count, check_points
from steep.domain import Box
from steep.exceptions import InputError, InputTypeError
from steep.labels import Labels, Task, check_labels
from steep.neighbors.graph import search_graph

if TYPE_CHECKING:
    from steep.measures.taylor import Derivatives

# Shares of the true neighbours that each use asks an approximate search for.
# Weights, in memory and on Dask: misses gather where labels vary: at 0.99 variances correlate 0.976 to 0.997 with exact
# ones on made data, at 0.998 by 0.998 to 0.9998 (docs/decisions/0003).
RECALL = 0.998
# Heads: held-out data choose among them; the last per cent of the neighbours decides nothing, and costs most. Label
# variances still correlate by .984 to .991 with those of all neighbours (64 features of images, 50,000 samples).
RECALL_OF_HEADS = 0.95
# Votes on labels ask for no more; of more than 200,000 samples for less.
RECALL_OF_VOTES, RECALL_OF_MANY_VOTES, MANY_VOTES = 0.95, 0.9, 200_000


@dataclass(frozen=True)
class Neighborhood:
    """Labelled points and their neighbours.

    ``points`` lie where distances are taken; ``indices`` ``(n_samples, k)`` are nearest first, the sample itself in
    column 0 unless left out. ``predicted``, in the columns of the labels, is of a model that has not seen the sample,
    for measures that ask one; ``given`` is (X, y) as the caller knows them, for a user-supplied measure.
    """

    points: FloatArray
    labels: Labels
    indices: IntArray
    predicted: FloatArray | None = None
    given: tuple[Any, Any] | None = None

    @classmethod
    def of(cls, X: Any, y: Any, *, n_neighbors: int, task: Task = "auto", **how: Any) -> Self:
        """Check the data, read the labels and find the neighbours, with the other options of :meth:`search`."""
        points = check_points(X)
        labels = check_labels(y, n_samples=len(points), task=task)
        size = check_count(n_neighbors, name="n_neighbors", minimum=2)
        return cls.search(points, labels, n_neighbors=size, given=(X, y), **how)

    @classmethod
    def search(
        cls,
        points: FloatArray,
        labels: Labels,
        *,
        n_neighbors: int,
        include_self: bool = True,
        neighbors: Any = None,
        n_jobs: int | None = None,
        given: tuple[Any, Any] | None = None,
    ) -> Self:
        """Find the neighbours of checked data, unless a graph is given; the same data always get the same ones."""
        if neighbors is not None:
            return cls(points, labels, check_graph(neighbors, len(points), n_neighbors), given=given)
        if n_neighbors == 1 and include_self:  # a sample is its own nearest neighbour: nothing to search
            return cls(points, labels, np.arange(len(points))[:, None], given=given)
        _, indices, _ = search_graph(
            points, n_neighbors=n_neighbors, include_self=include_self, recall=RECALL, n_jobs=n_jobs, random_state=0
        )
        return cls(points, labels, indices, given=given)

    @property
    def n_neighbors(self) -> int:
        """k."""
        return int(self.indices.shape[1])

    @property
    def coordinates(self) -> FloatArray:
        """``points`` in a unit of length in which squares can be taken; no measure depends on the unit."""
        return in_safe_units(self.points)

    def narrowed(self, n_neighbors: int) -> Neighborhood:
        """The same with the ``n_neighbors`` nearest alone."""
        return replace(self, indices=self.indices[:, :n_neighbors])


def in_safe_units(values: FloatArray) -> FloatArray:
    """Numbers divided by a power of two if their squares would vanish or overflow; usual ones as they are."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0 or SMALLEST_NUMBER < largest <= LARGEST_NUMBER:
        return values
    return np.asarray(np.ldexp(values.astype(np.float64), -int(np.frexp(largest)[1])))


@dataclass(frozen=True)
class FunctionAround:
    """Points, and the function to evaluate around them.

    ``function``, in the coordinates of ``points``, may be None where ``derivatives(X, multi_indices)`` say all; by
    default they are finite differences. ``order`` and ``epsilon`` are n and ε of Eq. dn, the latter also the variance
    of the noise of Eq. Dhat, ``n_draws`` its k; f is evaluated inside ``bounds`` only.
    """

    function: Function | None
    points: FloatArray
    order: int = 2
    epsilon: Any = 1e-3
    derivatives: Derivatives | None = None
    bounds: Box | None = None
    n_draws: int = 20
    random_state: Seed = None


def check_graph(neighbors: Any, n_samples: int, n_neighbors: int) -> IntArray:
    """Return the first ``n_neighbors`` columns of a graph that fits the data and is wide enough."""
    try:
        indices = np.asarray(neighbors[1] if isinstance(neighbors, tuple) and len(neighbors) > 1 else neighbors)
    except ValueError as error:
        raise InputError(f"neighbors is ragged ({error}); expected the indices of neighbor_graph") from error
    if indices.dtype.kind not in "iu":
        raise InputTypeError(
            f"neighbors has dtype {indices.dtype}; expected the integer indices that neighbor_graph returns second"
        )
    if indices.ndim != 2 or len(indices) != n_samples or indices.shape[1] < n_neighbors:
        raise InputError(
            f"neighbors has shape {indices.shape}; expected ({n_samples}, at least {n_neighbors}); build it with "
            f"neighbor_graph(X, n_neighbors={n_neighbors})"
        )
    if indices.min() < 0 or indices.max() >= n_samples:
        raise InputError(
            f"neighbors points at sample {int(indices.max() if indices.max() >= n_samples else indices.min())} "
            f"of {n_samples}; expected indices from 0 to {n_samples - 1}; build it from the same X"
        )
    return np.asarray(indices[:, :n_neighbors])
