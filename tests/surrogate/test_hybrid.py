"""The hybrid: answers are close, the bound holds in any order of calls, and everything the simulator says is kept."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import steep
from steep.surrogate._hybrid import _most_off


def bend(X):
    return np.tanh(6 * (X[:, 0] - 0.5)) + X[:, 1] ** 2


class Counted:
    def __init__(self, function=bend):
        self.function, self.n = function, 0

    def __call__(self, X):
        self.n += len(X)
        return self.function(X)


def fitted(n=120, **options):
    X = np.random.default_rng(0).random((n, 2))
    return steep.Surrogate([(0, 1)] * 2, candidates=["rough", "smooth"], random_state=0, **options).fit(X, bend(X))


def test_most_calls_are_answered_by_the_model_and_answers_are_close():
    simulator = Counted()
    fast = steep.hybrid(simulator, fitted(), tolerance=0.1, risk=0.01, check_share=0.05, random_state=0)
    rng = np.random.default_rng(1)
    off = 0
    for _ in range(60):
        X = rng.random((100, 2))
        off += (np.abs(fast(X) - bend(X)) > 0.1).sum()
    report = fast.report()
    assert report.n_calls == 6000
    assert report.n_model > 4000
    assert simulator.n == report.n_simulated
    assert off / report.n_model <= min(report.bound, 0.02)
    assert report.n_model + report.n_simulated - report.n_checked == report.n_calls
    assert "answered by the model" in str(report)


def test_the_bound_holds_though_the_order_is_chosen_to_do_harm():
    """The caller knows the model and calls where it is off, as often as the model answers there."""
    model = fitted(n=60)
    rng = np.random.default_rng(1)
    wrong = 0
    for seed in range(20):
        fast = steep.hybrid(bend, model, tolerance=0.02, risk=0.01, check_share=0.1, random_state=seed)
        off = 0
        for _ in range(30):
            X = rng.random((200, 2))
            current = fast.model
            far = np.abs(current.predict(X) - bend(X))
            X = X[np.argsort(-far)[:20]]
            n_before = fast.report().n_model
            answers = fast(X)
            off += (np.abs(answers - bend(X)) > 0.02).sum()
            assert fast.report().n_model >= n_before
        # Answers that were checked and found to be off were replaced; the bound counts them too.
        wrong += off + fast.report().n_off > fast.report().bound * fast.report().n_model + 1e-9
    assert wrong <= 3


def test_the_bound_is_wrong_no_more_often_than_it_says_at_any_time():
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        is_off = rng.random(2000) < rng.choice([0.0, 0.01, 0.2])
        found = np.cumsum(is_off & (rng.random(2000) < 0.05))
        bounds = np.array([_most_off(int(k), 0.05, 10**9) for k in range(found[-1] + 1)])[found]
        wrong += (np.cumsum(is_off) > bounds).any()
    assert wrong / 400 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    assert _most_off(0, 0.05, 10**9) < 100


def test_a_model_that_is_wrong_stops_being_used_at_once():
    """The simulator is another function than the model was fitted to; before it is fitted again, checks notice it."""
    other = lambda X: bend(X) + 1  # noqa: E731
    model = fitted()
    fast = steep.hybrid(other, model, tolerance=0.1, check_share=0.15, random_state=0)
    rng = np.random.default_rng(0)
    fast(rng.random((60, 2)))
    n_before = fast.report().n_model
    assert n_before > 40
    assert fast.report().n_off > 2
    X = rng.random((5, 2))
    np.testing.assert_array_equal(fast(X), other(X))
    assert (fast.model, fast.report().n_model) == (model, n_before)


def test_it_learns_where_it_is_called():
    simulator = Counted(lambda X: np.sin(30 * X[:, 0]) + X[:, 1])
    X = np.random.default_rng(0).random((60, 2))
    model = steep.Surrogate([(0, 1)] * 2, candidates=["rough"], random_state=0).fit(X, simulator(X))
    fast = steep.hybrid(simulator, model, tolerance=0.1, risk=0.01, random_state=0)
    fast._patience = 0.0  # fit again whatever it costs
    path = lambda k: np.column_stack([np.full(50, 0.4) + 0.002 * np.arange(50), np.full(50, 0.01 * k)])  # noqa: E731
    counts = []
    for k in range(60):
        before = simulator.n
        fast(path(k % 20))
        counts.append(simulator.n - before)
    assert sum(counts[:10]) > 100
    assert sum(counts[-10:]) < 0.3 * sum(counts[:10])


def test_it_fits_again_only_when_the_simulator_took_longer_than_a_fit():
    rng, changes = np.random.default_rng(0), {}
    for patience in (0.0, 1e9):
        fast = steep.hybrid(bend, fitted(n=40), tolerance=1e-9, random_state=0)
        fast._patience, models = patience, {id(fast.model): fast.model}
        for _ in range(8):
            fast(rng.random((30, 2)))
            models[id(fast.model)] = fast.model
        changes[patience] = len(models) - 1
    assert changes[0.0] >= 3
    # The first fit shows what a fit costs.
    assert changes[1e9] == 1


@pytest.mark.parametrize(
    ("predicting", "simulating", "is_slower"), [(2.0, 1e-3, True), (2.0, 1e3, False), (0.5, 1e-3, False)]
)
def test_the_report_says_when_the_model_takes_longer_than_the_simulator(predicting, simulating, is_slower):
    fast = steep.hybrid(bend, fitted(n=40), tolerance=1e-9, random_state=0)
    fast(np.random.default_rng(0).random((5, 2)))
    fast._predicting, fast._simulating = predicting, simulating
    assert fast.report().is_slower is is_slower
    assert ("call the simulator itself" in str(fast.report())) is is_slower


def test_one_large_call_is_more_than_one_fold():
    fast = steep.hybrid(bend, fitted(n=40), tolerance=1e-9, random_state=0)
    before = fast.model.blends_[0].rmse
    fast(np.random.default_rng(0).random((200, 2)))
    assert fast.model.blends_[0].rmse < 0.5 * before


def test_threads_may_call_it_and_points_outside_are_simulated():
    simulator = Counted()
    fast = steep.hybrid(simulator, fitted(), tolerance=0.1, random_state=0)
    parts = [np.random.default_rng(seed).random((200, 2)) * [1.2, 1.0] for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(fast, parts))
    assert fast.report().n_calls == 1600
    assert simulator.n == fast.report().n_simulated
    for X, y in zip(parts, answers, strict=True):
        outside = X[:, 0] > 1
        np.testing.assert_array_equal(y[outside], bend(X)[outside])


def test_answers_of_the_simulator_are_stored_in_a_campaign():
    with steep.Campaign([(0, 1)] * 2, storage=":memory:") as campaign:
        fast = steep.hybrid(bend, fitted(n=40), tolerance=1e-6, store=campaign, random_state=0)
        X = np.random.default_rng(3).random((5, 2))
        np.testing.assert_array_equal(fast(X), bend(X))
        np.testing.assert_array_equal(campaign.X, X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tolerance": 0}, "tolerance=0 is invalid"),
        ({"tolerance": [1, 2, 3]}, "or one for each output"),
        ({"risk": 0}, "risk=0 is out of range"),
        ({"model": "m"}, "model is a str; expected a steep.Surrogate"),
        ({"model": steep.Surrogate()}, "not fitted yet"),
        ({"store": 3}, "store is a int; expected a Campaign"),
    ],
    ids=["zero", "many", "risk", "model", "unfitted", "store"],
)
def test_settings_that_cannot_work_are_rejected(change, message):
    options = {"model": fitted(n=40), "tolerance": 0.1} | change
    with pytest.raises((ValueError, TypeError), match=message):
        steep.hybrid(bend, **options)


def test_a_simulator_that_changes_its_outputs_is_noticed():
    fast = steep.hybrid(lambda X: np.ones((len(X), 3)), fitted(n=40), tolerance=1e-9, random_state=0)
    with pytest.raises(ValueError, match="simulator returned 3 outputs; the model has 1: y"):
        fast([[0.5, 0.5]])
