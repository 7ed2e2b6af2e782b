import numpy as np
import pytest

from steep import Adaptive, Even, Taylor, Variance, design
from steep.domain import Box
from steep.measures import MEASURES
from steep.sampling.hedge import HALF, MOST, NONE, choose_share, split
from steep.sampling.pool import EvenSequence, among
from steep.sampling.process import KERNELS, fit


def plane(X):
    return X @ np.arange(1.0, X.shape[1] + 1)


def front(X):
    return np.tanh(20 * (X[:, 0] - 0.6))


def shares(function, d, n_even, placed, seed=0):
    """What is decided after an even start and some placed runs."""
    box = Box([(0, 1)] * d)
    sequence = EvenSequence(box, seed)
    X = np.vstack([sequence.first(n_even), placed])
    is_even = np.arange(len(X)) < n_even
    return choose_share(X, function(X)[:, None], is_even, sequence.first(512), np.random.default_rng(seed))


@pytest.mark.parametrize(("d", "width"), [(2, 0.06), (3, 0.17)])
def test_runs_placed_at_a_peak_pay(d, width):
    peak = lambda X: np.exp(-(((X - 0.4) / width) ** 2).sum(axis=1))  # noqa: E731
    placed = 0.4 + 2 * width * (2 * np.random.default_rng(1).random((60, d)) - 1)
    hedge = shares(peak, d, 64, np.clip(placed, 0, 1))
    assert hedge.share == MOST
    assert max(hedge.gains.values()) < 1
    assert "follow the variation:" in hedge.sentence


def test_runs_placed_where_nothing_happens_are_followed_no_further():
    # Curved everywhere: runs that crowd a corner are missed elsewhere.
    wave = lambda X: np.sin(5 * X).sum(axis=1)  # noqa: E731
    hedge = shares(wave, 3, 48, 0.15 * np.random.default_rng(1).random((40, 3)))
    assert hedge.share == NONE
    assert "spread evenly" in hedge.sentence


@pytest.mark.parametrize(
    ("smooth", "spread", "wanted"),
    [(0.1, 0.02, HALF), (-0.1, 0.02, NONE), (-0.1, 0.8, HALF), (-0.01, 0.001, HALF)],
    ids=["gains", "loses", "may lose", "loses little"],
)
def test_with_many_inputs_both_surrogates_must_lose(smooth, spread, wanted):
    from steep.sampling.hedge import _decided

    wobble = np.random.default_rng(0).standard_normal(8)
    wobble -= wobble.mean()
    gains = np.array([[-0.2 + 0.02 * wobble, smooth + spread * wobble]] * 2)  # the rough kind loses a fifth
    few, found = (_decided(gains, 100, np.random.default_rng(0), many_inputs=many).share for many in (False, True))
    assert (few, found) == (NONE, wanted)


def test_with_many_inputs_half_of_the_runs_are_placed_at_most():
    from steep.sampling.hedge import _decided

    gains = 0.2 + 0.02 * np.random.default_rng(0).standard_normal((2, 2, 8))
    few, many = (_decided(gains, 100, np.random.default_rng(0), many_inputs=it) for it in (False, True))
    assert (few.share, many.share) == (MOST, HALF)
    assert "follow the variation:" in many.sentence


def test_plans_that_follow_doubt_spread_half_of_their_density():
    floors = [split(8, HALF, number=i, n_coordinates=d, n_runs=99)[1] for d in (4, 5) for i in range(3)]
    assert floors == [None, None, None, 0.5, None, 0.5]


def test_too_few_runs_decide_nothing():
    hedge = shares(plane, 2, 8, np.full((8, 2), 0.5))
    assert (hedge.share, hedge.gains) == (HALF, {})
    assert "8 even and 8 placed runs are too few" in str(hedge)


