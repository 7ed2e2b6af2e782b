"""Ways to weigh the samples a head is fitted to: by a ratio of any measure, or by equal mass.

    ratio m           w = 1 + (m − 1) v, v the variation between 0 and 1: the last line of Algorithm 2
    "balanced"        every class has the same sum of weights: inverse frequency
    "pseudo_groups"   and, within each class, the samples that most of their neighbours in feature space contradict
                      have half of it; "pseudo_groups:0.9" gives them nine tenths
    "doubted:8"       w ∝ exp(γ (1 − p_y)) / n_y with γ = 8, p_y the probability that the original head gives to the
                      sample's own class and n_y the size of that class: the weights of AFR (Qiu et al. 2023)

A network that fails a group puts its samples among those of another class: the pseudo-groups are an image of groups
nobody named. On the data a network was trained on only some of the group are still contradicted, and these stand for
all of it: hence the larger shares. A pseudo-group of very few samples is left with its class, since a wrong label or
two would own it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray, check_choice, check_real, shown
from steep.exceptions import InputError
from steep.rescaling import rescale

BALANCED, PSEUDO_GROUPS, DOUBTED = "balanced", "pseudo_groups", "doubted"
MASSES = (BALANCED, PSEUDO_GROUPS, DOUBTED)
# Contradicted by most: the measure "disagreement" is the share of neighbours with another label.
MOST = 0.5
FEWEST = 5
# Beyond it a sample or two have all the weight, and the others none that a float can hold.
_LARGEST_GAMMA = 100.0


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
        if not isinstance(self.weight_ratio, str):
            return rescale(self.variation, weight_ratio=self.weight_ratio)
        assert self.classes is not None
        if is_doubted(self.weight_ratio):
            return doubted_mass(self.classes, self.variation, number_of(self.weight_ratio))
        return group_mass(pseudo_groups(self.classes, self.variation), number_of(self.weight_ratio))

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


def group_mass(groups: IntArray, share: float) -> FloatArray:
    """Weights of mean one: classes of equal mass, and ``share`` of each with its contradicted samples.

    Examples
    --------
    >>> group_mass(np.array([0, 0, 1, 2, 2]), 0.75).tolist()
    [0.3125, 0.3125, 1.875, 1.25, 1.25]
    """
    weights = np.where(groups % 2 == 1, share, 1 - share) / np.bincount(groups)[groups]
    classes = groups // 2
    mass = np.bincount(classes, weights=weights)[classes]
    return np.asarray(weights / mass * (len(groups) / len(np.unique(classes))))


def doubted_mass(classes: IntArray, doubt: FloatArray, gamma: float) -> FloatArray:
    """Weights of mean one: inverse frequency of the class times exp(γ doubt).

    Examples
    --------
    >>> doubted_mass(np.array([0, 0, 1]), np.array([0.0, 1.0, 0.0]), np.log(3)).round(3).tolist()
    [0.5, 1.5, 1.0]
    """
    tilted = np.exp(gamma * (doubt - doubt.max())) / np.bincount(classes)[classes]
    return np.asarray(tilted / tilted.mean())


def is_grouped(ratio: float | str) -> bool:
    """Whether a way to weigh is one of the pseudo-groups."""
    return isinstance(ratio, str) and ratio.partition(":")[0] == PSEUDO_GROUPS


def is_doubted(ratio: float | str) -> bool:
    """Whether a way to weigh follows the doubt of the original head."""
    return isinstance(ratio, str) and ratio.partition(":")[0] == DOUBTED


def number_of(name: str) -> float:
    """The number behind the colon: of pseudo-groups the share of the contradicted (half by default), of doubt γ."""
    return float(name.partition(":")[2] or 0.5)


def check_ratio(value: Any) -> float | str:
    """A ratio m > 0, or the name of a mass."""
    if isinstance(value, str):
        name, colon, share = value.partition(":")
        check_choice(name, name="weight_ratio", choices=MASSES)
        if colon or name == DOUBTED:
            _check_number(value, name, share)
        return value
    return check_real(value, name="weight_ratio", above=0.0)


def _check_number(value: str, name: str, text: str) -> None:
    """What is behind the colon: a share for pseudo-groups, γ > 0 for doubt, nothing for classes alike."""
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if name == DOUBTED and not 0 < number <= _LARGEST_GAMMA:
        raise InputError(
            f"weight_ratio={shown(value)} is unknown; need a number above 0 and up to {_LARGEST_GAMMA:g}; pass "
            "'doubted:8'"
        )
    if name != DOUBTED and not (name == PSEUDO_GROUPS and 0 < number < 1):
        raise InputError(
            f"weight_ratio={shown(value)} is unknown; need a share between 0 and 1; pass 'pseudo_groups:0.9'"
        )
