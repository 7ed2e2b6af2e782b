"""Heads for samples of any task: one to convergence, or all of a grid over λ and weights.

λ may be asked for in several rounds; each starts from the nearest λ solved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.nn.heads.adam import fit_adam
from steep.nn.heads.problem import TOLERANCE, Head, HeadProblem, fit_logistic, ridge_heads
from steep.nn.heads.task import HeadTask

# Gap to the minimum while candidates are compared: a hundredth of what 10,000 held-out samples can tell.
CANDIDATE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class HeadSamples:
    """Features z_i and targets y_i that a head is fitted to, or scored on."""

    features: FloatArray
    targets: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.features)

    def rows(self, rows: npt.NDArray[np.intp]) -> HeadSamples:
        """Some of them; the first so many are not copied."""
        if np.array_equal(rows, np.arange(len(rows))):
            return HeadSamples(self.features[: len(rows)], self.targets[: len(rows)])
        return HeadSamples(self.features[rows], self.targets[rows])


def fit_head(
    samples: HeadSamples,
    task: HeadTask,
    weight: FloatArray,
    l2: float,
    *,
    original: Head,
    anchored: bool = False,
    tolerance: float = TOLERANCE,
    adam: dict[str, Any] | None = None,
) -> Head:
    """Line 6 of Algorithm 3: one head to convergence, or by Adam with the settings given.

    ``anchored`` holds it near the original one, to convergence only.
    """
    form = _form(original)
    if adam is not None:
        settings: dict[str, Any] = {"n_outputs": task.n_outputs, "loss": task.loss, "l2": l2, **form, **adam}
        return fit_adam(samples.features, samples.targets, weight, **settings)
    if anchored:
        form["anchor"] = original
    if task.loss == "squared":
        return ridge_heads(samples.features, samples.targets, weight, [l2], **form)[0]
    return fit_logistic(_problem(samples, task, form), weight, l2, start=_start(original), gap=tolerance)


class HeadGrid:
    """The heads of the same samples: for every λ one with equal weights, and one for each of ``weights``.

    The first search starts at the ``original`` head, which also says whether there is a bias and whether it is fixed;
    ``anchored`` heads are held near it, instead of near zero. ``reachable`` are λ that may be asked for later: ridge
    heads are cheap once the features are decomposed.
    """

    def __init__(
        self,
        samples: HeadSamples, task: HeadTask, weights: Sequence[FloatArray], *, original: Head, anchored: bool = False,
        reachable: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.samples, self.task, self.weights = samples, task, weights
        self.form, self.reachable = _form(original), reachable
        if anchored:
            self.form["anchor"] = original
        self.solved: dict[float, Head] = {}
        self.start = _start(original)
        self.ridge: dict[float, list[Head]] = {}

    def heads(self, l2s: Sequence[float]) -> Iterator[tuple[float, list[Head]]]:
        """Yield λ and its heads, the one of equal weights first."""
        if self.task.loss == "squared":
            yield from self._ridge_heads(l2s)
            return
        start = self._nearest(max(l2s))
        problem = _problem(self.samples, self.task, self.form)
        equal = np.ones(len(self.samples))
        for l2, heads in problem.path([equal, *self.weights], l2s, start=start, gap=CANDIDATE_TOLERANCE):
            self.solved[l2] = heads[0]
            yield l2, heads

    def _nearest(self, l2: float) -> Head | None:
        if not self.solved:
            return self.start
        return self.solved[min(self.solved, key=lambda known: abs(np.log((known + 1e-300) / (l2 + 1e-300))))]

    def _ridge_heads(self, l2s: Sequence[float]) -> Iterator[tuple[float, list[Head]]]:
        if missing := [l2 for l2 in l2s if l2 not in self.ridge]:
            together = sorted({*missing, *self.reachable})
            samples, equal = self.samples, np.ones(len(self.samples))
            paths = [
                ridge_heads(samples.features, samples.targets, weight, together, **self.form)
                for weight in (equal, *self.weights)
            ]
            self.ridge |= dict(zip(together, map(list, zip(*paths, strict=True)), strict=True))
        yield from ((l2, self.ridge[l2]) for l2 in sorted(l2s, reverse=True))


def _form(original: Head) -> dict[str, Any]:
    """Whether a bias is fitted, and the one that is given instead."""
    return {"bias": original.bias is not None and not original.is_bias_fixed, "offset": original.fixed_bias}


def _start(original: Head) -> Head | None:
    """The original head is near the minimum, unless it is broken."""
    return original if original.is_finite else None


def _problem(samples: HeadSamples, task: HeadTask, form: dict[str, Any]) -> HeadProblem:
    link: Any = task.loss
    return HeadProblem(samples.features, samples.targets, n_outputs=task.n_outputs, link=link, **form)
