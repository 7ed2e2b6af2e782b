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
from threadpoolctl import threadpool_info

from neighbors_oracle import engine_graph
from steep.neighbors import lists
from steep.neighbors.lists import threads


def gaussian(n=1_200, d=8):
    return np.random.default_rng(0).normal(size=(n, d))


# A process of its own: the first thread that ever set a limit may be the only one that can, and here it is ours.
OVERLAPPING = """
import threading
from threadpoolctl import threadpool_info
from steep.neighbors.lists import threads

def blas():
    return {{pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}}

turns, end, inside = [threading.Event() for _ in range(9)], threading.Event(), []

def search(i):
    turns[i].wait(60)
    with threads(1):
        inside.append(blas())
        turns[i + 1].set()
        turns[4 + {leaving}.index(i)].wait(60)
    turns[5 + {leaving}.index(i)].set()
    if {stay}:
        end.wait(60)

before = blas()
callers = [threading.Thread(target=search, args=(i,)) for i in range(4)]
for caller in callers:
    caller.start()
turns[0].set()
assert turns[8].wait(60)
after = blas()
end.set()
for caller in callers:
    caller.join(60)
print(before, inside[0], after, blas())
"""


@pytest.mark.parametrize("stay", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("leaving", [[2, 0, 3, 1], pytest.param([0, 1, 2, 3], marks=pytest.mark.slow)])
def test_blas_threads_are_restored_after_four_threads_overlap(leaving, stay):
    done = subprocess.run(
        [sys.executable, "-c", OVERLAPPING.format(leaving=leaving, stay=stay)],
        env={**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.stdout == "{2} {1} {2} {2}\n", done.stderr


def test_blas_threads_are_restored_and_no_thread_is_left():
    engine_graph(gaussian(), algorithm="exact", n_jobs=2)
    before, running = [pool["num_threads"] for pool in threadpool_info()], threading.active_count()
    engine_graph(gaussian(), algorithm="exact", n_jobs=2)
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
neighbor_graph(X[:9_000], random_state=0, n_jobs={n_jobs})  # compiled
blas = [b["num_threads"] for b in threadpool_info()]
print("searching", flush=True)
try:
    while True:
        neighbor_graph(X, random_state=0, n_jobs={n_jobs})
except KeyboardInterrupt:
    print("threads", threading.active_count(), blas == [b["num_threads"] for b in threadpool_info()])
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
@pytest.mark.parametrize("n_jobs", [2, pytest.param(1, marks=pytest.mark.slow)])
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
        try:
            said, complaints = child.communicate(timeout=100)
        finally:
            child.kill()  # else leaving the block would wait for it
    assert said == "threads 1 True\n", complaints
    assert child.returncode == 0


def test_compilation_is_announced_once(caplog, monkeypatch):
    from numba import njit

    monkeypatch.setattr(lists, "_said", threading.Event())
    with caplog.at_level(logging.INFO, logger="steep.neighbors"), threads(1):
        for constant in (1, 2):
            njit(lambda x, c=constant: x + c)(1.0)
    assert [record.message for record in caplog.records] == [
        "steep: compiling the neighbour kernels; once per machine, about half a minute"
    ]