def test_without_placed_runs_three_inputs_go_on_as_sobol_points_do(monkeypatch):
    import sys

    module = sys.modules["steep.sampling.round"]
    decided = choose_share(
        np.zeros((2, 3)), np.zeros((2, 1)), np.ones(2, bool), np.zeros((1, 3)), np.random.default_rng(0)
    )
    even = type(decided)(NONE, "even", {})
    monkeypatch.setattr(module, "choose_share", lambda *args: even)
    plan = design(front, [(0, 1)] * 3, 40, n_initial=10, random_state=5)
    np.testing.assert_array_equal(plan.X, Box([(0, 1)] * 3).sobol(40, random_state=np.random.default_rng(5)))
    assert plan.is_even.all()


@pytest.mark.parametrize("share", [MOST, HALF, NONE])
@pytest.mark.parametrize("size", [1, 7])
def test_over_many_plans_the_share_is_kept(share, size):
    n_even = [split(size, share, number=i, n_coordinates=4, n_runs=99)[0] for i in range(200)]
    assert min(n_even) >= 0
    assert max(n_even) <= size
    assert np.mean(n_even) / size == pytest.approx(1 - share, abs=0.01)


@pytest.mark.parametrize("kind", KERNELS)
def test_leave_one_out_errors_are_those_of_fits_without_the_run(kind):
    rng = np.random.default_rng(0)
    X = rng.random((25, 2))
    y = np.sin(4 * X[:, :1]) + 0.3 * rng.standard_normal((25, 1))
    found = fit(kind, X, y)
    K = found.kernel(X, X, found.scale)
    others = np.arange(25) != 7
    system = K[np.ix_(others, others)] + found.nugget * np.eye(24)
    solved = np.linalg.solve(system, np.column_stack([y[others], np.ones(24)]))
    mean = solved[:, 0].sum() / solved[:, 1].sum()
    predicted = mean + K[7, others] @ np.linalg.solve(system, y[others] - mean)
    np.testing.assert_allclose(y[7] - predicted, found.errors[7], rtol=1e-5, atol=1e-7)


def test_a_design_says_what_it_chose_and_follows_the_seed():
    plans = [
        design(front, [(0, 1)] * 2, 40, n_initial=16, strategy=Adaptive(rounds=3), random_state=s) for s in (3, 3, 4)
    ]
    np.testing.assert_array_equal(plans[0].X, plans[1].X)
    assert not np.array_equal(plans[0].X, plans[2].X)
    assert plans[0].hedge == plans[1].hedge
    assert str(plans[0].hedge).startswith("The next runs ")
    assert plans[0].is_even[:16].all()
    assert not plans[0].is_even.all()


def test_only_the_default_measure_is_followed_as_far_as_it_pays():
    for strategy in (Adaptive("variance"), Taylor(), Variance(), Even()):
        assert design(front, [(0, 1)], 20, n_initial=12, strategy=strategy, random_state=0).hedge is None
    for strategy in (None, Adaptive("surprise"), Adaptive(MEASURES["surprise"])):
        assert design(front, [(0, 1)], 20, n_initial=12, strategy=strategy, random_state=0).hedge is not None


def test_the_smallest_budgets_work_and_names_and_failures_are_kept():
    def f(u, t):
        if u > 0.9:
            raise ValueError("too fast")
        return {"speed": np.tanh(9 * (u - 0.4)) + t}

    with pytest.warns(UserWarning, match="function failed at"):
        plan = design(f, {"u": (0, 1), "t": (0, 5)}, 16, n_initial=8, random_state=0)
    assert len(plan.X) + len(plan.failed) == 16
    assert list(plan.to_dataframe())[:3] == ["u", "t", "speed"]
    assert len(plan.is_even) == len(plan.X)


def test_points_are_known_to_the_last_digit():
    X = np.random.default_rng(0).random((5, 3))
    assert among(X, X[2:3]).tolist() == [False, False, True, False, False]
    assert not among(X, np.nextafter(X, 1)).any()


def test_a_sequence_goes_on_inside_a_constraint():
    box = Box([(0, 1)] * 2, constraint=lambda X: X.sum(axis=1) < 0.5)
    sequence = EvenSequence(box, 0)
    X = sequence.first(50)
    assert box.contains(X).all()
    np.testing.assert_array_equal(np.vstack([X[:20], sequence.after(30, taken=X[:20])]), X)
    assert sequence.holds(X).all()
