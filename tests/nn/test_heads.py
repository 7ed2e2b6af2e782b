import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from steep.nn.heads import Head, HeadProblem, fit_adam, fit_logistic, logistic_path, ridge_path
from steep.nn.heads.lbfgs import minimize_together, search_minimum

RNG = np.random.default_rng(0)
N, D, C = 1200, 6, 4
CENTRES = RNG.normal(size=(C, D))
CLASSES = RNG.integers(0, C, N)
Z = CENTRES[CLASSES] + RNG.normal(size=(N, D)) * [0.3, 1, 1, 2, 3, 1] + 5
WEIGHT = RNG.uniform(0.2, 4, N)
WEIGHT /= WEIGHT.mean()
LABELS = ((Z - 5) @ RNG.normal(size=(D, 3)) + RNG.normal(size=(N, 3)) > 0).astype(float)
SCALE2 = Z.var(axis=0).mean()


def sklearn_logistic(z, y, weight, l2):
    """scikit-learn minimises C Σ w ℓ + ½‖W‖²; ours is 1/N Σ w ℓ + ½ λ s² ‖W‖²."""
    model = LogisticRegression(C=1 / (len(z) * l2 * SCALE2), tol=1e-10, max_iter=20000)
    return model.fit(z, y, sample_weight=weight)


@pytest.mark.parametrize("l2", [1e-1, 1e-3])
def test_softmax_head_is_that_of_scikit_learn(l2):
    problem = HeadProblem(Z, CLASSES, n_outputs=C, link="softmax")
    head = fit_logistic(problem, WEIGHT, l2, tolerance=1e-12)
    theirs = sklearn_logistic(Z, CLASSES, WEIGHT, l2)
    assert head.converged
    np.testing.assert_allclose(head.weight, theirs.coef_, atol=2e-4)
    outputs = Z @ head.weight.T + head.bias
    expected = theirs.decision_function(Z)
    centred = [o - o.mean(axis=1, keepdims=True) for o in (outputs, expected)]
    np.testing.assert_allclose(*centred, atol=2e-3)


