import numpy as np
import pytest

import oracle
from steep import perturbation_variance, taylor_variation
from steep.exceptions import FunctionError, InputError, InputTypeError


def cubic_partials(X, multi_indices):
    """∂^k of f(x, y) = (x²y, x + y³), by hand."""
    x, y = X.T
    zero, one = np.zeros_like(x), np.ones_like(x)
    table = {
        (1, 0): (2 * x * y, one),
        (0, 1): (x**2, 3 * y**2),
        (2, 0): (2 * y, zero),
        (1, 1): (2 * x, zero),
        (0, 2): (zero, 6 * y),
        (2, 1): (2 * one, zero),
        (0, 3): (zero, 6 * one),
    }
    return np.stack([np.column_stack(table.get(tuple(k), (zero, zero))) for k in multi_indices.tolist()])


def cubic(X):
    x, y = X.T
    return np.column_stack([x**2 * y, x + y**3])


X = np.random.default_rng(0).uniform(-1, 1, (9, 2))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [1e-3, [0.5, 0.02]])
def test_taylor_variation_is_the_sum_of_the_equation(order, epsilon):
    vector = np.broadcast_to(epsilon, 2)
    expected = [
        oracle.taylor_variation(lambda k, x: cubic_partials(x[None], np.array([k]))[0, 0], x, vector, order) for x in X
    ]
    given = taylor_variation(cubic, X, order=order, epsilon=epsilon, derivatives=cubic_partials)
    np.testing.assert_allclose(given, expected, rtol=1e-12)


def test_finite_differences_agree_with_formulas():
    by_formula = taylor_variation(None, X, epsilon=0.1, derivatives=cubic_partials)
    np.testing.assert_allclose(taylor_variation(cubic, X, epsilon=0.1), by_formula, rtol=1e-5)


def test_scaling_the_function_scales_variation_by_its_square():
    base = taylor_variation(cubic, X)
    np.testing.assert_allclose(taylor_variation(lambda X: -3 * cubic(X) + 7, X), 9 * base, rtol=1e-4)


def test_outputs_are_summed():
    parts = [taylor_variation(lambda X, j=j: cubic(X)[:, j], X) for j in (0, 1)]
    np.testing.assert_allclose(taylor_variation(cubic, X), parts[0] + parts[1], rtol=1e-9)


