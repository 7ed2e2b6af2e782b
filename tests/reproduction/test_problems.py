"""The paper's functions against SciPy, finite differences and their own laws."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from reproduction import problems
from reproduction.problems import BATEMAN, PROBLEMS, bateman, bateman_euler, bateman_rates
from steep import taylor_variation
from steep.exceptions import SteepError
from steep.measures.taylor import FiniteDifferences, multi_indices


def points_of(problem, n=200, seed=0):
    low, high = np.array(problem.bounds).T
    return low + np.random.default_rng(seed).random((n, len(low))) * (high - low)


@pytest.mark.parametrize("name", ["runge", "tanh", "bateman"])
def test_formulas_by_hand_are_the_derivatives(name):
    problem = PROBLEMS[name]
    X = points_of(problem)
    k = multi_indices(len(problem.bounds), 2)
    numeric = FiniteDifferences(problem.function, step=1e-4)(X, k)
    exact = problem.derivatives(X, k).reshape(numeric.shape)
    np.testing.assert_allclose(exact, numeric, atol=2e-4 * np.abs(exact).max())


@pytest.mark.parametrize("name", ["runge", "tanh"])
def test_third_derivatives_are_the_slopes_of_the_second(name):
    problem, h = PROBLEMS[name], 1e-5
    X = points_of(problem, 50)
    second = [problem.derivatives(X + shift, [[2]])[0] for shift in (h, -h)]
    exact = problem.derivatives(X, [[3]])[0]
    np.testing.assert_allclose(exact, (second[0] - second[1]) / (2 * h), atol=1e-4 * np.abs(exact).max())


def test_bateman_agrees_with_scipy():
    starts = [(0.3, 0.8, 7.0), (3.9, 0.1, 10.0), (0.5, 0.5, 4.0), (0.0, 1.6, 3.0), (0.7, 0.0, 3.0), (1e-4, 2.0, 10.0)]
    for u0, eta0, t in starts:
        solved = solve_ivp(
            lambda _, s: [0.45 * s[0] * s[1], -0.45 * s[0] * s[1]], (0, t), (u0, eta0), rtol=1e-11, atol=1e-13
        )
        np.testing.assert_allclose(bateman([[u0, eta0, t]])[0], solved.y[:, -1], atol=1e-8)


def test_sum_of_bateman_is_constant_and_u_grows():
    X = points_of(BATEMAN)
    u, eta = bateman(X).T
    np.testing.assert_allclose(u + eta, X[:, 0] + X[:, 1], atol=1e-12)
    assert (u >= X[:, 0]).all()
    assert (eta >= 0).all()
    assert bateman([[0.0, 0.0, 3.0], [0.0, 2.0, 10.0]]).tolist() == [[0.0, 0.0], [0.0, 2.0]]


def test_bateman_varies_most_where_u_starts_at_zero():
    eta0, t = (axis.ravel() for axis in np.meshgrid(np.linspace(0, 2, 21), np.linspace(0, 10, 41)))
    largest = [
        taylor_variation(None, np.column_stack([np.full(len(t), u0), eta0, t]), order=2, epsilon=5e-4,
                         derivatives=BATEMAN.derivatives).max()
        for u0 in (0.0, 0.1, 0.4, 1.0)
    ]  # fmt: skip
    assert largest[0] > 0.1 > largest[1] > largest[2] > largest[3]


@pytest.mark.parametrize("n_species", [1, 3, 11])
def test_euler_converges_to_scipy_at_first_order(n_species):
    rates = bateman_rates(n_species)
    start = np.random.default_rng(1).random(n_species + 1)

    def slope(_, state):
        return state[0] * np.concatenate([[rates @ state[1:]], -rates * state[1:]])

    solved = solve_ivp(slope, (0, 1.0), start, rtol=1e-11, atol=1e-12).y[:, -1]
    point = [[*start, 1.0]]
    errors = [np.abs(bateman_euler(point, n_steps=n)[0] - solved).max() for n in (1000, 2000, 4000)]
    assert errors[-1] < 1e-3
    np.testing.assert_allclose(np.diff(np.log2(errors)), -1, atol=0.05)


def test_euler_with_one_species_is_the_closed_form():
    X = points_of(BATEMAN)
    np.testing.assert_allclose(bateman_euler(X, n_steps=4000), bateman(X), atol=5e-3)


@pytest.mark.parametrize("call", [
    lambda: problems.runge([[0.1, 0.2]]),
    lambda: problems.runge_derivatives([[0.1]], [[4]]),
    lambda: problems.bateman([[0.1, 0.2]]),
    lambda: problems.bateman_derivatives([[0.1, 0.2, 1.0]], [[1, 1, 1]]),
    lambda: problems.bateman_euler([[0.1, 0.2]]),
    lambda: problems.bateman_euler([[0.1, 0.2, 1.0]], n_steps=0),
    lambda: problems.bateman_rates(0),
])  # fmt: skip
def test_bad_input_is_refused_in_one_line(call):
    with pytest.raises(SteepError) as caught:
        call()
    assert "\n" not in str(caught.value)
