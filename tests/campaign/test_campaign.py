import os
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from campaign_functions import BOUNDS, dies, named, raises, sleeps, wave
from steep import SteepError
from steep.campaign import Campaign
from steep.campaign.journal import VERSION
from steep.domain.axes import Category, Integer, Log
from steep.exceptions import CampaignError, InputError, StorageError


@pytest.fixture
def storage(tmp_path):
    return tmp_path / "campaign.db"


@pytest.fixture
def campaign(storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        yield campaign


def test_what_was_told_is_there_when_opened_again(storage):
    with Campaign(BOUNDS, outputs=["f"], storage=storage) as first:
        X = first.ask(5)
        first.tell(X[:3], X[:3].sum(axis=1))
    with Campaign(storage=storage) as again:
        assert again.box == first.box
        np.testing.assert_array_equal(again.X, X[:3])
        np.testing.assert_array_equal(again.y, X[:3].sum(axis=1))
        np.testing.assert_array_equal(again.pending, X[3:])
        assert again.outputs == ("f",)


def test_runs_in_flight_of_a_closed_campaign_are_asked_again_and_those_of_an_open_one_are_not(storage):
    with Campaign(BOUNDS, storage=storage) as first:
        X = first.ask(4)
        with Campaign(storage=storage) as other:
            assert not {tuple(x) for x in other.ask(4)} & {tuple(x) for x in X}
    with Campaign(storage=storage) as again:
        assert {tuple(x) for x in X} <= {tuple(x) for x in again.ask(8)}


def test_points_asked_are_inside_and_all_different(campaign):
    X = np.vstack([campaign.ask(7) for _ in range(6)])
    assert campaign.box.contains(X).all()
    assert len(np.unique(X, axis=0)) == 42


def test_a_campaign_goes_on_with_the_same_stream_after_a_restart(tmp_path):
    def points(path, restart):
        campaign = Campaign(BOUNDS, storage=path, n_initial=8, random_state=3)
        for _ in range(4):
            X = campaign.ask(6)
            campaign.tell(X, [wave(*x) for x in X])
            if restart:
                campaign.close()
                campaign = Campaign(storage=path, n_initial=8)
        X = campaign.X
        campaign.close()
        return X

    np.testing.assert_array_equal(points(tmp_path / "a.db", False), points(tmp_path / "b.db", True))


def test_runs_gather_where_the_function_is_steep(campaign):
    campaign.run(wave, n_initial=20, n_samples=60)
    frame = campaign.to_dataframe()
    placed = frame[frame.origin == "design"]
    assert len(frame) == 80
    assert np.mean(np.abs(placed.u0 - 0.7) < 0.2) > 0.55  # 0.4 by chance


@pytest.mark.parametrize("executor", [None, "threads", "processes"])
def test_every_executor_makes_exactly_the_runs_asked_for(storage, executor):
    with Campaign(BOUNDS, storage=storage) as campaign:
        campaign.run(wave, n_initial=8, n_samples=8, executor=executor, n_workers=2, batch_size=1)
        assert (campaign.n_done, len(campaign.pending)) == (16, 0)
        np.testing.assert_array_equal(campaign.y, [wave(*x) for x in campaign.X])
        campaign.run(wave, n_initial=8, n_samples=8, executor=executor)  # nothing is left to do
        assert campaign.n_done == 16


@pytest.mark.filterwarnings("ignore")  # the cluster's own: ports in use, clocks, event loops
def test_a_dask_cluster_of_several_workers_runs_a_campaign(storage):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client, Campaign(BOUNDS, storage=storage) as campaign:
        campaign.run(named, n_initial=8, n_samples=8, executor=client.get_executor())
        assert campaign.n_done == 16
        assert campaign.outputs == ("f", "pid")
        workers = set(campaign.y[:, 1].astype(int))
        assert len(workers) == 2
        assert os.getpid() not in workers


def test_a_run_that_raises_is_retried_then_given_up_and_listed(campaign):
    campaign.run(raises, n_initial=12, n_samples=12, retries=2)
    failures = campaign.failures()
    assert campaign.n_failed > 0
    assert campaign.n_done + campaign.n_failed == 24
    assert (failures.groupby("run").size() == 3).all()
    assert failures.message.str.contains("ValueError: too late").all()
    assert failures.traceback.str.contains("raise ValueError").all()
    assert (failures.t > 8).all()


def test_where_runs_fail_fewer_are_asked(campaign):
    campaign.run(raises, n_initial=20, n_samples=60, retries=0)
    frame = campaign.to_dataframe()
    placed = frame[frame.origin == "design"]
    assert np.mean(placed.t > 8) < 0.15  # 0.2 by chance, and it would look steep there


@pytest.mark.parametrize(
    ("value", "kind"),
    [(np.nan, "nan"), ([1.0, 2.0], "shape"), ({"other": 1.0}, "shape"), ("text", "exception"), (None, "nan")],
)
def test_an_answer_that_cannot_be_used_is_a_failure(storage, value, kind):
    with Campaign(BOUNDS, outputs=["f"], storage=storage) as campaign:
        campaign.run(lambda u0, t: value if t > 5 else u0, n_initial=8, n_samples=0, retries=0)
        assert set(campaign.failures().kind) == {kind}
        assert campaign.n_done == 8 - campaign.n_failed > 0


def test_a_worker_that_dies_fails_its_own_run_only(campaign):
    campaign.run(dies, n_initial=12, n_samples=0, executor="processes", n_workers=2, retries=0)
    failures = campaign.failures()
    assert len(failures) == campaign.n_failed > 0
    assert (failures.t > 8).all()
    assert failures.message.str.contains("the worker process died").all()
    assert campaign.n_done + campaign.n_failed == 12


def test_a_broken_executor_of_the_callers_says_what_to_do_and_loses_nothing(storage):
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with Campaign(BOUNDS, storage=storage) as campaign:
        with (
            ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool,
            pytest.raises(CampaignError, match="pass executor='processes'"),
        ):
            campaign.run(dies, n_initial=12, n_samples=0, executor=pool)
        n_done = campaign.n_done
        campaign.run(wave, n_initial=12, n_samples=0)
        assert campaign.n_done == 12
        assert n_done < 12


def test_a_run_over_time_is_stopped_and_the_others_finish(campaign):
    campaign.run(sleeps, n_initial=8, n_samples=0, executor="processes", n_workers=2, retries=0, timeout=3.0)
    assert set(campaign.failures().kind) == {"timeout"}
    assert (campaign.failures().t > 8).all()
    assert campaign.n_done + campaign.n_failed == 8


def test_stopping_early_by_runs_time_error_or_choice(tmp_path):
    def run(stop_when, name):
        with Campaign(BOUNDS, storage=tmp_path / f"{name}.db") as campaign:
            campaign.run(lambda u0, t: u0 + t, n_initial=20, n_samples=20, stop_when=stop_when)
            return campaign.n_done

    assert run({"runs": 5}, "runs") == 5
    assert run({"seconds": 0.0}, "seconds") == 0
    assert run(lambda campaign: campaign.n_done >= 3, "choice") == 3
    assert 16 <= run({"error": 1e-3}, "error") < 40  # a plane is foreseen exactly
    with pytest.raises(InputError, match=r"unknown entries \['hours'\]"):
        run({"hours": 1}, "hours")


def test_the_estimated_error_is_judged_on_unseen_results(campaign):
    assert np.isnan(campaign.estimated_error())
    rng = np.random.default_rng(0)
    X = rng.random((60, 2)) * [1, 10]
    campaign.tell(X, rng.standard_normal(60))  # noise: nothing can be foreseen
    assert campaign.estimated_error() > 0.7


def test_foreign_results_are_kept_and_marked(campaign):
    campaign.tell([[0.5, 5.0], [2.0, 5.0]], [1.0, 2.0])
    frame = campaign.to_dataframe()
    assert frame.origin.tolist() == ["foreign", "foreign"]
    assert frame.inside.tolist() == [True, False]
    assert campaign.X.tolist() == [[0.5, 5.0]]
    campaign.run(wave, n_initial=8, n_samples=4)
    assert campaign.n_done == 14  # foreign runs are no part of the budget


def test_a_result_told_twice_counts_once_and_a_different_one_is_refused(campaign):
    X = campaign.ask(2)
    campaign.tell(X, [1.0, 2.0])
    campaign.tell(X, [1.0, 2.0])
    assert campaign.n_done == 2
    with pytest.raises(InputError, match="has another result already; nothing was recorded"):
        campaign.tell([[0.1, 0.1], X[0]], [0.0, 9.0])
    assert campaign.n_done == 2


def test_a_failure_told_by_hand_is_not_asked_again(campaign):
    X = campaign.ask(2)
    campaign.tell_failure(X[:1], "licence expired")
    assert campaign.pending.tolist() == X[1:].tolist()
    assert campaign.failures().message.tolist() == ["licence expired"]
    with pytest.raises(InputError, match="is not pending"):
        campaign.tell_failure([[0.123, 1.0]])


def test_a_failure_told_with_retries_is_asked_again(campaign):
    X = campaign.ask(1)
    campaign.tell_failure(X, retries=1)
    np.testing.assert_array_equal(campaign.ask(1), X)
    campaign.tell_failure(X, retries=1)
    assert campaign.n_failed == 1
    assert campaign.ask(1).tolist() != X.tolist()


def test_a_thread_over_its_time_is_given_up_and_not_waited_for(campaign):
    began = time.monotonic()
    campaign.run(
        lambda u0, t: time.sleep(9 if t > 9 else 0) or t, n_initial=8, n_samples=0, executor="threads",
        n_workers=2, retries=0, timeout=0.5,
    )  # fmt: skip
    assert set(campaign.failures().kind) == {"timeout"}
    assert time.monotonic() - began < 8


def test_a_frame_goes_out_and_comes_back(tmp_path):
    bounds = {"k": Log(1e-3, 1e3), "n": Integer(1, 5), "material": Category("steel", "copper")}

    def f(k, n, material):
        assert isinstance(n, int)
        return {"a": np.log(k) * n, "b": float(material == "steel")}

    with (
        Campaign(bounds, storage=tmp_path / "a.db") as first,
        Campaign(bounds, storage=tmp_path / "b.db") as second,
    ):
        frame = first.run(f, n_initial=16, n_samples=16).to_dataframe()
        assert set(frame.material) == {"steel", "copper"}
        assert set(frame.n) == {1, 2, 3, 4, 5}
        second.load_dataframe(frame)
        np.testing.assert_array_equal(second.X, first.X)
        np.testing.assert_array_equal(second.y, first.y)
        assert second.outputs == ("a", "b")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"u0": [0.1], "f": [1.0]}, r"lacks \['t'\]"),
        ({"u0": [0.1], "t": [1.0]}, "no output columns"),
    ],
)
def test_a_frame_with_wrong_names_is_refused(campaign, frame, message):
    with pytest.raises(InputError, match=message):
        campaign.load_dataframe(pd.DataFrame(frame))
    assert campaign.n_done == 0


