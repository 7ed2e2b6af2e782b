"""Laws of the threads: nothing is left behind, whoever else is searching."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from steep.neighbors import neighbor_graph
from steep.neighbors import threads as parallel
from steep.neighbors.threads import one_blas_thread, threads


def gaussian(n=1_200, d=8):
    return np.random.default_rng(0).normal(size=(n, d))


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_threads_are_restored_after_calls_that_overlap():
    # The first to enter leaves first: the one still inside must neither lose the limit nor set it for good.
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_blas_threads_are_restored_after_four_threads_search_at_once():
    X, barrier = gaussian(), threading.Barrier(4)
    neighbor_graph(X, algorithm="exact")  # compiled

    def search():
        for _ in range(5):
            barrier.wait(timeout=60)
            neighbor_graph(X, algorithm="exact")

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        callers = [threading.Thread(target=search) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(timeout=120)
        assert blas_threads() == before


def test_blas_threads_are_restored_and_no_thread_is_left():
    neighbor_graph(gaussian(), algorithm="exact", n_jobs=2)
    before, running = [pool["num_threads"] for pool in threadpool_info()], threading.active_count()
    neighbor_graph(gaussian(), algorithm="exact", n_jobs=2)
    assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert threading.active_count() == running


def test_an_interrupt_ends_every_thread():
    running = threading.active_count()
    teams = []

    def interrupted():
        with threads(2) as team:
            teams.append(team)
            team.each(lambda piece: None, range(4))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert teams[0].stop[0]
    assert threading.active_count() == running


INTERRUPTED = """
import threading
import numpy as np
from threadpoolctl import threadpool_info
from steep.neighbors import neighbor_graph

X = np.random.default_rng(0).normal(size=(60_000, 24)).astype(np.float32)
neighbor_graph(X[:3_000], algorithm="partitioned", random_state=0, n_jobs={n_jobs})  # compiled
blas = [b["num_threads"] for b in threadpool_info()]
print("searching", flush=True)
try:
    while True:
        neighbor_graph(X, algorithm="partitioned", random_state=0, n_jobs={n_jobs})
except KeyboardInterrupt:
    print("threads", threading.active_count(), blas == [b["num_threads"] for b in threadpool_info()])
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_ends_the_search_and_leaves_nothing_behind(n_jobs):
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.format(n_jobs=n_jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout.readline() == "searching\n"
        time.sleep(0.7)  # somewhere in the middle of the work
        child.send_signal(signal.SIGINT)
        said, complaints = child.communicate(timeout=100)
    assert said == "threads 1 True\n", complaints
    assert child.returncode == 0


def test_compilation_is_announced_once(caplog, monkeypatch):
    from numba import njit

    monkeypatch.setattr(parallel, "_said", threading.Event())
    with caplog.at_level(logging.INFO, logger="steep.neighbors"), parallel.announced_compilation():
        for constant in (1, 2):
            njit(lambda x, c=constant: x + c)(1.0)
    assert [record.message for record in caplog.records] == [
        "steep: compiling the neighbour kernels; once per machine, about half a minute"
    ]
