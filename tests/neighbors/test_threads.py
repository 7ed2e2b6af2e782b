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
from steep.neighbors.threads import threads


def gaussian(n=1_200, d=8):
    return np.random.default_rng(0).normal(size=(n, d))


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_threads_are_restored_after_four_threads_overlap():
    # They enter one after the other and leave in the same order, so that each saw the limit of the one before.
    turns = [threading.Event() for _ in range(9)]
    inside = []

    def search(i):
        assert turns[i].wait(timeout=60)
        with threads(1):
            turns[i + 1].set()
            assert turns[4 + i].wait(timeout=60)
            inside.extend(blas_threads())
        turns[5 + i].set()

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        callers = [threading.Thread(target=search, args=(i,)) for i in range(4)]
        for caller in callers:
            caller.start()
        turns[0].set()
        assert turns[8].wait(timeout=60)
        for caller in callers:
            caller.join(timeout=60)
        assert blas_threads() == before
    assert set(inside) == {1}


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