def test_a_frame_with_unknown_outputs_is_refused(storage):
    frame = pd.DataFrame({"u0": [0.1], "t": [1.0], "f": [1.0], "g": [2.0]})
    with (
        Campaign(BOUNDS, outputs=["f"], storage=storage) as campaign,
        pytest.raises(InputError, match=r"unknown columns \['g'\]"),
    ):
        campaign.load_dataframe(frame)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"bounds": {"u0": (0.0, 2.0), "t": (0.0, 10.0)}}, "bounds are .* but storage .* has"),
        ({"bounds": {"u": (0.0, 1.0), "t": (0.0, 10.0)}}, "bounds are .* but storage .* has"),
        ({"outputs": ["g"]}, r"outputs are \['g'\] but storage .* has \['f'\]"),
        ({"random_state": 5}, "random_state=5 but storage .* was started with 0"),
    ],
)
def test_a_storage_about_something_else_is_refused(storage, kwargs, message):
    Campaign(BOUNDS, outputs=["f"], storage=storage).close()
    with pytest.raises(InputError, match=message):
        Campaign(**{"storage": storage} | kwargs)
    Campaign(BOUNDS, outputs=["f"], storage=storage).close()


def test_outputs_of_another_number_are_refused_and_the_journal_stays(campaign):
    campaign.tell([[0.1, 0.1]], [[1.0, 2.0]])
    with pytest.raises(InputError, match="y has 1 outputs, need 2"):
        campaign.tell([[0.2, 0.2]], [1.0])
    with pytest.raises(InputError, match="NaN"):
        campaign.tell([[0.2, 0.2]], [[1.0, np.nan]])
    assert campaign.n_done == 1


