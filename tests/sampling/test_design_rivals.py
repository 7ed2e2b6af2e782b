"""The rivals that benchmarks/design.py writes again: against the equations of their papers."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist

FILE = Path(__file__).parents[2] / "benchmarks" / "design_rivals.py"
spec = importlib.util.spec_from_file_location("design_rivals", FILE)
rivals = importlib.util.module_from_spec(spec)
sys.modules["design_rivals"] = rivals
spec.loader.exec_module(rivals)

RNG = np.random.default_rng(0)
X, C, SCALES = RNG.random((20, 2)), RNG.random((50, 2)), np.array([0.5, 0.7])
Y = np.sin(4 * X[:, :1]) + X[:, 1:]


def test_a_process_conditioned_run_by_run_is_the_one_fitted_at_once():
    grown, whole = rivals.Process(X[:12], Y[:12], C, SCALES), rivals.Process(X, Y, C, SCALES)
    for x, y in zip(X[12:], Y[12:], strict=True):
        grown.add(x, y)
    np.testing.assert_allclose(grown.mean, whole.mean, atol=1e-9)
    np.testing.assert_allclose(grown.deviation, whole.deviation, atol=1e-9)
    K = rivals.matern(X / SCALES, X / SCALES) + 1e-8 * np.eye(20)
    k = rivals.matern(X / SCALES, C / SCALES)
    np.testing.assert_allclose(whole.mean, k.T @ np.linalg.solve(K, Y), atol=1e-8)
    np.testing.assert_allclose(whole.deviation**2, 1 - (k * np.linalg.solve(K, k)).sum(axis=0), atol=1e-8)


def test_expansions_are_of_first_order_at_the_nearest_run():
    near = X[[3]] + 1e-3
    distances = cdist(X, near)
    process = rivals.Process(X, Y, near, SCALES)
    np.testing.assert_allclose(process.expansions(distances), process.mean, atol=1e-4)
    assert abs(process.expansions(distances) - Y[3])[0, 0] > 1e-4


def test_scores_are_those_of_their_papers():
    process, distances = rivals.Process(X, Y, C, SCALES), cdist(X, C)
    rest = np.abs(process.mean - process.expansions(distances))[:, 0]
    near = distances.min(axis=0)
    np.testing.assert_allclose(rivals.guess(process, distances), (rest + 1) * process.deviation)
    gap = process.mean[:, 0] - Y[distances.argmin(axis=0), 0]
    np.testing.assert_allclose(rivals.eigf(process, distances), gap**2 + process.deviation**2)
    weight = 1 - near / cdist(X, X).max()
    np.testing.assert_allclose(
        rivals.tead(process, distances), near / near.max() + weight * rest / rest.max()
    )


@pytest.mark.parametrize("score", ["eigf", "tead"])
def test_a_rival_goes_where_a_front_is(score):
    front = lambda U: np.tanh(15 * (U[:, 0] - 0.6))  # noqa: E731
    start = np.random.default_rng(1).random((12, 2))
    found = rivals.sequential(score, front, start, 24, seed=0, n_fits=2)
    assert found.shape == (24, 2)
    assert len(np.unique(found, axis=0)) == 24
    assert np.mean(np.abs(found[12:, 0] - 0.6) < 0.2) > 0.5  # 0.4 by chance
