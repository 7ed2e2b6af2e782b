"""Which weights the samples of a head get, by label variation among the features: line 4 of Algorithm 3.

    ByRatio(m)           w = 1 + (m − 1) v, v the variation between 0 and 1: the last line of Algorithm 2
    Balanced()           every class has the same sum of weights: inverse frequency
    PseudoGroups(share)  and, within each class, the samples that most of their neighbours in feature space contradict
                         have that share of it
    Doubted(γ)           w ∝ exp(γ (1 − p_y)) / n_y, p_y the probability that the original head gives to the class of
                         the sample and n_y the size of that class: the weights of AFR (Qiu et al. 2023)

A network that fails a group puts its samples among those of another class: pseudo-groups are an image of such groups.
One of very few samples stays with its class, because one or two wrong labels would dominate it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray, check_real, one_line
from steep.exceptions import FunctionError, InputError, SteepError
from steep.measures import MEASURES, Measure, Neighborhood
from steep.measures.neighborhood import RECALL_OF_HEADS
from steep.neighbors import neighbor_graph
from steep.neighbors.query import nearest
from steep.nn.heads import CANDIDATE_TOLERANCE, Head, HeadSamples, HeadTask, fit_head
from steep.rescaling import rescale
from steep.weighting.fitting import deal

# Parts of the cross-fitting for measures that need predictions.
_N_PARTS = 5
# Contradicted by most: the measure "disagreement" is the share of neighbours with another label.
_MOST, _FEWEST = 0.5, 5
# Beyond it a sample or two have all the weight, and the others none that a float can hold.
_LARGEST_GAMMA = 100.0

Variations = dict[tuple[str, int], FloatArray]


# ------------------------------------------------------------------------------- rules


@dataclass(frozen=True)
class ByRatio:
    """The largest weight is ``m`` times the smallest."""

    m: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", check_real(self.m, name="weight_ratio", above=0.0))

    def weigh(self, variation: FloatArray, classes: IntArray) -> FloatArray:
        """Weights of mean one."""
        return rescale(variation, weight_ratio=self.m)


@dataclass(frozen=True)
class Balanced:
    """Weights with the same sum for every class.

    Examples
    --------
    >>> Balanced().weigh(np.zeros(4), np.array([0, 0, 0, 7])).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """

    def weigh(self, variation: FloatArray, classes: IntArray) -> FloatArray:
        """Weights of mean one; ``variation`` is not used."""
        _, codes, counts = np.unique(classes, return_inverse=True, return_counts=True)
        return np.asarray(len(codes) / (len(counts) * counts[codes]))


@dataclass(frozen=True)
class PseudoGroups:
    """Weights with the same sum for every class, of which contradicted samples have a given share.

    Parameters
    ----------
    share : float, default 0.5
        Share of the weight of each class for the samples that most of their neighbours contradict.

    Examples
    --------
    >>> disagreement = np.array([0.9] * 5 + [0.0] * 6 + [0.9])
    >>> PseudoGroups(0.5).weigh(disagreement, np.repeat([0, 1], 6)).round(1).tolist()  # one sample is too few
    [0.6, 0.6, 0.6, 0.6, 0.6, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        if check_real(self.share, name="share", above=0.0, maximum=1.0) == 1.0:
            raise InputError("share=1.0 leaves nothing to the other samples; expected a number between 0 and 1")

    def weigh(self, variation: FloatArray, classes: IntArray) -> FloatArray:
        """Weights of mean one; ``variation`` is the disagreement of the neighbours."""
        groups = 2 * classes + (variation > _MOST)
        small = (groups % 2 == 1) & (np.bincount(groups)[groups] < _FEWEST)
        groups = np.where(small, groups - 1, groups)
        weights = np.where(groups % 2 == 1, self.share, 1 - self.share) / np.bincount(groups)[groups]
        mass = np.bincount(classes, weights=weights)[classes]
        return np.asarray(weights / mass * (len(groups) / len(np.unique(classes))))


@dataclass(frozen=True)
class Doubted:
    """Weights by the doubt of the original head, and inverse to the size of the class.

    Parameters
    ----------
    gamma : float, default 8
        γ > 0: a sample of probability 0 has exp(γ) times the weight of one of probability 1.

    Examples
    --------
    >>> Doubted(np.log(3)).weigh(np.array([0.0, 1.0, 0.0]), np.array([0, 0, 1])).round(3).tolist()
    [0.5, 1.5, 1.0]
    """

    gamma: float = 8.0

    def __post_init__(self) -> None:
        check_real(self.gamma, name="gamma", above=0.0, maximum=_LARGEST_GAMMA)

    def weigh(self, variation: FloatArray, classes: IntArray) -> FloatArray:
        """Weights of mean one; ``variation`` is the doubt of the original head."""
        tilted = np.exp(self.gamma * (variation - variation.max())) / np.bincount(classes)[classes]
        return np.asarray(tilted / tilted.mean())


@dataclass(frozen=True)
class ByGroup(Balanced):
    """Weights with the same sum for every known group: DFR."""


ByClass = Balanced | PseudoGroups | Doubted
Rule = ByRatio | ByClass


@dataclass(frozen=True)
class HeadWeighting:
    """A rule applied to the samples: the variation by a measure among k neighbours, and their classes."""

    rule: Rule
    classes: IntArray
    variation: FloatArray | None = None
    measure: str | None = None
    n_neighbors: int | None = None

    @property
    def weight(self) -> FloatArray:
        """Weights of mean one."""
        variation = np.zeros(len(self.classes)) if self.variation is None else self.variation
        return self.rule.weigh(variation, self.classes)


def apply_rules(
    rules: Sequence[Rule], around: FeatureSpace, measures: Sequence[Measure], sizes: Sequence[int]
) -> list[HeadWeighting]:
    """Every rule, with each measure and k that it follows."""
    labels = around.task.as_labels(around.samples.targets)
    classes = np.zeros(len(around.samples), np.int32) if labels.codes is None else labels.codes
    found = [HeadWeighting(rule, classes) for rule in rules if isinstance(rule, Balanced)]
    if doubted := [rule for rule in rules if isinstance(rule, Doubted)]:
        doubt = around.own_doubt()
        found += [HeadWeighting(rule, classes, doubt, "doubt") for rule in doubted]
    ratios = [rule for rule in rules if isinstance(rule, ByRatio)]
    grouped = [rule for rule in rules if isinstance(rule, PseudoGroups)]
    wanted = {measure.name: measure for measure in measures} if ratios else {}
    wanted |= {"disagreement": MEASURES["disagreement"]} if grouped else {}
    named = {measure.name for measure in measures}
    for (name, k), variation in around.variations([*wanted.values()], sizes).items():
        own = [*(ratios if name in named else ()), *(grouped if name == "disagreement" else ())]
        found += [HeadWeighting(rule, classes, variation, name, k) for rule in own]
    return found


# ------------------------------------------------------------------------------- variation


@dataclass(frozen=True)
class FeatureSpace:
    """Samples among their neighbours; ``l2`` is the penalty of heads that predict samples they have not seen."""

    samples: HeadSamples
    task: HeadTask
    original: Head
    neighbors: IntArray | None
    l2: float

    def variations(self, measures: Sequence[Measure], sizes: Sequence[int]) -> Variations:
        """Variation around every sample, keyed by the measure's name and k; predictions are of unseen samples."""
        if self.neighbors is None or not measures:
            return {}
        samples, labels = self.samples, self.task.as_labels(self.samples.targets)
        around = Neighborhood(samples.features, labels, self.neighbors, given=(samples.features, samples.targets))
        trained = around
        if any(measure.asks_trained for measure in measures):
            trained = replace(around, predicted=self.task.predictions(self.original.outputs(samples.features), labels))
        if any(measure.needs == "model" and not measure.asks_trained for measure in measures):
            around = replace(around, predicted=self.task.predictions(self.cross_fitted_outputs(), labels))
        found: Variations = {}
        for measure in measures:
            values = _variations(measure, trained if measure.asks_trained else around, sizes)
            found |= {(measure.name, k): row for k, row in zip(sizes, values, strict=True)}
        return found

    def own_doubt(self) -> FloatArray:
        """The measure "doubt" by the original head: no neighbours are needed."""
        alone = replace(self, neighbors=np.arange(len(self.samples))[:, None])
        return alone.variations([MEASURES["doubt"]], (1,))["doubt", 1]

    def cross_fitted_outputs(self) -> FloatArray:
        """Outputs for every sample of a head fitted to the parts it is not in."""
        samples, task = self.samples, self.task
        part = deal(task.as_labels(samples.targets), _N_PARTS)
        outputs = np.empty((len(samples), task.n_outputs), dtype=samples.features.dtype)
        for number in range(part.max() + 1):
            kept, asked = np.flatnonzero(part != number), np.flatnonzero(part == number)
            some = HeadSamples(samples.features[kept], samples.targets[kept])
            equal, tolerance = np.ones(len(kept)), CANDIDATE_TOLERANCE
            head = fit_head(some, task, equal, self.l2, original=self.original, tolerance=tolerance)
            outputs[asked] = head.outputs(samples.features[asked])
        return outputs


def search_neighbors(features: FloatArray, n_neighbors: int, n_jobs: int | None) -> IntArray:
    """Neighbours of every sample, itself first."""
    if n_neighbors == 1:
        return np.arange(len(features))[:, None]
    how: Any = {"n_neighbors": n_neighbors, "recall": RECALL_OF_HEADS, "n_jobs": n_jobs, "random_state": 0}
    return np.asarray(neighbor_graph(np.asarray(features), **how)[1])


def is_contradicted(training: HeadSamples, held_out: HeadSamples, n_neighbors: int) -> npt.NDArray[np.bool_]:
    """Whether most of the training samples nearest to a held-out one have another label."""
    labels, own = (part.targets.reshape(-1).astype(np.int64) for part in (training, held_out))
    _, indices = nearest(training.features, held_out.features, n_neighbors)
    return np.asarray((labels[indices] != own[:, None]).mean(axis=1) > _MOST)


def _variations(measure: Measure, around: Neighborhood, sizes: Sequence[int]) -> FloatArray:
    """Variation for every k; errors of a user-supplied measure are reported as such."""
    try:
        return measure.variations(around, sizes)
    except SteepError:
        raise
    except Exception as error:
        if measure.name in MEASURES:
            raise
        raise FunctionError(
            f"measure {measure.name!r} failed ({one_line(error)}); expected measure(features, labels) → one value ≥ 0 "
            "per sample"
        ) from error
