"""The heads to try, and the samples they are fitted to.

Candidates are the original head; for every λ one with equal weights; and for every λ, measure, k and weight ratio m a
weighted one (Algorithm 3, lines 4 to 6), or one whose classes or pseudo-groups have equal mass; and the same held near
the original head instead of near zero. All share the
same λ. The default λ are extended by factors of ten, at either end, until the best head of each kind lies inside: else
weights would be credited with what a stronger or a weaker penalty does as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from steep._validation import IntArray, check_count, check_real
from steep.exceptions import InputError
from steep.measures import MEASURES, Measure, resolve
from steep.nn._arguments import check_each
from steep.nn.feature_space import Variations, measure_variations, own_doubt, search_neighbors
from steep.nn.heads import Head, HeadGrid, HeadTask, Samples
from steep.nn.weightings import BALANCED, Weighting, check_ratio, is_doubted, is_grouped

Anchor = Literal["none", "doubted", "all"]
# Powers of ten of the default λ, and how far they may be extended.
FIRST_POWERS, _POWERS = range(-6, -1), range(-8, 4)


@dataclass(frozen=True)
class Candidate:
    """How a head was fitted; the original head has no ``l2``.

    ``reweighted`` is to the data of ``reweighting=`` alone, ``anchored`` held near the original head. ``blend`` are the
    two heads that a "blended" one is the mean of.
    """

    kind: str
    l2: float | None = None
    weight_ratio: float | str = 1.0
    n_neighbors: int | None = None
    measure: str | None = None
    reweighted: bool = False
    anchored: bool = False
    blend: tuple[Candidate, Candidate] | None = None

    def __str__(self) -> str:
        if self.blend is not None:
            return " + ".join(str(part) for part in self.blend)
        told = [self.kind] if self.kind != "weighted" else [f"{self.measure or 'classes'} {self.weight_ratio}"]
        told += [] if self.n_neighbors is None else [f"k {self.n_neighbors}"]
        told += [] if self.l2 is None else [f"l2 {self.l2:g}"]
        told += [name for name in ("reweighted", "anchored") if getattr(self, name)]
        return ", ".join(told)


@dataclass(frozen=True)
class Grid:
    """The values to try, checked.

    ``anchor`` says which heads are held near the original one besides: none, those weighted by its doubt, or all.
    """

    l2: tuple[float, ...]
    weight_ratio: tuple[float | str, ...]
    n_neighbors: tuple[int, ...]
    measures: tuple[Measure, ...]
    is_extended: bool = False
    anchor: Anchor = "none"

    @classmethod
    def of(
        cls,
        l2: Any,
        weight_ratio: Any,
        n_neighbors: Any,
        measure: Any,
        *,
        use: str,
        anchor: Anchor = "none",
        powers: Sequence[int] = FIRST_POWERS,
    ) -> Grid:
        """Check what the caller gave; no ``l2`` are these powers of ten, which may be extended."""
        names = measure if isinstance(measure, list | tuple) else (measure,)
        measures = tuple(resolve(name, use=use, feeds=("labels", "model")) for name in names)
        smallest = max(1, *(measure.smallest_k for measure in measures))
        grid = cls(
            l2=tuple(10.0**power for power in powers)
            if l2 is None
            else check_each(l2, lambda value: check_real(value, name="l2", minimum=0.0), name="l2"),
            weight_ratio=check_each(weight_ratio, check_ratio, name="weight_ratio"),
            n_neighbors=check_each(
                n_neighbors, lambda value: check_count(value, name="n_neighbors", minimum=smallest), name="n_neighbors"
            ),
            measures=measures,
            is_extended=l2 is None,
            anchor=anchor,
        )
        if not grid.l2:
            raise InputError("l2 is empty; need at least one strength; pass l2=(1e-3,), or leave it out")
        return grid

    @property
    def ratios(self) -> tuple[float, ...]:
        """The weight ratios among the ways to weigh; 1 is equal weights, which are always tried."""
        return tuple(ratio for ratio in self.weight_ratio if not isinstance(ratio, str) and ratio != 1.0)

    @property
    def grouped(self) -> tuple[str, ...]:
        """The ways to weigh pseudo-groups."""
        return tuple(ratio for ratio in self.weight_ratio if isinstance(ratio, str) and is_grouped(ratio))

    @property
    def doubted(self) -> tuple[str, ...]:
        """The ways to weigh by the doubt of the original head."""
        return tuple(ratio for ratio in self.weight_ratio if isinstance(ratio, str) and is_doubted(ratio))

    def without_original(self) -> Grid:
        """What can be tried where the original head holds NaN: nothing that asks it, or is held near it."""
        kept = tuple(ratio for ratio in self.weight_ratio if not is_doubted(ratio))
        return replace(self, weight_ratio=kept, anchor="none")

    def within(self, n_samples: int) -> Grid:
        """Without k of more than a fifth of the samples; the smallest is kept."""
        kept = tuple(k for k in self.n_neighbors if k <= n_samples // 5)
        return replace(self, n_neighbors=kept or (min(self.n_neighbors),))

    @property
    def sizes(self) -> tuple[int, ...]:
        """k to measure; none where no head is weighted by what neighbours say."""
        is_measured = (self.ratios and self.measures) or self.grouped
        return tuple(dict.fromkeys(self.n_neighbors)) if is_measured else ()

    @property
    def measured(self) -> tuple[Measure, ...]:
        """The measures to take: those asked for, and the one behind the pseudo-groups."""
        asked = self.measures if self.ratios else ()
        extra = (MEASURES["disagreement"],) if self.grouped else ()
        return (*asked, *(measure for measure in extra if measure not in asked))

    def refuse_masses(self, task: HeadTask) -> None:
        """Equal mass needs one class a sample."""
        masses = [ratio for ratio in self.weight_ratio if isinstance(ratio, str)]
        if masses and task.name not in ("multiclass", "binary"):
            raise InputError(
                f"weight_ratio={masses[0]!r} needs one class a sample, got a {task.name} head; pass ratios alone"
            )

    @property
    def reachable(self) -> tuple[float, ...]:
        """Every λ that may be tried."""
        return tuple(10.0**power for power in _POWERS) if self.is_extended else self.l2

    @property
    def middle(self) -> float:
        """λ of the heads that the measures ask which ask a model."""
        return float(sorted(self.l2)[len(self.l2) // 2])

    def beyond(self, tried: Sequence[float], best: Sequence[float]) -> list[float]:
        """λ to try next: one step past each end at which a best head sits."""
        if not self.is_extended:
            return []
        low, high = min(tried), max(tried)
        steps = {10.0 ** (round(np.log10(high)) + 1)} if high in best else set()
        steps |= {10.0 ** (round(np.log10(low)) - 1)} if low in best else set()
        return [step for step in steps if step in self.reachable]


@dataclass(frozen=True)
class Group:
    """Heads fitted to the same samples."""

    grid: HeadGrid
    weightings: list[Weighting]
    reweighted: bool = False
    anchored: bool = False

    def heads(self, l2s: Sequence[float]) -> Iterator[tuple[Candidate, Head]]:
        """Fit the heads of every λ, equal weights first."""
        how: dict[str, Any] = {"reweighted": self.reweighted, "anchored": self.anchored}
        for l2, (equal, *weighted) in self.grid.heads(l2s):
            yield Candidate("equal", l2, **how), equal
            for w, head in zip(self.weightings, weighted, strict=True):
                yield Candidate("weighted", l2, w.weight_ratio, w.n_neighbors, w.measure, **how), head


@dataclass(frozen=True)
class Trial:
    """Groups of heads, and the samples they have not seen."""

    groups: list[Group]
    held_out: Samples


@dataclass(frozen=True)
class Training:
    """The samples heads are fitted to, and the one neighbour graph of them."""

    samples: Samples
    task: HeadTask
    grid: Grid
    original: Head
    neighbors: IntArray | None
    is_reweighting: bool = False

    @classmethod
    def of(
        cls,
        samples: Samples,
        task: HeadTask,
        grid: Grid,
        original: Head,
        *,
        n_jobs: int | None,
        is_reweighting: bool = False,
    ) -> Training:
        """Search the neighbours once, for every measure and every k."""
        neighbors = None
        if grid.sizes:
            wanted = max(grid.sizes)
            if len(samples) < wanted:
                raise InputError(
                    f"n_neighbors={wanted} needs at least {wanted} samples, got {len(samples)}; lower n_neighbors or "
                    "pass more data"
                )
            neighbors = search_neighbors(samples.features, wanted, n_jobs)
        return cls(samples, task, grid, original, neighbors, is_reweighting)

    def groups(self) -> list[Group]:
        """The groups of heads that are fitted to the samples: near zero, and near the original head."""
        weightings = self._weightings()
        groups = [self._group(weightings)]
        if self.grid.anchor != "none":
            held = [w for w in weightings if self.grid.anchor == "all" or is_doubted(w.weight_ratio)]
            groups.append(self._group(held, anchored=True))
        return groups

    def _group(self, weightings: list[Weighting], *, anchored: bool = False) -> Group:
        weights = [weighting.weight for weighting in weightings]
        heads = HeadGrid(
            self.samples, self.task, weights, original=self.original, anchored=anchored,
            reachable=self.grid.reachable,
        )  # fmt: skip
        return Group(heads, weightings, self.is_reweighting, anchored)

    def _weightings(self) -> list[Weighting]:
        classes = self.task.as_labels(self.samples.targets).codes
        found = [Weighting(None, None, BALANCED, None, classes)] if BALANCED in self.grid.weight_ratio else []
        if self.grid.doubted:
            doubt = own_doubt(self.samples, self.task, self.original)
            found += [Weighting("doubt", None, ratio, doubt, classes) for ratio in self.grid.doubted]
        if self.neighbors is None:
            return found
        variations = measure_variations(
            self.samples, self.task, self.neighbors, self.grid.measured, self.grid.sizes,
            original=self.original, l2=self.grid.middle,
        )  # fmt: skip
        asked = {measure.name for measure in self.grid.measures}
        for (name, size), variation in _different(variations).items():
            ratios: list[float | str] = list(self.grid.ratios) if name in asked else []
            if name == "disagreement":
                ratios += self.grid.grouped
            found += [Weighting(name, size, ratio, variation, classes) for ratio in ratios]
        return found


def _different(variations: Variations) -> Variations:
    """Without those of a measure that are the same for another k: a caller's own measure need not know k."""
    kept: Variations = {}
    for (name, k), variation in variations.items():
        if not any(name == other and np.array_equal(variation, v) for (other, _), v in kept.items()):
            kept[name, k] = variation
    return kept
