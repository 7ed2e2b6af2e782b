"""What a weighting search tries: controls and a grid of weightings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from steep.exceptions import InputError
from steep.measures import MEASURES, Measure
from steep.weighting.controls import BALANCED, EQUAL, ROBUST, THRESHOLD
from steep.weighting.weights import TrainingSet


@dataclass(frozen=True)
class WeightingCandidate:
    """One way to train: a weighting (measure, k, m) or a control."""

    measure: Measure | None = None
    n_neighbors: int | None = None
    weight_ratio: float = 1.0
    control: str | None = None

    def __str__(self) -> str:
        """As a verdict names it: "misfit (ratio 10, 5 neighbours)"."""
        if self.measure is None:
            return str(self.control)
        size = "the sample alone" if self.n_neighbors == 1 else f"{self.n_neighbors} neighbours"
        return f"{self.measure.name} (ratio {self.weight_ratio:g}, {size})"

    @property
    def side(self) -> object:
        """What the ratios of one direction have in common."""
        return self.measure, self.n_neighbors, self.weight_ratio > 1

    @property
    def asks_model(self) -> bool:
        """Whether its measure needs predictions of the estimator."""
        return self.measure is not None and self.measure.needs == "model"

    @property
    def written(self) -> dict[str, Any]:
        """The candidate as users write it; what does not apply is left out."""
        params: dict[str, Any] = {"weight_ratio": self.weight_ratio}
        if self.measure is not None:
            known = MEASURES.get(self.measure.name) is self.measure
            params |= {"n_neighbors": self.n_neighbors, "measure": self.measure.name if known else self.measure}
        elif self.control != EQUAL:
            params |= {"control": self.control}
        return params


@dataclass(frozen=True)
class Menu:
    """What may be combined: k by measure and ratios; and controls, equal weights first."""

    sizes: Mapping[Measure, Sequence[int]]
    ratios: tuple[float, ...]
    controls: tuple[str, ...] = (EQUAL,)

    @property
    def largest_size(self) -> int:
        """Most neighbours that any measure looks at."""
        return max((k for sizes in self.sizes.values() for k in sizes), default=1)

    def of(self, candidates: Sequence[WeightingCandidate]) -> Menu:
        """The same for some candidates: what no candidate needs is not measured."""
        pairs = {(c.measure, c.n_neighbors) for c in candidates}
        wanted = {m: [k for k in sizes if (m, k) in pairs] for m, sizes in self.sizes.items()}
        return replace(self, sizes={measure: sizes for measure, sizes in wanted.items() if sizes})

    def grid(self) -> list[WeightingCandidate]:
        """Every combination, after the controls."""
        # From ratios near 1 outwards, so that a warm start has the shortest way to go.
        ratios = sorted({r for r in self.ratios if r != 1}, key=lambda r: abs(np.log(r)))
        # A tuned threshold follows the equal weights whose fit it uses.
        controls = [name for name in (EQUAL, THRESHOLD, BALANCED, ROBUST) if name in self.controls]
        return [
            *(WeightingCandidate(control=name) for name in controls),
            *(WeightingCandidate(m, k, r) for m, sizes in self.sizes.items() for k in sizes for r in ratios),
        ]


def default_measures(estimator: Any, samples: TrainingSet) -> tuple[str, ...]:
    """Return the measures to try: what gained most on development tables, if the estimator can answer."""
    if not is_classifier(estimator):
        return ("variance", "misfit")
    one_class_each = samples.labels.codes is not None
    return ("misfit", "border") if one_class_each and hasattr(estimator, "predict_proba") else ("misfit",)


def default_sizes(estimator: Any) -> tuple[int, ...]:
    """Return the values of k to try: borders between classes blur over many neighbours, numbers less so."""
    return (1, 5) if is_classifier(estimator) else (1, 5, 20)


def sizes_for(measure: Measure, sizes: Sequence[int]) -> list[int]:
    """Return the k that make sense for a measure; one at least."""
    fitting = [k for k in sizes if k >= measure.smallest_k] or [max(sizes)]
    return list(dict.fromkeys(measure.check_k(k) for k in fitting))


def values_of(given: Any, name: str) -> list[Any]:
    """One value or several, as a list."""
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    values = list(given) if several and getattr(given, "ndim", 1) != 0 else [given]
    if not values:
        raise InputError(f"{name} is empty; expected at least one value; leave it out for the default")
    return values
