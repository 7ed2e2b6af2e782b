"""How a design calls the user's function, and what becomes of points that fail."""

import threading

import joblib
import numpy as np
import pytest

from steep import Adaptive, Category, Integer, SteepError, SteepWarning, design
from steep.domain import Box
from steep.exceptions import FunctionError, InputError
from steep.sampling.simulator import Simulator

BOUNDS = {"u0": (0.0, 1.0), "t": (0.0, 10.0)}
SIZE = {"n_runs": 60, "n_initial": 20, "random_state": 0}


def wave(u0, t):
    return np.tanh(20 * (u0 - 0.7)) * (1 + 0.01 * t)


def array(X):
    return wave(X[:, 0], X[:, 1])


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (wave, {}),
        (lambda t, u0: wave(u0, t), {}),
        (lambda **inputs: wave(**inputs), {}),
        (lambda inputs: wave(inputs["u0"], inputs["t"]), {"pass_as": "mapping"}),
        (lambda x: wave(*x), {"pass_as": "point"}),
        (lambda u0, t: {"f": wave(u0, t)}, {"pass_as": "keywords"}),
    ],
)
def test_a_function_called_in_any_way_gives_the_same_design(function, options):
    plan = design(array, BOUNDS, **SIZE)
    other = design(function, BOUNDS, **SIZE, **options)
    np.testing.assert_allclose(other.X, plan.X)
    np.testing.assert_allclose(other.y, plan.y)
    assert other.n_evaluations == plan.n_evaluations == 60


def test_keywords_are_plain_values_of_every_kind_and_names_reach_the_table():
    def solve(k, n, m):
        assert (type(k), type(n), type(m)) == (float, int, str)
        return {"a": k * n, "b": float(m == "x")}

    bounds = {"k": (0.0, 1.0), "n": Integer(1, 4), "m": Category("x", "y")}
    plan = design(solve, bounds, 18, n_initial=12, random_state=0)
    frame = plan.to_dataframe()
    assert list(frame.columns) == ["k", "n", "m", "a", "b", "is_initial", "is_even"]
    assert (frame.a == frame.k * frame.n).all()
    assert set(frame.m) == {"x", "y"}
    assert frame.is_initial.sum() == 12


def test_a_function_of_one_argument_gets_an_array_unless_told_otherwise():
    plan = design(lambda x: x[:, 0] ** 2, {"x": (0.0, 1.0)}, **SIZE)
    named = design(lambda x: x**2 if x > 0 else 0.0, {"x": (0.0, 1.0)}, **SIZE, pass_as="keywords")
    np.testing.assert_allclose(named.X, plan.X)


def test_a_measure_that_evaluates_the_function_takes_keywords_too():
    plan = design(wave, BOUNDS, **SIZE, strategy=Adaptive("perturbation", rounds=1))
    np.testing.assert_allclose(plan.X, design(array, BOUNDS, **SIZE, strategy=Adaptive("perturbation", rounds=1)).X)


FAILING = {
    "keywords": (lambda u0, t: wave(u0, t) if t < 8 else 1 / 0, {}),
    "a point at a time": (lambda x: wave(*x) if x[1] < 8 else 1 / 0, {"pass_as": "point"}),
    "NaN": (lambda X: np.where(X[:, 1] < 8, array(X), np.nan), {}),
    "infinity": (lambda u0, t: wave(u0, t) if t < 8 else np.inf, {}),
    "all at once": (lambda X: array(X) if X[:, 1].max() < 8 else 1 / 0, {}),
}


@pytest.mark.parametrize("how", FAILING)
def test_points_that_fail_are_left_out_listed_and_kept_clear_of(how):
    function, options = FAILING[how]
    with pytest.warns(SteepWarning, match=r"function failed at \d+ of 60 points, which are left out") as caught:
        plan = design(function, BOUNDS, **SIZE, **options)
    assert caught[0].filename == __file__
    failures = plan.failures()
    assert len(plan.X) + len(failures) == 60
    assert (plan.X[:, 1] < 8).all()
    assert (failures.t >= 8).all()
    assert failures.message.str.contains("ZeroDivisionError|NaN or infinity").all()
    assert plan.is_initial.sum() + (len(failures) - (n_late := len(failures) - (20 - plan.is_initial.sum()))) == 20
    assert n_late < 6  # 8 by chance, and it would look steep there
    np.testing.assert_allclose(plan.y, array(plan.X))


