"""The measures by name, and the one way every use finds them.

A *measure* gives ``variation``, an array of shape ``(n_samples,)``, ≥ 0: how much f varies around each point.
A *use* (designs, weights, heads) turns it into points, weights or a head. Any measure goes with any use that
can feed it. What a measure needs is one of

    "function"   f itself, evaluated or differentiated around the points: a ``FunctionAround``
    "labels"     the labels of the points and of their neighbours: a ``Neighborhood``
    "model"      the labels, and predictions of the model that is to be trained: a ``Neighborhood`` with ``predicted``

To add a measure, write one function of what it needs and add one line to ``MEASURES``; every use has it then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from steep._validation import FloatArray, check_count, check_vector, shown
from steep.exceptions import InputError, InputTypeError
from steep.measures.label_measures import borders, contradiction, density, disagreement, doubt, misfits
from steep.measures.neighborhood import Neighborhood
from steep.measures.surprise import default_size as surprise_size
from steep.measures.surprise import surprise
from steep.measures.taylor import taylor
from steep.measures.variance import perturbation, variances
from steep.rescaling import level

Needs = Literal["function", "labels", "model"]


def _usual_size(n_samples: int, n_coordinates: int) -> int:
    """k where the caller named none: 20, less for few samples."""
    return min(20, max(3, n_samples // 4), n_samples)


@dataclass(frozen=True)
class Measure:
    """One measure: its name, its function of a neighbourhood or of a ``FunctionAround``, and what it ``needs``.

    ``smallest_k`` neighbours, the sample itself counted, are the fewest for which it makes sense; 0 for none at all.
    ``prefixes(around, sizes)`` → ``(len(sizes), n_samples)`` is a function of all k in one pass, in its place. With
    ``asks_trained`` a model that is trained already is asked where there is one; ``uses_points`` is whether it looks at
    where the points are, beyond who is whose neighbour; ``size(n_samples, n_coordinates)`` is the default k.

    Examples
    --------
    >>> from steep import sample_weights
    >>> from steep.labels import one_hot
    >>> from steep.measures import Measure
    >>> ranges = lambda around: np.ptp(one_hot(around.labels)[around.indices], axis=1).sum(axis=1)
    >>> sample_weights([[0.0], [1.0], [2.0], [9.0]], [0.0, 0.0, 0.0, 9.0], n_neighbors=3,
    ...                weight_ratio=2, measure=Measure("range", ranges)).round(1)
    array([0.8, 0.8, 0.8, 1.6])
    """

    name: str
    function: Callable[[Any], FloatArray] | None = None
    needs: Needs = "labels"
    smallest_k: int = 3
    prefixes: Callable[[Neighborhood, Sequence[int]], FloatArray] | None = None
    asks_trained: bool = False
    uses_points: bool = True
    size: Callable[[int, int], int] = _usual_size

    def check_k(self, n_neighbors: Any) -> int:
        """Return a number of neighbours that makes sense for this measure; 1 where it looks at none."""
        size = check_count(n_neighbors, name="n_neighbors", minimum=max(self.smallest_k, 1))
        return size if self.smallest_k else 1

    def variation(self, around: Any) -> FloatArray:
        """Variation at every point."""
        if self.function is None:
            return np.asarray(self.variations(around, [around.n_neighbors])[0])
        return self._level(self.function(around), around)

    def variations(self, around: Neighborhood, sizes: Sequence[int]) -> FloatArray:
        """Variation for every k in ``sizes`` from one graph, ``(len(sizes), n_samples)``."""
        if self.prefixes is not None:
            return self._level(self.prefixes(around, sizes), around)
        return np.array([self.variation(around.narrowed(k)) for k in sizes])

    def _level(self, variation: FloatArray, around: Any) -> FloatArray:
        """Variation that differs by the rounding of labels alone, made equal; a user-supplied one as it is."""
        if self.needs == "function" or self.name not in MEASURES or around.labels.codes is not None:
            return variation
        return level(variation, around.labels.size)


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("taylor", taylor, needs="function"),
        Measure("perturbation", perturbation, needs="function"),
        Measure("variance", prefixes=variances, smallest_k=2, uses_points=False),
        Measure("contradiction", contradiction, uses_points=False),
        Measure("disagreement", disagreement, uses_points=False),
        Measure("density", density),
        Measure("surprise", surprise, size=surprise_size),
        Measure("misfit", prefixes=misfits, needs="model", smallest_k=1, uses_points=False),
        Measure("border", prefixes=borders, needs="model", smallest_k=1, uses_points=False),
        Measure("doubt", doubt, needs="model", smallest_k=1, asks_trained=True, uses_points=False),
    )
}

# Older names.
_ALIASES = {"neighbors": "variance"}

# What a measure does that a use may not be able to feed, and which use can.
_NEEDS = {
    "function": ("evaluates the function itself", "design(function, …)"),
    "labels": ("compares labels", "sample_weights(X, y)"),
    "model": ("asks the model that is to be trained", "VarianceWeighted(estimator) or VarianceWeightedCV(estimator)"),
}


def resolve(measure: Any, *, use: str, feeds: Sequence[Needs]) -> Measure:
    """The measure that a use was asked for: a name, a :class:`Measure`, or ``measure(X, y)`` → values ≥ 0.

    ``use`` says who asks, for the error, and ``feeds`` what the use can give.
    """
    if isinstance(measure, str):
        name = _ALIASES.get(measure, measure)
        if name not in MEASURES:
            raise InputError(f"measure={shown(measure)} is unknown; expected {_known(feeds)}, or a callable of (X, y)")
        found = MEASURES[name]
    elif isinstance(measure, Measure):
        found = measure
    elif callable(measure):
        found = _own(measure)
    else:
        raise InputTypeError(
            f"measure={shown(measure)} is a {type(measure).__name__}; expected {_known(feeds)}, or a callable of (X, y)"
        )
    if found.needs not in feeds:
        does, instead = _NEEDS[found.needs]
        raise InputError(
            f"measure={found.name!r} {does}, which {use} cannot give it; expected {_known(feeds)}; "
            f"use {found.name!r} with {instead}"
        )
    return found


def _known(feeds: Sequence[Needs]) -> str:
    names = [repr(name) for name, measure in MEASURES.items() if measure.needs in feeds]
    return f"one of {', '.join(names)}"


def _own(function: Callable[[Any, Any], Any]) -> Measure:
    """A user-supplied measure; its values are checked."""

    def checked(around: Neighborhood) -> FloatArray:
        if around.given is None:
            raise InputError(
                "measure is a callable, but the original X and y are not available here; pass the name of a measure"
            )
        values = function(*(data.copy() if isinstance(data, np.ndarray) else data for data in around.given))
        return check_vector(values, name="measure(X, y)", n_samples=len(around.points), minimum=0.0)

    return Measure(getattr(function, "__name__", "measure"), checked, smallest_k=0)
