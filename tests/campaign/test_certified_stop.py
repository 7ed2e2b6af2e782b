"""A campaign stops at an error that is certified: true, after the initial runs, each look paid for."""

import numpy as np
import pytest
from scipy.stats import qmc

import steep


def front(X):
    return np.tanh(10 * (X[:, 0] - 0.3 - 0.4 * X[:, 1])) * (1 + X[:, 2])


def one(x):
    return front(x[None])[0]


def true_share(model):
    fresh = qmc.Sobol(3, rng=np.random.default_rng(10**6)).random_base2(11)
    return np.sqrt(((model.predict(fresh) - front(fresh)) ** 2).mean()) / front(fresh).std()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    path = tmp_path_factory.mktemp("campaign") / "c.db"
    with steep.Campaign([(0, 1)] * 3, storage=path, n_initial=16, random_state=0) as campaign:
        campaign.run(one, 200, stop_when={"error": 0.25})
        yield campaign


def test_a_stop_is_true_and_after_the_initial_runs(stopped):
    assert stopped.stop_reason.startswith("certified by")
    frame = stopped.to_dataframe()
    assert frame["origin"].value_counts()["check"] >= 20
    assert (frame["origin"] != "check").sum() > 16
    assert stopped.n_done < 200
    assert true_share(stopped.surrogate) <= 0.25


def test_check_runs_are_used_for_nothing_but_the_certificate(stopped):
    checks = {tuple(x) for x in stopped.surrogate.X_check_.tolist()}
    assert not checks & {tuple(x) for x in stopped.surrogate.X_.tolist()}
    seen = stopped._planner.runs(np.random.default_rng(0)).seen.X
    assert not checks & {tuple(x) for x in seen.tolist()}


def test_a_surrogate_of_the_campaign_pays_for_the_looks_before(stopped):
    model = steep.Surrogate(candidates=["rough"], random_state=0).fit(stopped)
    assert model.certificate.independent
    assert model.certificate.n_checks == stopped.surrogate.certificate.n_checks
    assert model.certificate.look == stopped.surrogate.certificate.look + 1


def test_noise_is_never_certified():
    noise = lambda x: float(np.sin(1e6 * x[0]))  # noqa: E731
    with steep.Campaign([(0, 1)] * 2, storage=":memory:", n_initial=12) as campaign:
        campaign.run(noise, 60, stop_when={"error": 0.3})
        assert campaign.stop_reason is None
        assert campaign.n_done == 60


def test_an_error_in_the_units_of_the_output():
    with steep.Campaign([(0, 1)], storage=":memory:", n_initial=10) as campaign:
        campaign.run(lambda x: 1000 * np.sin(3 * x[0]), 100, stop_when={"absolute_error": 50.0})
        assert campaign.surrogate.certificate.outputs[0].bound <= 50
