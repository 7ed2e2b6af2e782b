import numpy as np
import pytest

from steep import design
from steep.domain import Box
from steep.sampling.evaluated import Evaluated
from steep.sampling.repeats import Repeats


def wave(X):
    return np.sin(5 * X[:, 0]) + X[:, 1] ** 2


def noisy(size, seed=0):
    """The wave with noise, and every answer it gave."""
    rng, answers = np.random.default_rng(seed), []

    def function(X):
        answers.append(wave(X) + size * rng.standard_normal(len(X)))
        return answers[-1]

    return function, answers


def plan_of(function, n=100, **options):
    return design(
        function, [(0, 1)] * 2, n_initial=n // 4, n_samples=n - n // 4, random_state=0,
        **{"noise": "repeat", "rounds": 6} | options,
    )  # fmt: skip


def n_distinct(plan):
    return len(np.unique(plan.X, axis=0))


def test_an_exact_function_shows_it_in_two_runs_which_are_left_out():
    plan = plan_of(wave)
    assert plan.n_evaluations == 100
    assert len(plan.X) == n_distinct(plan) == 98
    np.testing.assert_array_equal(plan.y, wave(plan.X))
    assert "2 runs were repeated and gave the same answers: the function is exact" in str(plan.hedge)
    assert plan.hedge.noise == 0


def test_little_noise_is_measured_and_new_points_are_run():
    function, answers = noisy(0.1)
    plan = plan_of(function)
    np.testing.assert_array_equal(plan.y, np.concatenate(answers))  # every answer, in the order of the runs
    assert len(plan.X) == plan.n_evaluations == 100
    assert n_distinct(plan) == 95
    assert "so new points are run" in str(plan.hedge)
    assert plan.is_even.sum() == len(np.unique(plan.X[plan.is_even], axis=0))
    assert plan.is_initial.sum() == 25


def test_much_noise_is_measured_and_points_are_run_again():
    function, answers = noisy(2.0, seed=1)
    plan = plan_of(function, 160)
    np.testing.assert_array_equal(plan.y, np.concatenate(answers))
    assert len(plan.X) == 160
    assert 80 <= n_distinct(plan) <= 120
    assert "so even points are run, and run again" in str(plan.hedge)
    assert plan.hedge.share == 0
    assert "slopes" not in str(plan.hedge)  # nothing is followed
    assert plan.hedge.noise > 0.3
    _, times = np.unique(plan.X, axis=0, return_counts=True)
    assert times.max() == 2  # each once more before any a third time


@pytest.mark.parametrize("noise", ["auto", None])
def test_nothing_is_repeated_unless_asked_for(noise):
    assert n_distinct(plan_of(noisy(2.0)[0], noise=noise)) == 100


def test_a_budget_below_twenty_repeats_nothing():
    assert n_distinct(plan_of(noisy(2.0)[0], 19)) == 19


def test_a_point_that_fails_when_it_is_run_again_keeps_its_answer():
    calls = []

    def moody(X):
        calls.extend(map(tuple, X))
        if len(calls) != len(set(calls)):
            raise ValueError("once is enough")
        return wave(X)

    with pytest.warns(UserWarning, match="once is enough"):
        plan = plan_of(moody)
    assert np.isfinite(plan.y).all()
    np.testing.assert_array_equal(plan.y, wave(plan.X))


def three_points():
    X = np.array([[0.1], [0.5], [0.9]])
    seen = Evaluated.at(Box([(0, 1)]), X, np.array([[1.0], [2.0], [6.0]]))
    repeats = Repeats(seen, 1000)
    return repeats, repeats.answered(seen, X[[2, 0]], np.array([[8.0], [1.0]]))


def test_each_point_has_the_mean_of_its_answers_and_the_rest_is_pure_error():
    repeats, seen = three_points()
    assert seen.labels[:, 0].tolist() == [1.0, 2.0, 7.0]
    share, low = repeats.share(np.ones(3, dtype=bool))
    # (1² + 1² + 0) / 2 degrees of freedom over the variance of 1, 2 and 6.
    assert share == pytest.approx(1 / np.var([1, 2, 6]))
    assert 0 < low < share


def test_what_was_run_least_is_run_next_and_even_points_first():
    repeats, _ = three_points()
    assert repeats.wanted(3, np.array([True, True, True])).tolist() == [1, 0]
    assert repeats.wanted(3, np.array([False, False, True])).tolist() == [1, 2]
    assert repeats.wanted(1, np.array([True, True, True])).tolist() == []


def test_pure_error_is_the_variance_of_the_noise_whatever_the_function():
    rng = np.random.default_rng(0)
    X = rng.random((400, 1))
    clean = np.sin(200 * X)
    box = Box([(0, 1)])
    first, again = (clean + 0.3 * rng.standard_normal(X.shape) for _ in range(2))
    repeats = Repeats(Evaluated.at(box, X, first), 800)
    repeats.answered(Evaluated.at(box, X, first), X, again)
    share, low = repeats.share(np.ones(400, dtype=bool))
    assert share == pytest.approx(0.09 / first.var(), rel=0.2)
    assert 0.9 * share < low < share