def test_a_storage_of_a_newer_version_is_refused_and_left_alone(storage):
    Campaign(BOUNDS, storage=storage).close()
    db = sqlite3.connect(storage)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    with pytest.raises(StorageError, match=f"schema version {VERSION + 1}, this steep reads up to {VERSION}"):
        Campaign(storage=storage)


def test_a_file_that_is_no_campaign_says_so(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    with pytest.raises(StorageError, match="file is not a database"):
        Campaign(BOUNDS, storage=path)
    with pytest.raises(InputError, match="holds no campaign yet; pass bounds"):
        Campaign(storage=tmp_path / "new.db")
    with pytest.raises(OSError, match="unable to open"):
        Campaign(BOUNDS, storage=tmp_path / "nowhere" / "new.db")


def test_a_full_disk_says_so_and_nothing_is_lost(storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        X = campaign.ask(4)
        db = campaign.journal._db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        long = np.arange(20_000.0)  # outputs that need more pages than are left
        with pytest.raises(StorageError, match=r"disk is full; need a writable SQLite file with room"):
            campaign.run(lambda u0, t: long, n_initial=5, n_samples=0)
        assert len(campaign.unsaved) == 1
        db.execute("PRAGMA max_page_count = 100000")
        campaign.tell(X[:1], long[None])
        assert campaign.n_done == 2
        assert campaign.unsaved == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes read-only files")
def test_a_read_only_file_says_so(storage):
    Campaign(BOUNDS, storage=storage).close()
    storage.chmod(0o400)
    with pytest.raises(StorageError, match="readonly"):
        Campaign(storage=storage)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"executor": "cluster"}, "executor='cluster' is unknown"),
        ({"executor": 3}, "executor=3 is unknown"),
        ({"timeout": 1.0}, "timeout needs an executor"),
        ({"pass_as": "list"}, "pass_as='list' is unknown"),
        ({"retries": -1}, "retries=-1 is too small"),
        ({"n_initial": 0}, "n_initial=0 is too small"),
        ({"function": 3}, "function is a int; need a callable"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(campaign, kwargs, message):
    with pytest.raises(SteepError, match=message):
        campaign.run(**{"function": wave, "n_initial": 2, "n_samples": 2} | kwargs)
    assert len(campaign.to_dataframe()) == 0


def test_a_list_of_bounds_passes_arrays(storage):
    with Campaign([(0, 1), (0, 1)], storage=storage) as campaign:
        campaign.run(lambda x: x.sum(), n_initial=4, n_samples=2)
        np.testing.assert_allclose(campaign.y, campaign.X.sum(axis=1))


def test_live_sees_every_result_and_the_bar_counts(campaign, capsys):
    seen = []
    campaign.run(wave, n_initial=4, n_samples=2, live=lambda c: seen.append(c.n_done), progress=True)
    assert seen == [1, 2, 3, 4, 5, 6]
    assert "6/6 done, 0 running, 0 failed" in capsys.readouterr().err


def test_the_bar_is_silent_without_a_terminal(campaign, capsys):
    campaign.run(wave, n_initial=2, n_samples=0)
    assert capsys.readouterr().err == ""


def _start(storage, log, n_runs=60):
    here = os.path.dirname(os.path.dirname(__file__))
    command = [
        sys.executable,
        os.path.join(here, "campaign_functions.py"),
        str(storage),
        str(log),
        str(n_runs),
    ]
    return subprocess.Popen(command)


def _kill_often(storage, log, n_kills, seed, n_runs):
    """Start a campaign, kill it at a random moment, start it again; then let it finish."""
    rng = np.random.default_rng(seed)
    for _ in range(n_kills):
        process = _start(storage, log, n_runs)
        # Importing takes a while; kills fall anywhere from opening the file to deep in the runs.
        begun = len(log.read_text().splitlines()) if log.exists() else 0
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            if log.exists() and len(log.read_text().splitlines()) > begun:
                break
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.15))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()


