"""Dask clusters whose workers die, whose runs are cancelled or hang, and whose scheduler goes away."""

import os
import threading
from collections import Counter

import numpy as np
import pytest

from campaign_simulators import BOUNDS, dies_afterwards, dies_noted, named, wait_until, wave
from steep.campaign import Campaign
from steep.exceptions import CampaignError, InputTypeError

distributed = pytest.importorskip("distributed")

# The cluster's own: ports in use, clocks, event loops.
pytestmark = pytest.mark.filterwarnings("ignore")


# Functions find these here, in the workers that are threads of this process.
GATE = threading.Event()


def waits(u0, t):
    GATE.wait(60)
    return t


def processes(n_workers=2):
    return distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)


def threads(n_threads=2):
    return distributed.LocalCluster(n_workers=1, threads_per_worker=n_threads, processes=False, dashboard_address=None)


@pytest.mark.slow
def test_a_worker_that_dies_fails_its_own_run_only_and_no_run_is_made_twice(storage, tmp_path, monkeypatch):
    monkeypatch.setenv("STEEP_TEST_FLAGS", str(tmp_path))
    with (
        processes() as cluster,
        distributed.Client(cluster) as client,
        Campaign(BOUNDS, storage=storage, random_state=0) as campaign,
    ):
        campaign.run(dies_noted, 12, executor=client.get_executor(), retries=0)
        failures = campaign.failures()
        starts = Counter((tmp_path / "starts.txt").read_text().splitlines())
        assert campaign.n_failed == len(failures) > 0
        assert campaign.n_done + campaign.n_failed == len(starts) == 12
        assert set(starts.values()) == {1}
        assert (failures.t > 8).all()
        assert set(failures.message) == {"the Dask worker died during this run"}


@pytest.mark.slow
def test_an_answer_outlives_the_worker_that_gave_it(storage, tmp_path, monkeypatch):
    # The campaign looks once a second, the worker is dead after a tenth of one, and its answer with it.
    monkeypatch.setenv("STEEP_TEST_FLAGS", str(tmp_path))
    monkeypatch.setattr("steep.campaign.dask._LOOK", 1.0)
    with (
        processes(1) as cluster,
        distributed.Client(cluster) as client,
        Campaign(BOUNDS, storage=storage, random_state=0) as campaign,
    ):
        campaign.run(dies_afterwards, 2, executor=client, retries=0)
        assert (campaign.n_done, campaign.n_failed) == (2, 0)
        assert len((tmp_path / "starts.txt").read_text().splitlines()) == 2
        assert campaign.y.tolist() == [wave(u0, t) for u0, t in campaign.X]


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_one_error_and_the_same_call_continues(storage):
    with processes() as cluster, distributed.Client(cluster) as client, Campaign(BOUNDS, storage=storage) as campaign:
        closing: list[bool] = []

        def close(campaign):
            if campaign.n_done >= 3 and not closing:
                closing.append(True)
                threading.Thread(target=cluster.close, daemon=True).start()

        with pytest.raises(CampaignError, match=r"the Dask cluster is lost .* it resumes where the journal ends"):
            campaign.run(named, 400, executor=client, stop_when=close)
        assert 3 <= campaign.n_done < 400
        assert campaign.n_failed == 0
        campaign.run(named, 20)
        assert (campaign.n_done, len(campaign.pending)) == (20, 0)


@pytest.fixture
def gate():
    GATE.clear()
    yield GATE
    GATE.set()


# A campaign that looks late finds the answer that the worker has left meanwhile: no one wants it.
@pytest.mark.parametrize("look", [0.01, 1.0])
def test_a_run_that_is_cancelled_from_outside_fails_alone(storage, gate, monkeypatch, look):
    monkeypatch.setattr("steep.campaign.dask._LOOK", look)
    with threads() as cluster, distributed.Client(cluster) as client, Campaign(BOUNDS, storage=storage) as campaign:

        def cancel_one():
            wait_until(lambda: len(client.futures) == 2)
            client.cancel([distributed.Future(next(iter(client.futures)), client)])
            gate.set()

        thread = threading.Thread(target=cancel_one)
        thread.start()
        campaign.run(waits, 6, executor=client.get_executor(), retries=0)
        thread.join(60)
        assert campaign.failures().message.tolist() == ["the run was cancelled from outside"]
        assert (campaign.n_done, campaign.n_failed) == (5, 1)


@pytest.mark.slow
def test_a_cluster_of_several_workers_runs_a_campaign(storage):
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client, Campaign(BOUNDS, storage=storage) as campaign:
        campaign.run(named, 16, executor=client.get_executor())
        assert campaign.n_done == 16
        assert campaign.outputs == ("f", "pid")
        workers = set(campaign.y[:, 1].astype(int))
        assert len(workers) == 2
        assert os.getpid() not in workers


def test_a_retry_on_a_dask_cluster_is_a_new_run(storage, tmp_path, monkeypatch):
    monkeypatch.setenv("STEEP_TEST_FLAGS", str(tmp_path))
    from campaign_simulators import spoils

    with (
        distributed.Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as client,
        Campaign([(0, 1), (0, 1)], storage=storage) as campaign,
    ):
        kept, submit = [], client.submit
        # A result that anybody still holds is not computed again, if Dask takes the call for the same.
        monkeypatch.setattr(client, "submit", lambda *a, **k: kept.append(submit(*a, **k)) or kept[-1])
        campaign.run(spoils, 8, executor=client.get_executor(), retries=1)
        assert (campaign.n_done, len(campaign.failures())) == (8, 8)
        np.testing.assert_allclose(campaign.y, campaign.X.sum(axis=1))


@pytest.mark.slow
def test_a_cluster_without_workers_is_waited_for_and_then_an_error(storage, monkeypatch):
    monkeypatch.setattr("steep.campaign.dask._FIRST_WORKER", 3.0)
    monkeypatch.setattr("steep.campaign.dask._ROLL_CALL", 0.1)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        Campaign(BOUNDS, storage=storage) as campaign,
    ):
        with pytest.raises(CampaignError, match="has had no worker for"):
            campaign.run(wave, 4, executor=client)
        assert len(campaign.failures()) == 0
        threading.Timer(0.5, lambda: cluster.scale(1)).start()
        campaign.run(wave, 4, executor=client)
        assert campaign.n_done == 4


@pytest.mark.slow
def test_a_function_that_cannot_be_sent_is_one_error(storage):
    lock = threading.Lock()
    with threads(1) as cluster, distributed.Client(cluster) as client, Campaign(BOUNDS, storage=storage) as campaign:
        with pytest.raises(InputTypeError, match="function cannot be sent to a Dask worker"):
            campaign.run(lambda u0, t: lock, 4, executor=client)
        assert len(campaign.failures()) == 0
        assert len(campaign.ask(4)) == 4
