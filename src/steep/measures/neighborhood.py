"""What every neighbour measure starts from: points, labels and the k nearest neighbours of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, check_count, check_points
from steep.exceptions import InputError, InputTypeError
from steep.labels import Labels, Task, check_labels
from steep.neighbors import refined_graph

# Misses gather where labels vary: at 0.95 the variances of 50,000×64 features correlate .993 with exact ones,
# at 0.99 .999, for a fifth more time (benchmarks/results/neighbors.json).
_RECALL = 0.99


@dataclass(frozen=True)
class Neighborhood:
    """Points, labels and neighbour graph of a data set; column 0 of a graph with self is the point.

    ``predicted`` are the predictions of a model that has not seen the sample, in the columns of the
    labels (one per class); only the measures that ask a model need them.
    """

    points: FloatArray
    labels: Labels
    indices: npt.NDArray[np.integer[Any]]
    predicted: FloatArray | None = None

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        *,
        n_neighbors: int,
        include_self: bool = True,
        neighbors: Any = None,
        task: Task = "auto",
        n_jobs: int | None = None,
    ) -> Self:
        """Check the input and find the neighbours, unless a graph is given.

        Large data are searched approximately, and on where labels vary; the seed is fixed, so that
        the same data always weigh the same.
        """
        points = check_points(X)
        n_neighbors = check_count(n_neighbors, name="n_neighbors", minimum=2)
        labels = check_labels(y, n_samples=len(points), task=task)
        if neighbors is None:
            neighbors = refined_graph(
                points,
                labels.array,
                n_neighbors=n_neighbors,
                include_self=include_self,
                recall=_RECALL,
                n_jobs=n_jobs,
                random_state=0,
            )
        return cls(points, labels, check_graph(neighbors, len(points), n_neighbors)[:, :n_neighbors])


def check_graph(neighbors: Any, n_samples: int, n_neighbors: int) -> npt.NDArray[np.integer[Any]]:
    """Return the indices of a graph that fits the data and is wide enough."""
    indices = np.asarray(neighbors[1] if isinstance(neighbors, tuple) else neighbors)
    if indices.dtype.kind not in "iu":
        raise InputTypeError(
            f"neighbors has dtype {indices.dtype}; need the integer indices that neighbor_graph returns second"
        )
    if indices.ndim != 2 or len(indices) != n_samples or indices.shape[1] < n_neighbors:
        raise InputError(
            f"neighbors has shape {indices.shape}; need ({n_samples}, at least {n_neighbors}); build it with "
            f"neighbor_graph(X, n_neighbors={n_neighbors})"
        )
    if indices.min() < 0 or indices.max() >= n_samples:
        raise InputError(
            f"neighbors points at sample {int(indices.max() if indices.max() >= n_samples else indices.min())} "
            f"of {n_samples}; need indices from 0 to {n_samples - 1}; build it from the same X"
        )
    return indices
