"""Ways to weigh the samples a head is fitted to: by a ratio of any measure, or by equal mass.

    ratio m           w = 1 + (m − 1) v, v the variation between 0 and 1: the last line of Algorithm 2
    "balanced"        every class has the same sum of weights: inverse frequency
    "pseudo_groups"   so has every class × whether most of a sample's neighbours in feature space contradict it

A network that fails a group puts its samples among those of another class: the pseudo-groups are an image of groups
nobody named. A pseudo-group of very few samples is left with its class, since a wrong label or two would own it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray, check_choice, check_real
from steep.rescaling import rescale

BALANCED, PSEUDO_GROUPS = "balanced", "pseudo_groups"
MASSES = (BALANCED, PSEUDO_GROUPS)
# Contradicted by most: the measure "disagreement" is the share of neighbours with another label.
MOST = 0.5
FEWEST = 5


@dataclass(frozen=True)
class Weighting:
    """One way to weigh the samples of a group, and the variation behind it."""

    measure: str | None
    n_neighbors: int | None
    weight_ratio: float | str
    variation: FloatArray | None
    classes: IntArray | None

    @property
    def weight(self) -> FloatArray:
        """Weights of mean one."""
        if self.weight_ratio == BALANCED:
            assert self.classes is not None
            return equal_mass(self.classes)
        assert self.variation is not None
        if self.weight_ratio == PSEUDO_GROUPS:
            assert self.classes is not None
            return equal_mass(pseudo_groups(self.classes, self.variation))
        return rescale(self.variation, weight_ratio=float(self.weight_ratio))

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from the others."""
        return self.measure, self.n_neighbors, self.weight_ratio


def pseudo_groups(classes: IntArray, disagreement: FloatArray) -> IntArray:
    """Class × contradicted by most of its neighbours, as numbers; a part of very few stays with its class.

    Examples
    --------
    >>> pseudo_groups(np.repeat([0, 1], 6), np.array([0.9] * 5 + [0.0] * 6 + [0.9])).tolist()
    [1, 1, 1, 1, 1, 0, 2, 2, 2, 2, 2, 2]
    """
    groups: IntArray = 2 * classes + (disagreement > MOST)
    counts = np.bincount(groups)
    small = (groups % 2 == 1) & (counts[groups] < FEWEST)
    return np.where(small, groups - 1, groups)


def equal_mass(groups: npt.NDArray[Any]) -> FloatArray:
    """Weights of mean one with the same sum for every group.

    Examples
    --------
    >>> equal_mass(np.array([0, 0, 0, 7])).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weights: FloatArray = len(codes) / (len(counts) * counts[codes])
    return weights


def check_ratio(value: Any) -> float | str:
    """A ratio m > 0, or the name of a mass."""
    if isinstance(value, str):
        check_choice(value, name="weight_ratio", choices=MASSES)
        return value
    return check_real(value, name="weight_ratio", above=0.0)
