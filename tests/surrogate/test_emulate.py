"""From a simulator to a certified surrogate: claims are true, budgets hold, and what cannot be certified is said."""

import numpy as np
import pytest
from scipy.stats import qmc

import steep
from steep.sampling.simulator import Simulator
from steep.surrogate import Certificate
from steep.surrogate._emulate import Checks
from steep.surrogate.certificate import mean_bound


def front(X):
    return np.tanh(10 * (X[:, 0] - 0.3 - 0.4 * X[:, 1])) * (1 + X[:, 2])


def true_share(model, function, d):
    fresh = qmc.Sobol(d, rng=np.random.default_rng(10**6)).random_base2(11)
    truth = function(fresh)
    return float(np.sqrt(((model.predict(fresh) - truth) ** 2).mean()) / truth.std())


@pytest.mark.parametrize("seed", range(3))
def test_a_claim_is_true_and_made_after_the_initial_runs(seed):
    """A front on which an estimate after every run stops six of six campaigns too early."""
    model = steep.emulate(front, [(0, 1)] * 3, tolerance=0.2, max_runs=250, random_state=seed)
    assert model.certificate.reached(0.2)
    assert true_share(model, front, 3) <= 0.2
    assert model.certificate.n_runs - model.certificate.n_checks > 16
    assert model.stop_reason.startswith("certified after")


def test_what_cannot_be_certified_is_said():
    noise = lambda X: np.sin(1e6 * X[:, 0])  # noqa: E731
    with pytest.warns(steep.SteepWarning, match="not certified within 60 runs"):
        model = steep.emulate(noise, [(0, 1)] * 2, tolerance=0.1, max_runs=60, random_state=0)
    assert model.certificate.n_runs == 60
    assert model.certificate.worst() > 0.5


def test_the_tolerance_may_be_in_the_units_of_the_output():
    scaled = lambda X: 1000 * np.sin(3 * X[:, 0])  # noqa: E731
    model = steep.emulate(scaled, [(0, 1)], tolerance=20.0, max_runs=100, absolute=True, random_state=0)
    assert model.certificate.outputs[0].bound <= 20


def test_the_same_seed_gives_the_same_surrogate():
    first, again = (steep.emulate(front, [(0, 1)] * 3, 0.4, 60, random_state=1) for _ in range(2))
    np.testing.assert_array_equal(first.X_, again.X_)
    assert first.certificate == again.certificate


def test_runs_that_fail_are_left_out():
    def fails(X):
        y = np.sin(3 * X[:, 0]) + X[:, 1]
        y[X[:, 0] > 0.9] = np.nan
        return y

    with pytest.warns(steep.SteepWarning, match="function failed at"):
        model = steep.emulate(fails, [(0, 1)] * 2, tolerance=0.1, max_runs=150, random_state=0)
    assert (model.X_[:, 0] <= 0.9).all()
    assert (model.X_check_[:, 0] <= 0.9).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_runs": 20}, "max_runs=20 is too small for 3 inputs; expected at least 36"),
        ({"tolerance": 0.0}, "tolerance=0.0 is out of range"),
        ({"strategy": steep.Taylor()}, "taylor"),
    ],
    ids=["budget", "tolerance", "strategy"],
)
def test_settings_that_cannot_work_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        steep.emulate(front, [(0, 1)] * 3, **options)


def test_a_simulator_that_changes_its_outputs_is_noticed():
    calls = []

    def changes(X):
        calls.append(1)
        return np.ones((len(X), 1 + (len(calls) > 2))) * X[:, :1]

    with pytest.raises(ValueError, match="expected the same number everywhere"):
        steep.emulate(changes, [(0, 1)] * 2, max_runs=100, random_state=0)


def test_the_bound_of_a_mean_is_wrong_no_more_often_than_it_says():
    """Rare large errors: 3 % of the domain has errors of one, which half of the samples of 23 miss."""
    rng = np.random.default_rng(0)
    for n in (10, 23):
        wrong = [mean_bound((rng.random(n) < 0.03).astype(float), 1.0, 0.05) < 0.03 for _ in range(150)]
        assert np.mean(wrong) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)


def test_further_looks_cost():
    errors = np.abs(np.random.default_rng(0).standard_normal((40, 1)))
    from steep.surrogate.certificate import certify

    bounds = [
        certify(
            errors, np.ones(40), np.array([[3.0], [9.0]]), np.ones(1), ["y"], n_runs=99, look=k, independent=True
        ).worst()
        for k in (1, 2, 5)
    ]
    assert bounds[0] < bounds[1] < bounds[2]


def test_the_percentile_is_the_order_statistic_of_the_binomial_distribution():
    from steep.surrogate.certificate import certify

    few, enough = (
        certify(
            np.arange(float(n))[:, None],
            np.ones(n),
            np.zeros((2, 1)),
            np.ones(1),
            ["y"],
            n_runs=99,
            look=1,
            independent=True,
        )
        for n in (58, 59)
    )
    assert isinstance(few, Certificate)
    assert few.outputs[0].percentile is None
    assert enough.outputs[0].percentile == 58.0
    assert enough.share_unseen == pytest.approx(1 - 0.05 ** (1 / 59))


def test_weights_undo_that_check_runs_are_drawn_where_errors_are_expected():
    """The weighted mean of any function is that over the domain, and half of it is drawn evenly."""
    X = np.random.default_rng(0).random((60, 3))
    model = steep.Surrogate([(0, 1)] * 3, candidates=["rough"], random_state=0).fit(X, front(X))
    checks = Checks(Simulator(front, model.box), np.random.default_rng(1), 1)
    checks.draw(4000, model)
    drawn, weights = checks.X, checks.weights
    fresh = np.random.default_rng(2).random((4000, 3))
    squares, even = ((front(at) - model.predict(at)) ** 2 for at in (drawn, fresh))
    assert weights.mean() == pytest.approx(1.0, abs=0.05)
    assert weights.max() <= 2.0
    assert np.mean(weights * squares) == pytest.approx(even.mean(), rel=0.15)
    assert np.std(weights * squares) < 0.8 * np.std(even)
    assert np.mean(weights * drawn[:, 0]) == pytest.approx(0.5, abs=0.03)
