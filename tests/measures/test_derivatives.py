import numpy as np
import pytest

from steep import Box, SteepError
from steep.exceptions import FunctionError, InputError
from steep.measures.taylor import FiniteDifferences, multi_indices


def polynomial(X):
    x, y = X.T
    return np.column_stack([x**3 * y + 2 * y**2, x - y])


def polynomial_partials(X):
    x, y = X.T
    zero, one = np.zeros_like(x), np.ones_like(x)
    first = [3 * x**2 * y, x**3 + 4 * y, 6 * x * y, 3 * x**2, 4 * one]
    return np.stack([np.column_stack(pair) for pair in zip(first, [one, -one, zero, zero, zero], strict=True)])


def test_differences_agree_with_the_derivatives_of_a_polynomial():
    X = np.random.default_rng(0).uniform(0.1, 0.9, (7, 2))
    d = FiniteDifferences(polynomial, bounds=[(0, 1)] * 2)
    np.testing.assert_allclose(d(X, multi_indices(2, 2)), polynomial_partials(X), atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_error_falls_with_the_square_of_the_step(order):
    x, k = np.array([[0.3]]), np.array([[order]])
    exact = {1: np.cos(0.3), 2: -np.sin(0.3), 3: -np.cos(0.3), 4: np.sin(0.3)}[order]
    steps = np.array([0.04, 0.02, 0.01])
    errors = [abs(FiniteDifferences(np.sin, bounds=[(-1, 1)], step=h)(x, k).item() - exact) for h in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert abs(slope - 2) < 0.05


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_order_two_costs_the_documented_number_of_evaluations(d):
    calls = []
    differences = FiniteDifferences(lambda X: calls.append(len(X)) or X.sum(axis=1))
    differences(np.random.default_rng(0).random((4, d)), multi_indices(d, 2))
    assert calls == [4 * (1 + 2 * d + 2 * d * (d - 1))]


def test_nodes_stay_inside_the_box():
    seen = []
    d = FiniteDifferences(lambda X: seen.append(X) or X[:, 0] ** 2 * X[:, 1], bounds=[(2, 3), (-1, 1)])
    corners = np.array([[2.0, -1.0], [3.0, 1.0], [2.5, 0.0]])
    partials = d(corners, multi_indices(2, 2))
    assert (seen[0].min(axis=0) >= [2, -1]).all()
    assert (seen[0].max(axis=0) <= [3, 1]).all()
    np.testing.assert_allclose(partials[0, :, 0], 2 * corners[:, 0] * corners[:, 1], atol=5e-3)


def test_steps_follow_the_scale_of_each_axis():
    X = np.array([[1e6, 1e-6], [2e6, 2e-6]])
    partials = FiniteDifferences(lambda X: X[:, 0] * X[:, 1])(X, np.array([[1, 0], [0, 1], [1, 1]]))
    np.testing.assert_allclose(partials[:, :, 0], [X[:, 1], X[:, 0], [1, 1]], rtol=1e-6)


def test_a_constant_column_still_gets_a_step():
    partials = FiniteDifferences(lambda X: X[:, 0] ** 2 + X[:, 1])(np.array([[3.0, 0.0]]), np.array([[1, 0], [0, 1]]))
    np.testing.assert_allclose(partials.ravel(), [6, 1], rtol=1e-6)


def test_a_function_of_one_point_gives_the_same():
    X = np.random.default_rng(1).random((3, 2))
    one = FiniteDifferences(lambda x: [x[0] * x[1], x[0]], bounds=[(0, 1)] * 2, vectorized=False)
    many = FiniteDifferences(lambda X: np.column_stack([X[:, 0] * X[:, 1], X[:, 0]]), bounds=[(0, 1)] * 2)
    np.testing.assert_array_equal(one(X, multi_indices(2, 2)), many(X, multi_indices(2, 2)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X: np.full(len(X), np.nan), r"NaN or infinity at 3 of 3 points: \(0.5\), \(0.499878.*expected finite"),
        (lambda X: 1.0, r"returned shape \(\) for 3 points.*vectorized=False"),
        (lambda X: np.ones((len(X) + 1, 2)), r"returned shape \(4, 2\) for 3 points"),
        (lambda X: "text", "str that is not an array of numbers"),
    ],
)
def test_functions_that_return_nonsense_are_refused(function, message):
    with pytest.raises(FunctionError, match=message):
        FiniteDifferences(function, bounds=[(0, 1)])([[0.5]], np.array([[2]]))


def test_a_function_whose_size_changes_is_refused():
    with pytest.raises(FunctionError, match=r"different sizes.*\[1, 2\]"):
        FiniteDifferences(lambda x: [1.0] * (1 + (x[0] > 0.5)), bounds=[(0, 1)], vectorized=False)(
            [[0.5]], np.array([[2]])
        )


def test_a_function_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="function is a int"):
        FiniteDifferences(3)


def test_nodes_are_never_where_the_constraint_says_no():
    box = Box([(0, 1)] * 2, constraint=lambda X: X.sum(axis=1) <= 1)

    def strict(X):
        assert box.contains(X).all()
        return X[:, 0] * X[:, 1]

    X = np.array([[0.0, 1.0], [0.5, 0.5], [0.2, 0.2], [1.0, 0.0]])
    partials = FiniteDifferences(strict, bounds=box)(X, multi_indices(2, 2))
    np.testing.assert_allclose(partials[:2, :, 0], [X[:, 1], X[:, 0]], atol=2e-3)
    np.testing.assert_allclose(partials[3, :, 0], 1, rtol=1e-4)


def test_a_constraint_without_room_for_a_stencil_says_so():
    thread = Box([(0, 1)] * 2, constraint=lambda X: X[:, 0] == 0.5)
    with pytest.raises(InputError, match="leaves no room for finite differences around 1 of 1 points"):
        FiniteDifferences(polynomial, bounds=thread)([[0.5, 0.5]], multi_indices(2, 1))


@pytest.mark.parametrize("order", [4, 13, 30])
def test_stencils_of_any_order_fit_into_the_box(order):
    seen = []
    FiniteDifferences(lambda X: seen.append(X) or X[:, 0], bounds=[(2, 3)])([[2.0], [2.9]], np.array([[order]]))
    assert seen[0].min() >= 2
    assert seen[0].max() <= 3


def test_large_stencils_are_evaluated_in_parts():
    sizes = []
    d = FiniteDifferences(lambda X: sizes.append(len(X)) or X[:, 0] * X[:, 1], bounds=[(0, 1)] * 60)
    X = np.full((40, 60), 0.5)
    X[:, 0] = np.linspace(0.1, 0.9, 40)
    partials = d(X, multi_indices(60, 2))
    assert len(sizes) > 1
    assert sum(sizes) == 40 * (1 + 2 * 60 + 2 * 60 * 59)
    np.testing.assert_allclose(partials[1, :, 0], X[:, 0], rtol=1e-6)


@pytest.mark.parametrize(
    "k", [[[0]], [[-1]], [[1.0]], [1], [[1, 0]], np.empty((0, 1), dtype=int), [["a"]], None, [[10**6, 10**6]]]
)
def test_multi_indices_of_the_wrong_kind_are_refused(k):
    with pytest.raises((InputError, TypeError)) as caught:
        FiniteDifferences(np.sin, bounds=[(0, 1)])([[0.5]], k)
    assert isinstance(caught.value, SteepError)


def test_stencils_of_too_many_terms_are_refused():
    with pytest.raises(InputError, match="lower order, pass derivatives or use perturbation_variance"):
        FiniteDifferences(np.sin)(np.ones((1, 3)), multi_indices(3, 30))