@pytest.mark.parametrize("l2", [1e-1, 1e-4])
def test_sigmoid_head_is_one_logistic_regression_for_each_label(l2):
    problem = HeadProblem(Z, LABELS, n_outputs=3, link="sigmoid")
    head = fit_logistic(problem, WEIGHT, l2, tolerance=1e-12)
    for label in range(3):
        theirs = sklearn_logistic(Z, LABELS[:, label], WEIGHT, l2)
        np.testing.assert_allclose(head.weight[label], theirs.coef_[0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(head.bias[label], theirs.intercept_[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
def test_ridge_head_is_that_of_scikit_learn(bias):
    y = Z @ RNG.normal(size=(D, 2)) + RNG.normal(size=(N, 2))
    for l2, head in zip((1e-1, 1e-4), ridge_path(Z, y, WEIGHT, (1e-1, 1e-4), bias=bias), strict=True):
        scale2 = SCALE2 if bias else (Z**2).mean()
        theirs = Ridge(alpha=l2 * scale2 * N, fit_intercept=bias).fit(Z, y, sample_weight=WEIGHT)
        np.testing.assert_allclose(head.weight, theirs.coef_, rtol=1e-7)
        if bias:
            np.testing.assert_allclose(head.bias, theirs.intercept_, rtol=1e-7)


def test_head_without_bias_is_that_of_scikit_learn():
    head = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax", bias=False), WEIGHT, 1e-2, tolerance=1e-12)
    strength = N * 1e-2 * (Z**2).mean()
    theirs = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-10, max_iter=20000)
    np.testing.assert_allclose(head.weight, theirs.fit(Z, CLASSES, sample_weight=WEIGHT).coef_, atol=1e-4)
    assert head.bias is None


def test_float32_features_reach_the_same_objective():
    exact = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax"), WEIGHT, 1e-3, tolerance=1e-12)
    rough = fit_logistic(HeadProblem(Z.astype(np.float32), CLASSES, n_outputs=C, link="softmax"), WEIGHT, 1e-3)
    assert rough.converged
    assert abs(rough.objective - exact.objective) < 1e-6


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
def test_gradient_is_the_slope_of_the_objective(link):
    problem = HeadProblem(
        Z, CLASSES if link == "softmax" else LABELS, n_outputs=C if link == "softmax" else 3, link=link
    )
    weights = torch.as_tensor(np.stack([WEIGHT, np.ones(N)]))
    x = RNG.normal(size=(2, problem.n_outputs * (D + 1)))
    direction = RNG.normal(size=x.shape)
    ahead, _ = problem.evaluate(x + 1e-6 * direction, weights, 0.1)
    behind, _ = problem.evaluate(x - 1e-6 * direction, weights, 0.1)
    _, gradient = problem.evaluate(x, weights, 0.1)
    np.testing.assert_allclose((ahead - behind) / 2e-6, (gradient * direction).sum(axis=1), rtol=1e-6)


def test_a_path_of_heads_is_each_head_by_itself():
    problem = HeadProblem(Z, CLASSES, n_outputs=C, link="softmax")
    weights = [WEIGHT, WEIGHT[::-1].copy()]
    for l2, heads in logistic_path(problem, weights, [1e-4, 1e-2], tolerance=1e-11):
        for weight, head in zip([np.ones(N), *weights], heads, strict=True):
            alone = fit_logistic(problem, weight, l2, tolerance=1e-11)
            np.testing.assert_allclose(head.objective, alone.objective, rtol=1e-8)


def test_along_a_path_weighted_heads_go_on_from_where_they_were():
    problem = HeadProblem(Z, CLASSES, n_outputs=C, link="softmax")
    weight = np.where(CLASSES == 0, 50.0, 1.0) * WEIGHT
    first, second = (
        heads[1].n_evaluations
        for _, heads in logistic_path(problem, [weight / weight.mean()], [1e-3, 9.9e-4], tolerance=1e-9)
    )
    assert second <= first / 2


@pytest.mark.parametrize("form", ["free bias", "no bias", "held"])
def test_another_penalty_changes_a_gradient_by_the_step_where_it_holds(form):
    held = Head(RNG.normal(size=(C, D)), RNG.normal(size=C)) if form == "held" else None
    problem = HeadProblem(
        Z, CLASSES, n_outputs=C, link="softmax", bias=form != "no bias", anchor=held
    )  # fmt: skip
    x, step = RNG.normal(size=(2, C * (D + problem.bias)))
    weights = torch.as_tensor(np.stack([WEIGHT, WEIGHT]))
    changes = [np.diff(problem.evaluate(np.stack([x, x + step]), weights, l2)[1], axis=0)[0] for l2 in (0.1, 0.7)]
    np.testing.assert_allclose(changes[1], changes[0] + 0.6 * problem.is_penalised * step, atol=1e-12)


def test_a_hessian_known_in_every_direction_needs_one_step():
    matrix = np.diag(np.geomspace(1, 100, 8))
    known = tuple((axis, matrix @ axis) for axis in np.eye(8))
    limits = {"tolerance": 1e-12, "max_iterations": 200}
    searches = [search_minimum(np.ones(8), lambda g: 0.01 * g, pairs=pairs, **limits) for pairs in ((), known)]
    blind, told = minimize_together(lambda _, x: (np.einsum("ni,ij,nj->n", x, matrix, x) / 2, x @ matrix), searches)
    assert blind.converged
    assert told.converged
    assert told.n_evaluations == 2 < blind.n_evaluations


def test_weight_zero_is_removed_and_weight_two_is_repeated():
    weight = np.ones(N)
    weight[:300], weight[300:600] = 0, 2
    rows = np.r_[300:N, 300:600]
    whole = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax"), weight, 1e-2, tolerance=1e-12)
    # λ is relative to the variance of the features given, which differs between the two sets.
    scaled = 1e-2 * SCALE2 / Z[rows].var(axis=0).mean()
    repeated = HeadProblem(Z[rows], CLASSES[rows], n_outputs=C, link="softmax")
    np.testing.assert_allclose(
        whole.weight, fit_logistic(repeated, np.ones(N), scaled, tolerance=1e-12).weight, atol=1e-5
    )


def test_wide_heads_share_one_block_of_the_hessian_and_still_converge(monkeypatch):
    full = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax"), WEIGHT, 1e-3)
    monkeypatch.setattr("steep.nn.heads.problem._FULL_HESSIAN", 10)
    shared = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax"), WEIGHT, 1e-3)
    assert shared.converged
    assert abs(full.objective - shared.objective) < 1e-6


def test_hessian_of_the_most_curved_samples_is_enough(monkeypatch):
    monkeypatch.setattr("steep.nn.heads.problem._HESSIAN_SAMPLES", 100)
    head = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax"), WEIGHT, 1e-4)
    assert head.converged
    assert head.n_evaluations < 60


def test_searches_run_together_find_their_own_minima():
    matrices = [np.diag([1.0, 10.0, k]) for k in (2.0, 50.0)]
    targets = RNG.normal(size=(2, 3))

    def evaluate(numbers, points):
        off = [matrices[i] @ (p - targets[i]) for i, p in zip(numbers, points, strict=True)]
        values = [(p - targets[i]) @ o / 2 for i, p, o in zip(numbers, points, off, strict=True)]
        return np.array(values), np.array(off)

    searches = [search_minimum(np.zeros(3), lambda g: g.copy(), tolerance=1e-14, max_iterations=100) for _ in range(2)]
    for found, target in zip(minimize_together(evaluate, searches), targets, strict=True):
        assert found.converged
        np.testing.assert_allclose(found.x, target, atol=1e-6)


def test_the_end_of_the_iterations_is_told():
    search = search_minimum(np.zeros(2), lambda g: 1e-3 * g, tolerance=1e-12, max_iterations=2)
    found = minimize_together(lambda _, x: (((x - 1) ** 2).sum(axis=1), 2 * (x - 1)), [search])[0]
    assert not found.converged


@pytest.mark.parametrize(
    ("loss", "targets", "n_outputs"), [("softmax", CLASSES, C), ("sigmoid", LABELS, 3), ("squared", LABELS, 3)]
)
def test_adam_approaches_the_convex_minimum_from_above(loss, targets, n_outputs):
    z = ((Z - Z.mean(0)) / Z.std(0)).astype(np.float32)
    heads = [
        fit_adam(z, targets, WEIGHT, n_outputs=n_outputs, loss=loss, learning_rate=0.01, batch_size=100, epochs=epochs)
        for epochs in (1, 15)
    ]
    again = fit_adam(z, targets, WEIGHT, n_outputs=n_outputs, loss=loss, learning_rate=0.01, batch_size=100, epochs=1)
    np.testing.assert_array_equal(again.weight, heads[0].weight)

    def value(head):
        if loss == "squared":
            return (WEIGHT * ((z @ head.weight.T + head.bias - targets) ** 2).sum(axis=1)).mean()
        problem = HeadProblem(z, targets, n_outputs=n_outputs, link=loss)
        return problem.evaluate(problem.parameters(head)[None], torch.as_tensor(WEIGHT[None]).float(), 0.0)[0][0]

    best = (
        ridge_path(z, targets, WEIGHT, [0.0])[0]
        if loss == "squared"
        else fit_logistic(HeadProblem(z, targets, n_outputs=n_outputs, link=loss), WEIGHT, 1e-6)
    )
    assert value(heads[0]) > value(heads[1]) > value(best) - 1e-6
