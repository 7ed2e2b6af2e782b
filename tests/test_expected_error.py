import copy
import json
import pickle

import numpy as np
import pytest
from scipy import stats

from steep.expected_error import ErrorEstimate, error_history, estimate_error, interpolant, unknown_error


def truth(X, y, function):
    fresh = np.random.default_rng(99).random((400, X.shape[1]))
    wrong = interpolant(X, y)(fresh) - function(fresh)
    return np.sqrt((wrong**2).mean()) / function(fresh).std()


FUNCTIONS = {
    "wave": lambda X: np.sin(6 * X[:, :1]) * np.cos(4 * X[:, 1:2]),
    "front": lambda X: np.tanh(15 * (X[:, :1] + 0.3 * X[:, 1:2] - 0.7)),
    "kink": lambda X: np.abs(X[:, :1] - 0.4) + np.abs(X[:, 1:2] - 0.6),
}


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    """Half of the runs are even, half crowd one side: the estimate is of the whole domain."""
    inside = []
    for function in FUNCTIONS.values():
        for seed in range(5):
            rng = np.random.default_rng(seed)
            X = rng.random((100, 2))
            is_even = np.arange(100) % 2 == 0
            X[~is_even] *= [0.3, 1.0]
            y = function(X)
            error = estimate_error(X, y, is_even)
            inside.append(error.low <= truth(X, y, function) <= error.high)
    # Of 15 at 90 %, fewer than this happen once in ten thousand.
    assert sum(inside) >= stats.binom.ppf(1e-4, len(inside), 0.9)


def test_the_estimate_falls_with_the_runs_and_says_how_many_more_halve_it():
    X = np.random.default_rng(0).random((300, 2))
    y = FUNCTIONS["wave"](X)
    errors = [estimate_error(X[:n], y[:n], np.ones(n, bool)) for n in (40, 100, 300)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[1].rate > 0.3
    assert 0 < errors[1].more_runs_for_half < 1000
    assert errors[1].more_runs_for(errors[1] * 2) == 0


def test_placed_runs_are_not_judged():
    rng = np.random.default_rng(0)
    X = rng.random((80, 2))
    is_even = np.arange(80) % 2 == 0
    y = X[:, :1].copy()
    y[~is_even & (np.arange(80) > 60)] += 1e-3 * rng.standard_normal((10, 1))
    clean = estimate_error(X, X[:, :1], is_even)
    assert clean < 1e-6
    # Of the 37 runs after the last half of the blocks began, every second is even.
    assert estimate_error(X, y, is_even).n_judged == clean.n_judged < 25


def test_the_worst_output_counts():
    X = np.random.default_rng(0).random((60, 2))
    y = np.column_stack([X[:, 0], np.random.default_rng(1).standard_normal(60)])
    assert estimate_error(X, y, np.ones(60, bool)) > 0.7


def test_few_runs_tell_nothing():
    error = estimate_error(np.random.default_rng(0).random((12, 2)), np.ones((12, 1)), np.ones(12, bool))
    assert np.isnan(error)
    assert "too few" in error.sentence
    assert error.more_runs_for_half is None


def test_an_estimate_is_a_float_wherever_one_was():
    error = ErrorEstimate(0.25, low=0.1, high=0.4, n_runs=50, n_judged=20, rate=0.0)
    assert error == 0.25
    assert f"{error:.3f}" == "0.250"
    assert json.dumps({"error": error}) == '{"error": 0.25}'
    for again in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert (again, again.low, again.high, again.n_runs) == (0.25, 0.1, 0.4, 50)
    assert error.more_runs_for_half is None
    assert "does not fall" in error.sentence


@pytest.mark.parametrize("n_runs", [0, 5])
def test_an_unknown_error_is_not_a_number(n_runs):
    assert np.isnan(unknown_error(n_runs))


def estimate(n_runs, *, value=0.2, high=0.3, rate=1.0):
    return ErrorEstimate(value, low=value / 2, high=high, n_runs=n_runs, n_judged=20, rate=rate)


def test_an_output_that_is_constant_up_to_rounding_does_not_count():
    X = np.random.default_rng(0).random((80, 2))
    y = FUNCTIONS["wave"](X)
    rounding = 1e5 * (1 + 2e-16 * np.random.default_rng(1).integers(-2, 3, 80))[:, None]
    alone = estimate_error(X, y, np.ones(80, bool))
    both = estimate_error(X, np.hstack([rounding, y]), np.ones(80, bool))
    assert (both, both.low, both.high) == pytest.approx((alone, alone.low, alone.high))
    assert (alone.n_constant, both.n_constant) == (0, 1)
    assert "1 constant output(s) left out" in both.sentence


@pytest.mark.parametrize(("rate", "more"), [(1.0, 50), (0.31, 418), (0.05, None), (1e-9, None), (0.0, None)])
def test_the_trend_is_carried_on_to_ten_times_the_runs_at_most(rate, more):
    error = estimate(50, rate=rate)
    assert error.more_runs_for_half == more
    if more is None:
        assert "more than 10 times as many" in error.sentence or "does not fall" in error.sentence


def test_the_history_ends_with_the_estimate_of_all_runs():
    X = np.random.default_rng(0).random((120, 2))
    y, is_even = FUNCTIONS["front"](X), np.arange(120) % 2 == 0
    history = error_history(X, y, is_even)
    assert history[-1] == pytest.approx(estimate_error(X, y, is_even))
    assert [error.n_runs for error in history] == sorted({error.n_runs for error in history})
    assert not np.isnan(history).any()
    assert error_history(X[:15], y[:15], None) == []
    assert len(error_history(X[:16], y[:16], None)) == 1