def check_nothing_lost(storage, log, n_kills):
    """Every run whose result was committed was made once; every run asked is done in the end."""
    lines = [line.split() for line in log.read_text().splitlines()]
    done: dict[str, int] = {}
    for i, (what, x) in enumerate(lines):
        assert x not in done, f"a finished run was repeated: {what} in line {i}, told in line {done[x]}"
        if what == "told":
            done[x] = i
    with Campaign(storage=storage) as campaign:
        frame = campaign.to_dataframe()
        assert (frame.state == "done").all()
        kept = {x.tobytes().hex() for x in campaign.X}
        assert set(done) <= kept, "a result was lost"
        started = [x for what, x in lines if what == "start"]
        assert len(started) - len(frame) <= n_kills, "more runs repeated than were in flight"


@pytest.mark.parametrize("n_kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_any_moment_nothing_is_lost_or_repeated(tmp_path, n_kills):
    storage, log = tmp_path / "campaign.db", tmp_path / "log.txt"
    n_runs = 40 + 20 * n_kills  # enough that every kill finds it at work
    _kill_often(storage, log, n_kills, seed=0, n_runs=n_runs)
    assert _start(storage, log, n_runs).wait(timeout=300) == 0
    check_nothing_lost(storage, log, n_kills)


def test_two_processes_share_a_campaign(tmp_path):
    storage, log = tmp_path / "campaign.db", tmp_path / "log.txt"
    first, second = _start(storage, log), _start(storage, log)
    assert first.wait(timeout=120) == second.wait(timeout=120) == 0
    check_nothing_lost(storage, log, 0)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COALESCE(MAX(told_order), 0) + 1 FROM runs",
        "SELECT id, y FROM runs WHERE x = x'00' ORDER BY state = 'done'",
        "SELECT 1 FROM runs WHERE state = 'pending' AND owner IS NOT 'me' LIMIT 1",
        "SELECT x, y, told_order FROM runs WHERE told_order > 5 ORDER BY told_order",
    ],
)
def test_no_frequent_query_reads_the_whole_journal(campaign, query):
    plan = " ".join(row[-1] for row in campaign.journal.rows(f"EXPLAIN QUERY PLAN {query}"))
    assert "USING" in plan
    assert "INDEX" in plan


@pytest.mark.slow
def test_asking_stays_interactive_with_a_hundred_thousand_results(campaign):
    rng = np.random.default_rng(0)
    X = rng.random((100_000, 2)) * [1, 10]
    campaign.tell(X, [wave(*x) for x in X])
    campaign.ask(20)  # the start
    began = time.perf_counter()
    assert len(campaign.ask(1)) == 1
    assert time.perf_counter() - began < 5


def test_a_point_that_another_process_just_asked_is_not_asked_twice(storage, monkeypatch):
    from steep.campaign import asking

    plan, stolen = asking.next_points, []
    with Campaign(BOUNDS, storage=storage, n_initial=1) as first, Campaign(storage=storage) as second:
        first.ask(1)

        def overtaken(*args):
            """Another process commits the first of the points while this one plans."""
            points = plan(*args)
            if not stolen:
                stolen.append(points[:1])
                with second.journal.transaction() as db:
                    second.journal.add(db, points[:1], origin="design", owner=second._owner)
            return points

        monkeypatch.setattr(asking, "next_points", overtaken)
        asked = first.ask(3)
        assert len(asked) == 3
        assert stolen[0][0].tolist() not in asked.tolist()
