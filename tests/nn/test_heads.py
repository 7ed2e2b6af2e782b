import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from oracle import logistic_losses
from steep.convex import logistic_path
from steep.nn.heads import HeadProblem, ridge_heads

RNG = np.random.default_rng(0)
N, D, C = 1200, 6, 4
CENTRES = RNG.normal(size=(C, D))
CLASSES = RNG.integers(0, C, N)
Z = CENTRES[CLASSES] + RNG.normal(size=(N, D)) * [0.3, 1, 1, 2, 3, 1] + 5
WEIGHT = RNG.uniform(0.2, 4, N)
WEIGHT /= WEIGHT.mean()
LABELS = ((Z - 5) @ RNG.normal(size=(D, 3)) + RNG.normal(size=(N, 3)) > 0).astype(float)
SCALE2 = Z.var(axis=0).mean()


def fit_logistic(problem, weight, l2, gap=1e-8):
    return next(problem.path([weight], [l2], gap=gap))[1][0]


def objective(problem, head, weight, l2):
    """J of a head."""
    theta = problem.parameters(head)[None]
    return float(logistic_losses(problem.problem, theta, weight[None] / len(weight), l2)[0])


def sklearn_logistic(z, y, weight, l2):
    """scikit-learn minimises C Σ w ℓ + ½‖W‖²; ours is 1/N Σ w ℓ + ½ λ s² ‖W‖²."""
    model = LogisticRegression(C=1 / (len(z) * l2 * SCALE2), tol=1e-10, max_iter=20000)
    return model.fit(z, y, sample_weight=weight)


@pytest.mark.parametrize("l2", [1e-1, 1e-3])
def test_softmax_head_is_that_of_scikit_learn(l2):
    problem = HeadProblem(Z, CLASSES, n_outputs=C, link="softmax")
    head = fit_logistic(problem, WEIGHT, l2, gap=1e-12)
    theirs = sklearn_logistic(Z, CLASSES, WEIGHT, l2)
    np.testing.assert_allclose(head.weight, theirs.coef_, atol=2e-4)
    outputs = Z @ head.weight.T + head.bias
    expected = theirs.decision_function(Z)
    centred = [o - o.mean(axis=1, keepdims=True) for o in (outputs, expected)]
    np.testing.assert_allclose(*centred, atol=2e-3)


@pytest.mark.parametrize("l2", [1e-1, 1e-4])
def test_sigmoid_head_is_one_logistic_regression_for_each_label(l2):
    problem = HeadProblem(Z, LABELS, n_outputs=3, link="sigmoid")
    head = fit_logistic(problem, WEIGHT, l2, gap=1e-12)
    for label in range(3):
        theirs = sklearn_logistic(Z, LABELS[:, label], WEIGHT, l2)
        np.testing.assert_allclose(head.weight[label], theirs.coef_[0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(head.bias[label], theirs.intercept_[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
def test_ridge_head_is_that_of_scikit_learn(bias):
    y = Z @ RNG.normal(size=(D, 2)) + RNG.normal(size=(N, 2))
    for l2, head in zip((1e-1, 1e-4), ridge_heads(Z, y, WEIGHT, (1e-1, 1e-4), bias=bias), strict=True):
        scale2 = SCALE2 if bias else (Z**2).mean()
        theirs = Ridge(alpha=l2 * scale2 * N, fit_intercept=bias).fit(Z, y, sample_weight=WEIGHT)
        np.testing.assert_allclose(head.weight, theirs.coef_, rtol=1e-7)
        if bias:
            np.testing.assert_allclose(head.bias, theirs.intercept_, rtol=1e-7)


def test_head_without_bias_is_that_of_scikit_learn():
    head = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax", bias=False), WEIGHT, 1e-2, gap=1e-12)
    strength = N * 1e-2 * (Z**2).mean()
    theirs = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-10, max_iter=20000)
    np.testing.assert_allclose(head.weight, theirs.fit(Z, CLASSES, sample_weight=WEIGHT).coef_, atol=1e-4)
    assert head.bias is None


def test_float32_features_reach_the_same_objective():
    exact = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax"), WEIGHT, 1e-3, gap=1e-12)
    rough = fit_logistic(HeadProblem(Z.astype(np.float32), CLASSES, n_outputs=C, link="softmax"), WEIGHT, 1e-3)
    problem = HeadProblem(Z, CLASSES, n_outputs=C, link="softmax")
    assert abs(objective(problem, rough, WEIGHT, 1e-3) - objective(problem, exact, WEIGHT, 1e-3)) < 1e-6


def test_a_path_of_heads_is_each_head_by_itself():
    problem = HeadProblem(Z, CLASSES, n_outputs=C, link="softmax")
    weights = [WEIGHT, WEIGHT[::-1].copy()]
    for l2, heads in problem.path([np.ones(N), *weights], [1e-4, 1e-2], gap=1e-11):
        for weight, head in zip([np.ones(N), *weights], heads, strict=True):
            alone = fit_logistic(problem, weight, l2, gap=1e-11)
            found, expected = (objective(problem, one, weight, l2) for one in (head, alone))
            np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_along_a_path_weighted_heads_go_on_from_where_they_were():
    problem = HeadProblem(Z, CLASSES, n_outputs=C, link="softmax")
    weight = np.where(CLASSES == 0, 50.0, 1.0) * WEIGHT
    weights = np.stack([np.ones(N), weight / weight.mean()]) / N
    path = logistic_path(problem.problem, weights, [1e-3, 9.9e-4], np.zeros(problem.shape), 1e-9)
    first, second = (minima.n_evaluations[1] for _, minima in path)
    assert second <= first / 2


def test_weight_zero_is_removed_and_weight_two_is_repeated():
    weight = np.ones(N)
    weight[:300], weight[300:600] = 0, 2
    rows = np.r_[300:N, 300:600]
    whole = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax"), weight, 1e-2, gap=1e-12)
    # λ is relative to the variance of the features given, which differs between the two sets.
    scaled = 1e-2 * SCALE2 / Z[rows].var(axis=0).mean()
    repeated = HeadProblem(Z[rows], CLASSES[rows], n_outputs=C, link="softmax")
    np.testing.assert_allclose(whole.weight, fit_logistic(repeated, np.ones(N), scaled, gap=1e-12).weight, atol=1e-5)


def test_wide_heads_share_one_block_of_the_hessian_and_still_converge(monkeypatch):
    full = fit_logistic(HeadProblem(Z, CLASSES, n_outputs=C, link="softmax"), WEIGHT, 1e-3)
    monkeypatch.setattr("steep.convex.logistic._FULL_HESSIAN", 10)
    problem = HeadProblem(Z, CLASSES, n_outputs=C, link="softmax")
    shared = fit_logistic(problem, WEIGHT, 1e-3)
    assert abs(objective(problem, full, WEIGHT, 1e-3) - objective(problem, shared, WEIGHT, 1e-3)) < 1e-6


def test_hessian_of_the_most_curved_samples_is_enough(monkeypatch):
    monkeypatch.setattr("steep.convex.logistic._HESSIAN_SAMPLES", 100)
    problem = HeadProblem(Z, CLASSES, n_outputs=C, link="softmax")
    _, found = next(logistic_path(problem.problem, WEIGHT[None] / N, [1e-4], np.zeros(problem.shape), 1e-8))
    assert found.converged.all()
    assert found.n_evaluations[0] < 60