def gaussian_variance(f, x, epsilon, n_nodes=40):
    """Var f(x + e), e ~ N(0, ε), by Gauss-Hermite quadrature: exact for polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    values, weights = f(x + np.sqrt(epsilon) * nodes), weights / weights.sum()
    return weights @ values**2 - (weights @ values) ** 2


def test_lemma_1_is_exact_on_quadratics():
    for x in (0.0, 1.0, -2.5):
        taylor = taylor_variation(
            None, [[x]], epsilon=0.3, derivatives=lambda X, k: np.array([[6 * X[0, 0] - 1], [6.0]])[:, :, None]
        )
        assert taylor.item() == pytest.approx(gaussian_variance(lambda t: 3 * t**2 - t + 4, x, 0.3), rel=1e-12)


def test_lemma_1_remainder_falls_as_epsilon_squared_not_cubed():
    epsilons = np.array([1e-2, 3e-3, 1e-3])
    partials = np.array([3.0, 6.0])[:, None, None]  # of x³ at 1
    errors = [
        abs(
            gaussian_variance(lambda t: t**3, 1.0, e)
            - taylor_variation(None, [[1.0]], epsilon=e, derivatives=lambda X, k: partials).item()
        )
        for e in epsilons
    ]
    np.testing.assert_allclose(errors, 18 * epsilons**2 + 15 * epsilons**3, rtol=1e-6)
    assert abs(np.polyfit(np.log(epsilons), np.log(errors), 1)[0] - 2) < 0.05


def test_perturbation_variance_estimates_taylor_variation():
    quadratic = lambda X: X[:, 0] ** 2 + X[:, 0] * X[:, 1]  # noqa: E731
    n_draws = 20_000
    estimate = perturbation_variance(quadratic, X, epsilon=0.05, n_draws=n_draws, random_state=0)
    exact = taylor_variation(quadratic, X, epsilon=0.05)
    np.testing.assert_allclose(estimate, exact, rtol=4 * np.sqrt(8 / n_draws))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, [1e-3, 0.0]])
def test_epsilon_must_be_positive(epsilon):
    with pytest.raises(InputError, match=r"epsilon=.* expected variances > 0"):
        taylor_variation(cubic, X, epsilon=epsilon)


def test_epsilon_must_fit_the_inputs():
    with pytest.raises(InputError, match=r"epsilon has shape \(3,\).*2 inputs"):
        taylor_variation(cubic, X, epsilon=[1, 1, 1])


def test_derivatives_of_the_wrong_shape_are_refused():
    with pytest.raises(FunctionError, match=r"derivatives returned shape \(9, 5\); expected \(5, 9, n_outputs\)"):
        taylor_variation(None, X, derivatives=lambda X, k: np.ones((9, 5)))


def test_derivatives_that_are_not_finite_are_refused():
    with pytest.raises(FunctionError, match="at 1 of 9 points, first at row 4"):
        taylor_variation(None, X, derivatives=lambda X, k: np.where(np.arange(9) == 4, np.nan, 1.0) * np.ones((5, 1)))


def test_something_to_differentiate_is_needed():
    with pytest.raises(InputError, match="function is None and derivatives is None"):
        taylor_variation(None, X)


@pytest.mark.parametrize("derivatives", [5, "exact", [1.0]])
def test_derivatives_that_cannot_be_called_are_refused(derivatives):
    with pytest.raises(InputTypeError, match=r"derivatives is a .*; expected a callable of \(X, multi_indices\)"):
        taylor_variation(None, X, derivatives=derivatives)


@pytest.mark.parametrize("answer", ["text", None, [[1.0], [1.0, 2.0]], 1j * np.ones((5, 9)), np.ones((5, 9, 0))])
def test_derivatives_that_are_no_numbers_are_refused(answer):
    with pytest.raises(FunctionError, match="derivatives returned"):
        taylor_variation(None, X, derivatives=lambda X, k: answer)


def test_derivatives_cannot_change_the_points():
    def greedy(X, k):
        X *= 0
        k *= 0
        return np.ones((len(k), len(X), 1))

    points = X.copy()
    changed = taylor_variation(None, points, derivatives=greedy)
    np.testing.assert_array_equal(points, X)
    np.testing.assert_allclose(changed, taylor_variation(None, X, derivatives=lambda X, k: np.ones((5, 9, 1))))


def test_a_function_cannot_change_the_points():
    def greedy(X):
        values = cubic(X)
        X *= 0
        return values

    np.testing.assert_array_equal(taylor_variation(greedy, X), taylor_variation(cubic, X))


def test_variation_too_large_for_a_float_is_refused():
    with pytest.raises(FunctionError, match="variation is too large for a float at 9 of 9 points"):
        taylor_variation(lambda X: 1e200 * X[:, 0], X)


def test_bounds_must_fit_the_inputs():
    with pytest.raises(InputError, match="X has 2 columns, expected 3"):
        taylor_variation(cubic, X, bounds=[(0, 1)] * 3)


@pytest.mark.parametrize(("n_features", "order", "count"), [(1000, 1, 1000), (50, 2, 1325), (1, 60, 60)])
def test_many_inputs_and_high_orders_are_measured(n_features, order, count):
    """A linear function: exact to first order, nothing above."""
    slopes = np.linspace(1, 2, n_features)
    seen = []

    def derivatives(X, k):
        seen.append(len(k))
        return np.where(k.sum(axis=1) == 1, k @ slopes, 0.0)[:, None] * np.ones(len(X))

    points = np.full((2, n_features), 0.5)
    expected = np.full(2, 1e-3 * (slopes**2).sum())
    np.testing.assert_allclose(taylor_variation(None, points, order=order, derivatives=derivatives), expected)
    assert seen == [count]
    if order < 3:
        bounds = [(0, 1)] * n_features
        measured = taylor_variation(lambda X: X @ slopes, points, order=order, bounds=bounds)
        np.testing.assert_allclose(measured, expected, rtol=1e-4)
