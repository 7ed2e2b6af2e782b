"""Ridge and logistic regression for many weights at once give scikit-learn's converged answers."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import scale

from oracle import logistic_losses
from steep.convex import Inputs, LogisticProblem, solve_logistic, solve_ridge
from steep.convex.inputs import weighted_products
from steep.convex.minimise import Limits, minimise

DIABETES = load_diabetes(return_X_y=True, scaled=False)


def weightings(n, seed=0):
    """Equal weights, ratios from 0.01 to 100, and weights that leave samples out."""
    share = np.random.default_rng(seed).random(n) ** 3
    ratios = [1 + (m - 1) * share for m in (1, 10, 100)] + [1 / (1 + 99 * share), (share > 0.05) * 1.0]
    return np.array([w / w.mean() for w in ratios])


def relative(found, wanted):
    return np.abs(found - wanted).max() / np.abs(wanted).max()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_ridge_is_scikit_learns_for_every_weighting(alpha, fit_intercept):
    X, y = DIABETES
    weights = weightings(len(y))
    found = solve_ridge(X, y, weights, alpha=alpha, fit_intercept=fit_intercept)
    for weight, beta, constant in zip(weights, found[:, :-1], found[:, -1], strict=True):
        wanted = Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(X, y, weight)
        assert relative(beta, wanted.coef_) < 1e-6
        assert constant == pytest.approx(wanted.intercept_, rel=1e-6, abs=1e-6)


def test_ridge_keeps_its_digits_far_from_zero():
    X, y = DIABETES
    weights = weightings(len(y))
    near = solve_ridge(X, y, weights, alpha=1.0, fit_intercept=True)
    far = solve_ridge(X + 1e6, y + 1e6, weights, alpha=1.0, fit_intercept=True)
    assert relative(far[:, :-1], near[:, :-1]) < 1e-6


@pytest.mark.parametrize("n_problems", [3, 9])
def test_products_are_summed_over_blocks_of_rows(monkeypatch, n_problems):
    rng = np.random.default_rng(0)
    columns, weights = rng.normal(size=(1000, 4)), rng.random((n_problems, 1000))
    monkeypatch.setattr("steep.convex.inputs._TABLE", 700)
    found = weighted_products(columns, weights)
    np.testing.assert_allclose(found, np.einsum("bn,nj,nl->bjl", weights, columns, columns), rtol=1e-10)


def logistic(X, y, *, fit_intercept=True):
    inputs, held = Inputs(X, np.zeros(X.shape[1]), 1.0, bias=fit_intercept), np.ones(X.shape[1] + fit_intercept)
    held[X.shape[1] :] = 0
    n_classes = len(np.unique(y))
    return LogisticProblem(inputs, y[None] if n_classes == 2 else y, 1 if n_classes == 2 else n_classes, held)


def solved(X, y, weights, *, C=1.0, fit_intercept=True, shared=False, start=None):
    problem = logistic(X, y, fit_intercept=fit_intercept)
    start = np.zeros(problem.shape) if start is None else start
    solver = problem.solver(start, 1.0, np.ones(len(y))) if shared else None
    return solve_logistic(problem, C * weights, start, solver, tol=1e-9)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_iris])
@pytest.mark.parametrize(("C", "fit_intercept"), [(1.0, True), (0.01, False), (10.0, True)])
def test_logistic_regression_is_scikit_learns_for_every_weighting(load, C, fit_intercept):
    """Against newton-cholesky, which has the same loss; lbfgs cannot be brought to 1e-6."""
    X, y = load(return_X_y=True)
    X, weights = scale(X), weightings(len(y))
    found = solved(X, y, weights, C=C, fit_intercept=fit_intercept)
    for weight, theta in zip(weights, found, strict=True):
        model = LogisticRegression(
            C=C, fit_intercept=fit_intercept, solver="newton-cholesky", tol=1e-10, max_iter=500
        ).fit(X, y, weight)
        assert relative(theta[:, : X.shape[1]], model.coef_) < 1e-6
        if fit_intercept:
            constants = model.intercept_ - model.intercept_.mean() * (len(theta) > 1)
            assert np.abs(theta[:, -1] - constants).max() < 1e-6 * np.abs(model.coef_).max()


def test_scikit_learns_default_tolerance_stops_further_away_than_ours():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    ours = solved(X, y, np.ones((1, len(y))))[0]
    loose = LogisticRegression().fit(X, y)
    assert 1e-4 < relative(loose.coef_, ours[:, :-1]) < 0.05


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_any_start_and_any_second_derivative_lead_to_the_same_solution(load):
    X, y = load(return_X_y=True)
    X, weights = scale(X), weightings(len(y))
    plain = solved(X, y, weights)
    shared = solved(X, y, weights, shared=True)
    elsewhere = solved(X, y, weights, start=2 * plain[1])
    assert relative(shared, plain) < 1e-6
    assert relative(elsewhere, plain) < 1e-6


def test_blocks_of_samples_do_not_change_the_solution(monkeypatch):
    X, y = load_wine(return_X_y=True)
    X, weights = scale(X), weightings(len(y))
    whole = solved(X, y, weights)
    monkeypatch.setattr("steep.convex.inputs.BLOCK", 1)
    assert relative(solved(X, y, weights), whole) < 1e-6


def test_the_gradient_is_the_slope_of_the_weighted_loss():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    weight, theta, direction = rng.random((1, 150)), rng.normal(size=(1, 3, 5)), rng.normal(size=(1, 3, 5))
    for problem in (logistic(scale(X), y), replace(logistic(scale(X), y), targets=np.eye(3)[y].T)):
        slope = (problem.gradient(theta, weight, 0.7) * direction).sum()
        ahead, behind = (logistic_losses(problem, theta + step * direction, weight, 0.7)[0] for step in (1e-5, -1e-5))
        assert (ahead - behind) / 2e-5 == pytest.approx(slope, rel=1e-6)


def test_a_class_without_weight_has_no_solution():
    X, y = load_wine(return_X_y=True)
    weights = np.array([np.ones(len(y)), (y != 2) * 1.0])
    assert solved(scale(X), y, weights) is None


def test_the_second_derivative_is_the_slope_of_the_gradient():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    weight, theta, direction = rng.random((2, 150)), rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 4))
    softmax = logistic(scale(X), y, fit_intercept=False)
    for problem in (softmax, replace(softmax, targets=np.eye(3)[y].T)):
        curved = problem.hessian(theta, weight, 0.7) @ direction.reshape(-1)
        ahead, behind = (problem.gradient(theta + step * direction, weight, 0.7) for step in (1e-6, -1e-6))
        np.testing.assert_allclose(curved, (ahead - behind).reshape(2, -1) / 2e-6, rtol=1e-5, atol=1e-6)


def test_the_last_step_is_taken():
    X, y = load_breast_cancer(return_X_y=True)
    problem = logistic(scale(X), y)
    start, weights = np.zeros((1, 31)), weightings(len(y))
    exact, rough = (solve_logistic(problem, weights, start, tol=tol) for tol in (1e-10, 1e-2))
    error = np.abs(rough - exact).max(axis=(1, 2)) / np.abs(exact).max(axis=(1, 2))
    assert np.median(error) < 0.3e-2


def test_every_problem_may_have_a_start_of_its_own():
    X, y = load_breast_cancer(return_X_y=True)
    X, weights = scale(X), weightings(len(y))
    plain = solved(X, y, weights)
    starts = plain + 0.1 * np.random.default_rng(0).normal(size=plain.shape)
    assert relative(solved(X, y, weights, start=starts), plain) < 1e-6


def quadratic(matrices, targets):
    """Gradients of ½ (x − t)ᵀ A (x − t)."""
    return lambda points, numbers: np.einsum("bij,bj->bi", matrices[numbers], points - targets[numbers])


def test_a_hessian_known_in_every_direction_needs_one_step():
    matrix = np.diag(np.geomspace(1, 100, 8))[None]
    known = [(axis[None], axis[None] @ matrix[0], 1 / (axis[None] @ matrix[0] @ axis)) for axis in np.eye(8)]
    gradient, limits = quadratic(matrix, np.zeros((1, 8))), Limits(gap=1e-12)
    blind, told = (
        minimise(gradient, np.ones((1, 8)), lambda g, _: 0.01 * g, limits, pairs=pairs) for pairs in ([], known)
    )
    assert blind.converged.all()
    assert told.converged.all()
    assert told.n_evaluations[0] == 2 < blind.n_evaluations[0]


def test_searches_run_together_find_their_own_minima():
    matrices = np.stack([np.diag([1.0, 10.0, k]) for k in (2.0, 50.0, 500.0)])
    targets = np.random.default_rng(0).normal(size=(3, 3))
    targets[1] = 0  # solved at once: the others go on without it
    found = minimise(quadratic(matrices, targets), np.zeros((3, 3)), lambda g, _: g.copy(), Limits(gap=1e-14))
    assert found.converged.all()
    np.testing.assert_allclose(found.theta, targets, atol=1e-6)


def test_the_end_of_the_steps_is_reported():
    limits = Limits(gap=1e-12, n_steps=2)
    gradient = quadratic(np.diag(np.geomspace(1, 100, 8))[None], np.ones((1, 8)))
    assert not minimise(gradient, np.zeros((1, 8)), lambda g, _: 1e-3 * g, limits).converged.any()
