"""Neighbours and label variation among the features: line 4 of Algorithm 3.

One graph serves every measure and every k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray, one_line
from steep.exceptions import FunctionError, SteepError
from steep.measures import MEASURES, Measure, Neighborhood
from steep.neighbors import neighbor_graph
from steep.neighbors.query import nearest
from steep.nn.heads import Head, HeadTask, Samples, fit_head
from steep.nn.heads.fitting import CANDIDATE_TOLERANCE
from steep.nn.weightings import MOST
from steep.weighting.cross_fitting import deal

# Held-out data choose among the heads: the last per cent of the neighbours decides nothing, and costs most. Label
# variances still correlate by .984 to .991 with those of all neighbours (64 features of images, 50,000 samples).
RECALL = 0.95
# Parts of the cross-fitting that measures ask which ask a model.
_N_PARTS = 5

Variations = dict[tuple[str, int], FloatArray]


def search_neighbors(features: FloatArray, n_neighbors: int, n_jobs: int | None) -> IntArray:
    """Neighbours of every sample, itself first."""
    if n_neighbors == 1:
        return np.arange(len(features))[:, None]
    _, indices = neighbor_graph(  # of an array, mapped or not: what is returned is wanted at once
        np.asarray(features), n_neighbors=n_neighbors, recall=RECALL, n_jobs=n_jobs, random_state=0
    )
    found: IntArray = indices
    return found


def measure_variations(
    samples: Samples,
    task: HeadTask,
    neighbors: IntArray,
    measures: Sequence[Measure],
    sizes: Sequence[int],
    *,
    original: Head,
    l2: float,
) -> Variations:
    """Variation around every sample by each measure and k, keyed by the measure's name and k.

    A measure that asks a model is given predictions of equal-weight heads with penalty ``l2`` that have not seen the
    sample. One that asks a trained model is given those of the original head.
    """
    labels = task.as_labels(samples.targets)
    around = Neighborhood(samples.features, labels, neighbors, given=(samples.features, samples.targets))
    trained = around
    if any(measure.asks_trained for measure in measures):
        trained = replace(around, predicted=task.predictions(original.outputs(samples.features), labels))
    if any(measure.needs == "model" and not measure.asks_trained for measure in measures):
        outputs = cross_fitted_outputs(samples, task, original, l2)
        around = replace(around, predicted=task.predictions(outputs, labels))
    found: Variations = {}
    for measure in measures:
        values = _variations(measure, trained if measure.asks_trained else around, sizes)
        found |= {(measure.name, k): row for k, row in zip(sizes, values, strict=True)}
    return found


def own_doubt(samples: Samples, task: HeadTask, original: Head) -> FloatArray:
    """The measure "doubt" by the original head: no neighbours are needed."""
    labels, alone = task.as_labels(samples.targets), np.arange(len(samples))[:, None]
    predicted = task.predictions(original.outputs(samples.features), labels)
    return MEASURES["doubt"].variation(Neighborhood(samples.features, labels, alone, predicted=predicted))


def _variations(measure: Measure, around: Neighborhood, sizes: Sequence[int]) -> FloatArray:
    """Variation for every k; what a measure of the caller's own raises is told as its."""
    try:
        return measure.variations(around, sizes)
    except SteepError:
        raise
    except Exception as error:
        if measure.name in MEASURES:
            raise
        raise FunctionError(
            f"measure {measure.name!r} failed ({one_line(error)}); need measure(features, labels) → one value ≥ 0 for "
            "each sample"
        ) from error


def cross_fitted_outputs(samples: Samples, task: HeadTask, original: Head, l2: float) -> FloatArray:
    """Outputs for every sample of a head fitted to the parts it is not in."""
    part = deal(task.as_labels(samples.targets), _N_PARTS)
    outputs = np.empty((len(samples), task.n_outputs), dtype=samples.features.dtype)
    for number in range(part.max() + 1):
        kept, asked = np.flatnonzero(part != number), np.flatnonzero(part == number)
        weight = np.ones(len(kept))
        head = fit_head(samples.rows(kept), task, weight, l2, original=original, tolerance=CANDIDATE_TOLERANCE)
        outputs[asked] = head.outputs(samples.features[asked])
    return outputs


def contradicted_by_others(labels: IntArray, neighbors: IntArray) -> npt.NDArray[np.bool_]:
    """Whether most neighbours of a sample, itself the first, have another label."""
    return np.asarray((labels[neighbors[:, 1:]] != labels[:, None]).mean(axis=1) > MOST)


def contradicted_by(
    training: Samples, labels: IntArray, queries: FloatArray, own: IntArray, n_neighbors: int
) -> npt.NDArray[np.bool_]:
    """Whether most of the training samples nearest to a held-out one have another label than its own."""
    _, indices = nearest(training.features, queries, n_neighbors)
    return np.asarray((labels[indices] != own[:, None]).mean(axis=1) > MOST)
