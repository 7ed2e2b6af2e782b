"""The rivals that benchmarks/design.py writes again: against the equations of their papers."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import qmc


def benchmark(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "benchmarks" / f"{name}.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rivals = benchmark("design_rivals")

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
    np.testing.assert_allclose(rivals.tead(process, distances), near / near.max() + weight * rest / rest.max())


@pytest.mark.parametrize("score", ["eigf", "tead"])
def test_a_rival_goes_where_a_front_is(score):
    front = lambda U: np.tanh(15 * (U[:, 0] - 0.6))  # noqa: E731
    start = np.random.default_rng(1).random((12, 2))
    found = rivals.sequential(score, front, start, 24, seed=0, n_fits=2)
    assert found.shape == (24, 2)
    assert len(np.unique(found, axis=0)) == 24
    assert np.mean(np.abs(found[12:, 0] - 0.6) < 0.2) > 0.5  # 0.4 by chance


def waves_then_a_slope(U):
    """Gramacy and Lee's function, the example that GUESS comes with: 10 runs to begin, 35 in all."""
    x = 0.5 + 2 * U[:, 0]
    return np.sin(10 * np.pi * x) / (2 * x) + (x - 1) ** 4


def error_on_the_line(X):
    line, y = np.linspace(0, 1, 501)[:, None], waves_then_a_slope(X)[:, None]
    scales = rivals.fitted_scales(X, (y - y.mean()) / y.std(), np.full(1, 0.1))
    predicted = rivals.Process(X, y - y.mean(), line, scales).mean[:, 0] + y.mean()
    return np.sqrt(((predicted - waves_then_a_slope(line)) ** 2).mean())


def latin(n, seed):
    return qmc.LatinHypercube(1, rng=np.random.default_rng(seed)).random(n)


def test_guess_leads_on_the_example_of_its_authors_as_they_say():
    """Ahead of Latin hypercubes, TEAD and EIGF; fitting after every run would change nothing."""
    median = {
        score: np.median(
            [error_on_the_line(rivals.sequential(score, waves_then_a_slope, latin(10, s), 35, s)) for s in range(5)]
        )
        for score in ("guess", "tead", "eigf")
    }
    assert median["guess"] < 0.7 * np.median([error_on_the_line(latin(35, s)) for s in range(5)])
    assert median["guess"] < 0.7 * min(median["tead"], median["eigf"])
    often = rivals.sequential("guess", waves_then_a_slope, latin(10, 0), 35, 0, n_fits=25)
    seldom = rivals.sequential("guess", waves_then_a_slope, latin(10, 0), 35, 0)
    assert error_on_the_line(often) == pytest.approx(error_on_the_line(seldom), rel=0.1)


class TestIntegratedVariance:
    """qNIPV: what is minimised is the variance that is left, and runs chosen so leave less than Sobol points."""

    @pytest.fixture(scope="class")
    def nipv(self):
        pytest.importorskip("botorch")
        return benchmark("design_integrated_variance")

    @pytest.mark.filterwarnings("ignore")
    def test_the_score_is_minus_the_mean_variance_left(self, nipv):
        torch = pytest.importorskip("torch")
        model, fresh = nipv.fitted(X, Y[:, 0]), RNG.random((3, 2))
        found = float(nipv.left_variance(model, C)(torch.tensor(fresh)[None]).detach())
        kernel = lambda A, B: model.covar_module(torch.tensor(A), torch.tensor(B)).to_dense().detach().numpy()  # noqa: E731
        known = np.vstack([X, fresh])
        K, k = kernel(known, known) + 1e-6 * np.eye(len(known)), kernel(known, C)
        left = np.diag(kernel(C, C)) - (k * np.linalg.solve(K, k)).sum(axis=0)
        np.testing.assert_allclose(found, -left.mean(), rtol=1e-2)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_runs_chosen_leave_less_variance_than_sobol_points(self, nipv):
        torch = pytest.importorskip("torch")
        model = nipv.fitted(X[:8], Y[:8, 0])
        score = nipv.left_variance(model, C)
        chosen = nipv.next_runs(model, C, 6, seed=0)
        others = [qmc.Sobol(2, rng=np.random.default_rng(s)).random(6) for s in range(5)]
        best = max(float(score(torch.tensor(points)[None]).detach()) for points in others)
        assert float(score(torch.tensor(chosen)[None]).detach()) > best
        design = nipv.least_variance(lambda U: np.sin(4 * U[:, 0]), X[:8], 15, seed=0)
        assert design.shape == (15, 2)
