"""Weighted logistic heads solved to convergence, one by one or as a path over λ and weights.

Along the path each equal-weight head starts from the one before (a stronger λ first). All weighted heads of one λ run
side by side and share the Hessian of the equal-weight head; at the first λ they start from it, at the others from where
they were, moved by as much as it moved. What they learned of their own Hessian they take along: with λ it changes by a
known multiple of the identity, and so do the changes of the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from steep._validation import FloatArray
from steep.nn.heads.lbfgs import Minimum, Pairs, Solve, minimize_together, search_minimum
from steep.nn.heads.problem import Head, HeadProblem

# Gap to the minimum, in units of a mean loss: far below what held-out data can tell apart.
TOLERANCE = 1e-8
_MAX_ITERATIONS = 500
# Gap of the first, rough solution, at which the Hessian is modelled.
_ROUGH = 5e-3


def fit_logistic(
    problem: HeadProblem, weight: FloatArray, l2: float, *, start: Head | None = None, tolerance: float = TOLERANCE
) -> Head:
    """Solve one head from zero or from ``start``."""
    near = _approach(problem, weight, l2, problem.parameters(start))
    return _head(problem, _solve(problem, [weight], l2, near, problem.solver(near, l2, weight), tolerance)[0])


def logistic_path(
    problem: HeadProblem,
    weights: Sequence[FloatArray],
    l2s: Sequence[float],
    *,
    start: Head | None = None,
    tolerance: float = TOLERANCE,
) -> Iterator[tuple[float, list[Head]]]:
    """Yield λ and its heads, equal weights first, then one for each of ``weights``; from the largest λ down."""
    before = _Solved(problem.parameters(start), None, ())
    equal = torch.ones(problem.n_samples).numpy()
    for l2 in sorted(l2s, reverse=True):
        near = _approach(problem, equal, l2, before.equal)
        solver = problem.solver(near, l2)
        exact = _solve(problem, [equal], l2, near, solver, tolerance)[0]
        begun = [before.moved(problem, number, exact.x, l2) for number in range(len(weights))]
        others = _solve(problem, weights, l2, exact.x, solver, tolerance, begun)
        before = _Solved(exact.x, l2, others)
        yield l2, [_head(problem, found) for found in (exact, *others)]


@dataclass(frozen=True)
class _Solved:
    """What is known of the heads at one λ, None before the first."""

    equal: FloatArray
    l2: float | None
    others: Sequence[Minimum]

    def moved(self, problem: HeadProblem, number: int, equal: FloatArray, l2: float) -> tuple[FloatArray, Pairs]:
        """Where to start the head of one weighting at another λ, and what is known of its Hessian there."""
        if self.l2 is None:
            return equal, ()
        found, stiffer = self.others[number], (l2 - self.l2) * problem.is_penalised
        for step, change in found.pairs:  # in place: of wide heads they are most of the memory
            change += stiffer * step
        return found.x + equal - self.equal, found.pairs


def _approach(problem: HeadProblem, weight: FloatArray, l2: float, x: FloatArray) -> FloatArray:
    """Come near the minimum cheaply, so that the Hessian is modelled where it matters."""
    return _solve(problem, [weight], l2, x, problem.solver(x, l2, rough=True), _ROUGH)[0].x


def _solve(
    problem: HeadProblem, weights: Sequence[FloatArray], l2: float, x: FloatArray, solver: Solve, tolerance: float,
    begun: Sequence[tuple[FloatArray, Pairs]] = (),
) -> list[Minimum]:  # fmt: skip
    """Solve a head for each of the weights, all from ``x`` or each from its own start."""
    if not weights:
        return []
    table = torch.stack([torch.as_tensor(weight, dtype=problem.columns.dtype) for weight in weights])
    starts = begun or [(x, ())] * len(weights)
    searches = [
        search_minimum(own, solver, tolerance=tolerance, max_iterations=_MAX_ITERATIONS, pairs=pairs)
        for own, pairs in starts
    ]

    def evaluate(numbers: list[int], points: FloatArray) -> tuple[FloatArray, FloatArray]:
        return problem.evaluate(points, table if len(numbers) == len(table) else table[numbers], l2)

    return minimize_together(evaluate, searches)


def _head(problem: HeadProblem, found: Minimum) -> Head:
    return problem.head(found.x, objective=found.value, converged=found.converged, n_evaluations=found.n_evaluations)
