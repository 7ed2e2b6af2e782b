import numpy as np
import pytest

from steep import Box, Integer, SteepError, perturbation_variance
from steep.exceptions import FunctionError, InputError


def square(X):
    return X[:, 0] ** 2


def test_a_function_that_changes_its_points_changes_nothing_else():
    def greedy(X):
        value = X.sum(axis=1)
        X *= 0
        return value

    X = np.ones((4, 2))
    for center in ("mean", "point"):
        perturbation_variance(greedy, X, center=center, random_state=0)
        assert (X == 1).all()


def test_draws_stay_inside_the_bounds():
    box = Box({"x": (0.0, 2.0), "n": Integer(1, 9)}, constraint=lambda X: X[:, 0] < 1.9)

    def strict(X):
        assert box.contains(X).all()
        return X.sum(axis=1)

    X = np.array([[0.0, 1], [1.89, 9], [1.0, 5]])
    variation = perturbation_variance(strict, X, bounds=box, epsilon=[0.5, 4.0], random_state=0)
    assert (variation > 0).all()


def test_reflection_changes_nothing_far_from_the_faces():
    X = np.full((3, 2), 0.5)
    free = perturbation_variance(square, X, epsilon=1e-4, random_state=0)
    np.testing.assert_allclose(
        perturbation_variance(square, X, epsilon=1e-4, bounds=[(0, 1)] * 2, random_state=0), free, rtol=1e-9
    )


@pytest.mark.parametrize(
    ("function", "kwargs", "error", "message"),
    [
        (lambda X: X[:, 0] * 1e200, {"epsilon": 1.0}, FunctionError, "variation is too large for a float at 2 of 2"),
        (lambda X: X[:, 0] * 1j, {}, FunctionError, "not an array of numbers"),
        (lambda X: np.ma.masked_less(X[:, 0], 9), {}, FunctionError, "NaN or infinity"),
        (lambda X: np.ones((len(X), 0)), {}, FunctionError, r"returned shape \(\d+, 0\)"),
        (square, {"n_draws": 2**61}, InputError, "random numbers"),
        (square, {"n_draws": 1}, InputError, "n_draws=1 is too small"),
        (square, {"bounds": [(0, 1)] * 3}, InputError, "X has 2 columns, expected 3"),
        (square, {"vectorized": "yes"}, TypeError, "vectorized='yes' is a str; expected True or False"),
        (3, {}, TypeError, "function is a int"),
    ],
)
def test_what_cannot_be_measured_is_refused(function, kwargs, error, message):
    with pytest.raises(error, match=message) as caught:
        perturbation_variance(function, np.ones((2, 2)), random_state=0, **kwargs)
    assert isinstance(caught.value, SteepError)