def test_a_round_that_fails_as_a_whole_is_survived():
    calls = []

    def f(X):
        calls.append(len(X))
        if len(calls) == 3:
            return np.full(len(X), np.nan)
        return array(X)

    with pytest.warns(SteepWarning, match="failed at"):
        plan = design(f, BOUNDS, **SIZE)
    assert len(plan.X) + len(plan.failures()) == 60


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lambda u0, t: 1 / 0, {}, r"failed at all 20 points of the start, first at .*: ZeroDivisionError"),
        (lambda u0, t: np.nan, {}, r"failed at all 20 points of the start, first at .*: NaN"),
        (lambda u0, t: "text", {}, "is not an array of numbers"),
        (lambda u0, t: [1.0] if t < 5 else [1.0, 2.0], {}, r"different sizes for different points: \[1, 2\]"),
        (lambda u0, t: [], {}, "different sizes for different points"),
    ],
)
def test_a_function_that_cannot_be_used_is_an_error(function, options, message):
    with pytest.raises(FunctionError, match=message):
        design(function, BOUNDS, **SIZE, **options)


def test_an_error_of_a_function_of_all_points_comes_out_as_it_is():
    def broken(X):
        raise KeyError("mesh")

    with pytest.raises(KeyError, match="mesh"):
        design(broken, BOUNDS, **SIZE)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (lambda a, b: 0.0, {}),
        (wave, {"pass_as": "array"}),
        (lambda u, t: 0.0, {"pass_as": "keywords"}),
        (lambda: 0.0, {"pass_as": "mapping"}),
    ],
)
def test_a_function_that_does_not_take_the_inputs_is_refused_before_it_is_called(function, options):
    with pytest.raises(InputError, match="rename its arguments"):
        design(function, BOUNDS, **SIZE, **options)


def test_outputs_that_change_their_names_fail_and_swapped_ones_are_filed_by_name():
    simulator = Simulator(
        lambda u, t: {"a": u, "b": t} if u < 0.5 else {"b": t, "a": u} if u < 0.8 else {"c": 1.0},
        Box({"u": (0, 1), "t": (0, 1)}),
    )
    X = np.array([[0.1, 1.0], [0.6, 0.5], [0.9, 0.0]])
    points, labels = simulator(X)
    np.testing.assert_array_equal(labels, X[:2])
    np.testing.assert_array_equal(points, X[:2])
    assert simulator.messages == [
        "FunctionError: function returned the outputs ['c'] after ['a', 'b']; expected the same names at every point"
    ]


def test_points_side_by_side_make_the_same_design():
    threads = set()

    def solve(u0, t):
        threads.add(threading.get_ident())
        if u0 < 0.1:
            raise ValueError("too thin")
        return {"f": wave(u0, t)}

    with joblib.parallel_config("threading"), pytest.warns(SteepWarning, match="function failed at"):
        found = design(solve, BOUNDS, **SIZE, n_jobs=2)
    assert threading.get_ident() not in threads
    with pytest.warns(SteepWarning, match="function failed at"):
        expected = design(solve, BOUNDS, **SIZE)
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)
    assert found.messages == expected.messages
    assert found.outputs == expected.outputs == ("f",)


def test_points_of_a_costly_measure_run_side_by_side_too():
    threads = set()

    def solve(x):
        threads.add(threading.get_ident())
        return np.sin(5 * x[0])

    size = {"n_runs": 8, "n_initial": 6, "strategy": Adaptive("perturbation"), "pass_as": "point", "random_state": 0}
    with joblib.parallel_config("threading"):
        found = design(solve, [(0, 1)], n_jobs=2, **size)
    assert threading.get_ident() not in threads
    np.testing.assert_array_equal(found.X, design(solve, [(0, 1)], **size).X)


def test_the_number_of_jobs_is_checked():
    with pytest.raises(SteepError, match="n_jobs"):
        design(wave, BOUNDS, **SIZE, n_jobs=0)
