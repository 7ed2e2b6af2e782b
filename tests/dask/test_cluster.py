"""Real workers, which are killed; runs that are cancelled or killed and begun again; what they leave behind."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from large_data import SMALL, blobs
from steep.dask import sample_weights

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

# The cluster's own: ports in use, clocks, event loops.
pytestmark = pytest.mark.filterwarnings("ignore")


def processes(n_workers):
    return distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)


def until(is_so, seconds=120):
    """Wait for something to come true, and fail when it does not."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


@pytest.fixture
def files(tmp_path, request):
    X, y = blobs(12_000 if request.node.get_closest_marker("slow") else 6_000)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    with dask.config.set({**SMALL, "temporary-directory": str(tmp_path / "scratch")}):
        yield tmp_path


def weigh(folder, **how):
    return sample_weights(folder / "x.npy", folder / "y.npy", n_neighbors=8, **how)


def left(folder):
    """Files in temporary folders."""
    return list(folder.glob("scratch/steep-dask-*/*"))


@pytest.mark.slow
def test_a_stage_that_failed_is_the_only_one_repeated(files, monkeypatch):
    from steep.dask import lazy

    expected = weigh(files).compute(scheduler="synchronous")

    def fails_late(plan, group, *arguments):
        if group == 2:
            raise OSError("the disk is full")
        return lazy_join(plan, group, *arguments)

    lazy_join = lazy.join_group
    monkeypatch.setattr(lazy, "join_group", fails_late)
    with pytest.raises(OSError, match="disk is full"):
        weigh(files, checkpoint=files / "run").compute(scheduler="synchronous")
    monkeypatch.undo()
    before = {path.name: path.stat().st_mtime_ns for path in (files / "run").glob("*.np[yz]")}
    assert "atlas.npz" in before
    assert "joined-2.npz" not in before
    resumed = weigh(files, checkpoint=files / "run").compute(scheduler="synchronous")
    after = {path.name: path.stat().st_mtime_ns for path in (files / "run").glob("*.np[yz]")}
    assert (resumed == expected).all()
    assert "joined-2.npz" in after
    assert all(after[name] == stamp for name, stamp in before.items())


def test_without_a_cluster_the_files_go_with_the_result(files):
    weights = weigh(files)
    weights.compute(scheduler="synchronous")
    assert left(files)
    del weights
    gc.collect()
    assert not list(files.glob("scratch/steep-dask-*"))


@pytest.mark.slow
def test_weights_are_the_same_for_any_number_of_workers_and_when_one_is_killed(files):
    expected = weigh(files).compute(scheduler="synchronous")
    with processes(2) as cluster, distributed.Client(cluster) as client:
        assert (weigh(files).compute() == expected).all()
        weights = weigh(files)
        future = client.compute(weights)
        until(lambda: any(path.name.startswith("group-") for path in left(files)))
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        assert (future.result(timeout=240) == expected).all()


@pytest.mark.slow
def test_a_result_may_be_dropped_while_it_is_computed(files):
    expected = weigh(files).compute(scheduler="synchronous")
    with processes(1) as cluster, distributed.Client(cluster) as client:
        future = client.compute(weigh(files))
        gc.collect()
        assert (future.result(timeout=240) == expected).all()


@pytest.mark.slow
def test_a_killed_client_continues_from_its_checkpoint(files):
    code = [sys.executable, str(Path(__file__).with_name("killed_client.py")), str(files), "1 MiB"]
    checkpoint = files / "checkpoint"
    run = subprocess.Popen(code, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        until(lambda: list(checkpoint.glob("group-1.npz")), 240)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait(60)
    done = {path: path.stat().st_mtime_ns for path in checkpoint.glob("*.npz")}
    assert done
    assert not (files / "weights.npy").exists()
    subprocess.run(code, timeout=280, check=True, stderr=subprocess.DEVNULL)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in done.items())
    expected = weigh(files).compute(scheduler="synchronous")
    assert (np.load(files / "weights.npy") == expected).all()
