"""Weighted logistic heads solved to convergence, one by one or as a path over λ and weights.

Along the path each equal-weight head starts from the one before (a stronger λ first), and all weighted heads
of one λ start from the equal-weight head and share its Hessian. They run side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from steep._validation import FloatArray
from steep.nn.heads.lbfgs import Minimum, Solve, minimize_together, search_minimum
from steep.nn.heads.problem import Head, HeadProblem

# Gap to the minimum, in units of a mean loss: far below what held-out data can tell apart.
TOLERANCE = 1e-8
_MAX_ITERATIONS = 500
# Gap of the first, rough solution, at which the Hessian is modelled.
_ROUGH = 5e-3


def fit_logistic(
    problem: HeadProblem,
    weight: FloatArray,
    l2: float,
    *,
    start: Head | None = None,
    tolerance: float = TOLERANCE,
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
    x = problem.parameters(start)
    equal = torch.ones(problem.n_samples).numpy()
    for l2 in sorted(l2s, reverse=True):
        near = _approach(problem, equal, l2, x)
        solver = problem.solver(near, l2)
        exact = _solve(problem, [equal], l2, near, solver, tolerance)[0]
        others = _solve(problem, weights, l2, exact.x, solver, tolerance)
        x = exact.x
        yield l2, [_head(problem, found) for found in (exact, *others)]


def _approach(problem: HeadProblem, weight: FloatArray, l2: float, x: FloatArray) -> FloatArray:
    """Come near the minimum cheaply, so that the Hessian is modelled where it matters."""
    return _solve(problem, [weight], l2, x, problem.solver(x, l2, rough=True), _ROUGH)[0].x


def _solve(
    problem: HeadProblem, weights: Sequence[FloatArray], l2: float, x: FloatArray, solver: Solve, tolerance: float
) -> list[Minimum]:  # fmt: skip
    if not weights:
        return []
    table = torch.stack([torch.as_tensor(weight, dtype=problem.columns.dtype) for weight in weights])
    searches = [
        search_minimum(x, solver, tolerance=tolerance, max_iterations=_MAX_ITERATIONS) for _ in weights
    ]

    def evaluate(numbers: list[int], points: FloatArray) -> tuple[FloatArray, FloatArray]:
        return problem.evaluate(points, table if len(numbers) == len(table) else table[numbers], l2)

    return minimize_together(evaluate, searches)


def _head(problem: HeadProblem, found: Minimum) -> Head:
    return problem.head(
        found.x, objective=found.value, converged=found.converged, n_evaluations=found.n_evaluations
    )
