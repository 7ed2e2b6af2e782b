"""Candidates of a weighting search, and their scores on one fold."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from steep._validation import FloatArray
from steep.rescaling import rescale
from steep.weighting.measuring import Measured, largest_size, measure_all, sizes_for
from steep.weighting.scoring import Scorer
from steep.weighting.shared_graph import SharedGraph
from steep.weighting.wrapping import fit_weighted


@dataclass(frozen=True)
class Candidate:
    """One way to weigh: a measure, k and m, and parameters of the wrapped estimator.

    ``weight_ratio=1`` is the equal-weight control; its measure and k mean nothing and are None.
    """

    measure: str | None = None
    n_neighbors: int | None = None
    weight_ratio: float = 1.0
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_control(self) -> bool:
        """Whether all samples weigh the same."""
        return self.weight_ratio == 1


class Fold(NamedTuple):
    """Rows of a split, and what was measured on its training rows."""

    train: npt.NDArray[np.intp]
    test: npt.NDArray[np.intp]
    measured: Measured


def grid(
    measures: Sequence[str],
    n_neighbors: Sequence[int],
    weight_ratio: Sequence[float],
    settings: Sequence[Mapping[str, Any]],
) -> list[Candidate]:
    """Every combination, the equal-weight control of each setting before its rivals."""
    # From ratios near 1 outwards, so that a warm start has the least way to go.
    ratios = sorted({float(r) for r in weight_ratio} - {1.0}, key=lambda r: abs(np.log(r)))
    candidates = []
    for params in settings:
        candidates.append(Candidate(params=params))
        candidates += [
            Candidate(m, k, r, params) for m in measures for k in sizes_for(m, n_neighbors) for r in ratios
        ]
    return candidates


def prepare_fold(
    X: Any,
    y: Any,
    rows: Any,
    *,
    estimator: Any,
    graph: SharedGraph | None,
    sample_weight: FloatArray | None,
    **measuring: Any,
) -> Fold:
    """Measure the training rows, and nothing but them."""
    started = time.perf_counter()
    train, test = rows
    own = None if sample_weight is None else sample_weight[train]
    size = largest_size(measuring["measures"], measuring["sizes"])
    neighbors = None if graph is None else graph.within(train, size)
    X_train, y_train = _safe_indexing(X, train), _safe_indexing(y, train)
    spent = time.perf_counter() - started
    measured = measure_all(X_train, y_train, estimator, sample_weight=own, neighbors=neighbors, **measuring)
    return Fold(train, test, measured._replace(seconds_neighbors=measured.seconds_neighbors + spent))


def score_fold(
    fold: Fold,
    candidates: Sequence[Candidate],
    *,
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: FloatArray | None,
    scorers: Mapping[str, Scorer],
    rescaling: Mapping[str, Any],
    params: Mapping[str, Any],
) -> FloatArray:
    """Fit each candidate on the training rows and score it on the others, ``(n_candidates, n_scorers)``."""
    X_train, X_test, y_train, y_test = (
        _safe_indexing(d, rows) for d in (X, y) for rows in (fold.train, fold.test)
    )
    own = np.ones(len(fold.train)) if sample_weight is None else sample_weight[fold.train]
    extra = {} if sample_weight is None else {"sample_weight": sample_weight[fold.test]}
    scores = np.empty((len(candidates), len(scorers)))
    # An estimator set to warm_start goes on from its last solution; any other starts anew each time.
    reuse = bool(getattr(estimator, "warm_start", False))
    model = clone(estimator)
    for row, candidate in zip(scores, candidates, strict=True):
        if not reuse or (candidate.is_control and candidate.params):
            model = clone(estimator).set_params(**candidate.params)
        weights = own * candidate_weights(candidate, fold.measured.variation, len(own), rescaling)
        fit_weighted(model, X_train, y_train, weights, dict(params))
        row[:] = [scorer(model, X_test, y_test, **extra) for scorer in scorers.values()]
    return scores


def candidate_weights(
    candidate: Candidate,
    variation: Mapping[tuple[str, int], FloatArray],
    n_samples: int,
    rescaling: Mapping[str, Any],
) -> FloatArray:
    """Weights of a candidate; exactly one each for the control."""
    if candidate.is_control or candidate.measure is None or candidate.n_neighbors is None:
        return np.ones(n_samples)
    values = variation[candidate.measure, candidate.n_neighbors]
    return rescale(values, weight_ratio=candidate.weight_ratio, **rescaling)
