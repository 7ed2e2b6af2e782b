"""Where to search on: recall misleads, for misses gather on the points whose labels vary most.

The weights of those points are what the graph is for. A point whose neighbours so far agree has local
variance 0 and hardly anything to gain. So the points that carry nearly all of Σ v², v being the local
variance over the neighbours found so far, are searched on, each by its own k-th distance; the rule
is the same for classes (v = 1 − Σ p²) and for regression (v summed over the outputs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray

SHARE = 0.99  # of Σ v² carried by the points searched on


def contested(index: IntArray, labels: Any, share: float = SHARE) -> npt.NDArray[np.bool_]:
    """Return which points to search on, from the neighbours so far (positions in ``labels``)."""
    energy = local_spread(index, labels) ** 2
    carried = np.sort(energy)[::-1]
    np.cumsum(carried, out=carried)
    n_chosen = int(np.searchsorted(carried, share * carried[-1])) + 1
    least = np.partition(energy, len(energy) - n_chosen)[len(energy) - n_chosen]
    return np.asarray((energy >= least) & (energy > 0))  # equals stand or fall together


def local_spread(index: IntArray, labels: Any) -> FloatArray:
    """Return the variance of the labels of each point and its neighbours so far."""
    from steep.neighbors.label_kernels import class_spread, value_spread

    if labels.ndim == 1:
        return np.asarray(class_spread(index, labels))
    return np.asarray(value_spread(index, labels))
