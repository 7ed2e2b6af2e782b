"""Scores of candidates, fold by fold, in several jobs, with a bar that shows the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed, effective_n_jobs

from steep._progress import Bar
from steep._timing import Stopwatch
from steep._validation import FloatArray
from steep.neighbors.folds import SharedGraph
from steep.weighting.candidates import Candidate, Fold, Menu, Training, fits_per_fold, prepare_folds, score_folds
from steep.weighting.weights import Samples

Rows = npt.NDArray[np.intp]


@dataclass
class FoldScores:
    """What all folds share, and the folds that were measured so far."""

    samples: Samples
    splits: Sequence[tuple[Rows, Rows]]
    training: Training
    menu: Menu
    graph: SharedGraph | None
    n_jobs: int | None
    watch: Stopwatch
    bar: Bar
    most_fits: int
    folds: list[Fold] = field(default_factory=list)

    def of(self, first: int, last: int, candidates: Sequence[Candidate]) -> FloatArray:
        """Scores on folds from ``first`` up to ``last``, ``(n_candidates, n_folds, n_scorers)``."""
        is_new = last > len(self.folds)
        price = fits_per_fold(candidates, self.training, is_new)
        if is_new:
            self.bar.expect(price * (len(self.splits) - first), at_most=self.most_fits)
            self._prepare(last, candidates)
        wanted, found = self.folds[first:last], []
        parts = self._shares(wanted) if self.training.linear else [[fold] for fold in wanted]
        shared = {"samples": self.samples, "training": self.training}
        for scores in self._run(score_folds, [(part, candidates) for part in parts], **shared):
            found.append(scores)
            self.bar.update(price * scores.shape[1])
        self.watch.lap("fits")
        return np.concatenate(found, axis=1)

    def _prepare(self, last: int, candidates: Sequence[Candidate]) -> None:
        """Measure the training rows of folds that were not met before, as far as the candidates need it."""
        shared = {"training": self.training, "menu": self.menu.of(candidates), "graph": self.graph}
        parts = self._shares(self.splits[len(self.folds) : last])
        for folds in self._run(prepare_folds, [(self.samples, part) for part in parts], **shared):
            self.folds += folds
        self.watch.lap("preparing")

    def _shares(self, items: Sequence[Any]) -> list[Sequence[Any]]:
        """What every job gets: what folds have in common is then computed once."""
        size = -(-len(items) // effective_n_jobs(self.n_jobs))
        return [items[first : first + size] for first in range(0, len(items), size)]

    def _run(self, call: Callable[..., Any], parts: Sequence[tuple[Any, ...]], **shared: Any) -> Iterator[Any]:
        """Call with every part, in as many jobs as were asked for."""
        if effective_n_jobs(self.n_jobs) == 1:
            return (call(*part, **shared) for part in parts)
        jobs = (delayed(call)(*part, **shared) for part in parts)
        return iter(Parallel(self.n_jobs, return_as="generator")(jobs))
