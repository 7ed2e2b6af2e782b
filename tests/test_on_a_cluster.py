"""Searches and designs on a Dask cluster of several processes, through joblib: the same results as without."""

import os
import signal
import threading
import time

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

import steep
from steep.campaign import Campaign
from steep.exceptions import FunctionError

distributed = pytest.importorskip("distributed")

# The cluster's own: ports in use, clocks, event loops.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

BOUNDS = {"u0": (0.1, 1.0), "t": (0.0, 5.0)}


@pytest.fixture(scope="module")
def client():
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        yield client


def workers_of(client):
    return set(client.run(os.getpid).values())


def meeting(folder):
    """A call that leaves the number of its process, and waits until a second process has come, a minute at most.

    Made here, so that it travels by value.
    """

    def meet():
        (folder / str(os.getpid())).touch()
        last = time.monotonic() + 60
        while len(os.listdir(folder)) < 2 and time.monotonic() < last:
            time.sleep(0.05)

    return meet


def seen_in(folder):
    """Processes that left their number in a folder."""
    return {int(file.name) for file in folder.iterdir()}


def test_a_search_of_weights_runs_on_the_workers_and_finds_the_same(client, tmp_path):
    X, y = make_classification(300, 5, random_state=0)
    meet = meeting(tmp_path)

    def noted(estimator, X, y):
        meet()
        return accuracy_score(y, estimator.predict(X))

    def fitted():
        model = steep.VarianceWeightedCV(LogisticRegression(), weight_ratio=(1, 5), cv=4, scoring=noted, random_state=0)
        return model.fit(X, y)

    with joblib.parallel_config("dask"):
        found = fitted()
    assert seen_in(tmp_path) <= workers_of(client)
    assert len(seen_in(tmp_path)) == 2
    expected = fitted()
    assert os.getpid() in seen_in(tmp_path)
    assert str(found.verdict_) == str(expected.verdict_)
    np.testing.assert_array_equal(found.sample_weight_, expected.sample_weight_)
    for name, column in expected.cv_results_.items():
        np.testing.assert_array_equal(found.cv_results_[name], column)


def test_a_design_runs_on_the_workers_and_is_the_same(client, tmp_path):
    meet = meeting(tmp_path)

    def simulate(u0, t):
        meet()
        if u0 < 0.2:
            raise ValueError("too thin")
        return {"f": u0 * 2.0**-t}

    def designed():
        return steep.design(simulate, BOUNDS, 32, n_initial=16, strategy=steep.Adaptive(rounds=2), random_state=0)

    with joblib.parallel_config("dask"):
        found = designed()
    assert seen_in(tmp_path) <= workers_of(client)
    assert len(seen_in(tmp_path)) == 2
    expected = designed()
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)
    np.testing.assert_array_equal(found.failed, expected.failed)
    assert found.messages == expected.messages
    assert set(found.messages) == {"ValueError: too thin"}
    assert found.outputs == ("f",)


def test_a_measure_that_costs_runs_costs_them_on_the_workers(client, tmp_path):
    meet = meeting(tmp_path)

    def simulate(x):
        meet()
        return float(np.sin(5 * x[0]))

    def designed():
        return steep.design(
            simulate,
            [(0, 1)],
            10,
            n_initial=6,
            strategy=steep.Adaptive("perturbation"),
            random_state=0,
            pass_as="point",
        )

    with joblib.parallel_config("dask"):
        found = designed()
    assert seen_in(tmp_path) <= workers_of(client)
    np.testing.assert_array_equal(found.X, designed().X)


def test_an_error_that_cannot_travel_is_told_by_its_words(client):
    class Stuck(Exception):  # noqa: N818
        def __init__(self):
            super().__init__("no way home")
            self.lock = threading.Lock()

    def simulate(u0, t):
        raise Stuck

    with joblib.parallel_config("dask"), pytest.raises(FunctionError, match="Stuck: no way home"):
        steep.design(simulate, BOUNDS, 6, n_initial=4, random_state=0)


def test_a_worker_that_dies_in_a_design_is_replaced_and_the_design_is_the_same(client, tmp_path):
    def simulate(u0, t):
        try:
            os.close(os.open(tmp_path / "died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return u0 * 2.0**-t
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    def designed():
        return steep.design(simulate, BOUNDS, 12, n_initial=8, random_state=0)

    before = workers_of(client)
    with joblib.parallel_config("dask"):
        found = designed()
    assert (tmp_path / "died").exists()
    client.wait_for_workers(2, timeout=120)
    assert workers_of(client) != before
    np.testing.assert_array_equal(found.y, designed().y)


def test_a_campaign_runs_on_the_same_cluster(client, tmp_path):
    def simulate(u0, t):
        return {"f": u0 * 2.0**-t, "pid": float(os.getpid())}

    with Campaign(BOUNDS, storage=tmp_path / "runs.db", random_state=0) as campaign:
        campaign.run(simulate, 12, executor=client.get_executor())
        assert campaign.n_done == 12
        assert set(campaign.y[:, 1].astype(int)) <= workers_of(client)


def test_a_cluster_without_workers_is_an_error_and_not_a_wait():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask", wait_for_workers_timeout=1),
        pytest.raises(Exception, match=r"[Nn]o worker"),
    ):
        steep.design(lambda u0, t: u0 * t, BOUNDS, 6, n_initial=4)
