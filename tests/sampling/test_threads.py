"""Planning uses one thread of linear algebra, and the user's own code keeps all of its threads."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from steep import Adaptive, Box, Campaign, Taylor, design

JOBS = """
import json, os, time, warnings
import numpy as np
import scipy.linalg

HELPERS = [task for task in os.listdir("/proc/self/task") if int(task) != os.getpid()]  # of linear algebra

import steep
from steep.measures.surprise import surprise_variation

warnings.simplefilter("ignore")

def status(task):
    with open(f"/proc/self/task/{task}/status") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}

def sleeps():
    "How often each thread of linear algebra went to sleep, once all of them sleep: one more for each that was woken."
    while any(not status(task)["State"].startswith("S") for task in HELPERS):
        time.sleep(0.01)
    return [int(status(task)["voluntary_ctxt_switches"]) for task in HELPERS]

def front(X):
    return np.tanh(9 * (X[:, 0] - 0.3 - 0.4 * X[:, 1])) * (1 + X[:, 2])

def campaign():
    campaign = steep.Campaign([(0, 1)] * 3, storage=":memory:")
    campaign.tell(U[:200, :3], front(U[:200]))
    for _ in range(4):
        campaign.tell(X := campaign.ask(2), front(X))

U = np.random.default_rng(0).random((1000, 8))
JOBS = {
    "design of 3 inputs": lambda: steep.design(front, [(0, 1)] * 3, 150, n_initial=40, random_state=0),
    "design of 8 inputs": lambda: steep.design(front, [(0, 1)] * 8, 120, n_initial=60, random_state=0),
    "paper": lambda: steep.design(front, [(0, 1)] * 3, 198, n_initial=99, strategy=steep.Taylor(), random_state=0),
    "doubt": lambda: steep.design(
        front, [(0, 1)] * 5, 220, n_initial=200, strategy=steep.Adaptive(rounds=4), random_state=0
    ),
    "campaign": campaign,
    "surprise": lambda: surprise_variation(U, front(U)),
}
JOBS["a product without a limit"] = lambda: np.ones((1000, 1000)) @ np.ones((1000, 1000))
woken = []
for name, job in JOBS.items():
    before = sleeps()
    job()
    if sleeps() != before:
        woken.append(name)
print(json.dumps([len(HELPERS), woken]))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads the states of threads from /proc")
def test_no_second_thread_works_on_a_plan():
    done = subprocess.run(
        [sys.executable, "-c", JOBS],
        env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2"),
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    n_helpers, woken = json.loads(done.stdout)
    if not n_helpers:
        pytest.skip("this BLAS starts no threads of its own")
    assert woken == ["a product without a limit"]


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS cannot be given two threads")
        yield


class Spy:
    """Notes how many threads linear algebra has whenever the user's code is called."""

    def __init__(self, function):
        self.function, self.seen = function, set()

    def __call__(self, *values, **named):
        self.seen |= blas_threads()
        return self.function(*values, **named)


def wave(X):
    return np.sin(5 * X[:, 0]) + X[:, 1] ** 2


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strategy": Adaptive("taylor")},
        {"strategy": Adaptive("perturbation")},
        {"strategy": Taylor()},
        {"pass_as": "point"},
    ],
    ids=str,
)
def test_the_function_of_a_design_keeps_its_threads(two_threads, options):
    spy = Spy(wave if "pass_as" not in options else lambda x: x.sum())
    design(spy, [(0, 1)] * 2, 32, n_initial=16, random_state=0, **options)
    assert spy.seen == {2}
    assert blas_threads() == {2}


def test_constraints_and_measures_of_the_user_keep_their_threads(two_threads):
    allowed, measure = Spy(lambda X: X[:, 0] < 0.9), Spy(lambda X, y: np.abs(y))
    design(wave, [(0, 1)] * 2, 32, n_initial=16, strategy=Adaptive(measure), constraint=allowed, random_state=0)
    assert allowed.seen == measure.seen == {2}


def test_the_function_and_the_rule_of_a_campaign_keep_their_threads(two_threads):
    run, stop = Spy(lambda x: x.sum() ** 2), Spy(lambda campaign: False)
    with Campaign(Box([(0, 1)] * 2), storage=":memory:") as campaign:
        campaign.run(run, 24, stop_when=stop)
    assert run.seen == stop.seen == {2}


def test_a_function_that_fails_leaves_the_threads_as_they_were(two_threads):
    def half(X):
        if len(X) < 16:
            raise KeyboardInterrupt
        return wave(X)

    with pytest.raises(KeyboardInterrupt), warnings.catch_warnings():
        design(half, [(0, 1)] * 2, 32, n_initial=16, random_state=0)
    assert blas_threads() == {2}


CPU_SECONDS = """
import os
import numpy as np
import steep

def front(X):
    return np.tanh(10 * (X[:, 0] - 0.3 - 0.4 * X[:, 1])) * (1 + X[:, 2])

def seconds():
    return sum(os.times()[:2])

steep.design(front, [(0, 1)] * 3, 14, n_initial=10, random_state=0)
began = seconds()
steep.design(front, [(0, 1)] * 3, 150, n_initial=38, random_state=0)
designed = seconds() - began
campaign = steep.Campaign([(0, 1)] * 3, storage=":memory:")
X = steep.Box([(0, 1)] * 3).sobol(150, random_state=0)
campaign.tell(X, front(X))
campaign.ask(2)
began = seconds()
for _ in range(20):
    campaign.ask(2)
print(designed, (seconds() - began) / 20)
"""


@pytest.mark.slow
def test_default_threads_take_the_cpu_seconds_of_one_on_a_busy_machine():
    """Each core runs a busy process; CPU seconds of a design of 150 runs and of ask(2), the least of three."""
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)]
    usual = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    found = {"default": [], "one": []}
    try:
        for _ in range(3):
            for name, more in (("default", {}), ("one", {"OMP_NUM_THREADS": "1"})):
                done = subprocess.run(
                    [sys.executable, "-c", CPU_SECONDS], env=usual | more, capture_output=True, text=True, check=True
                )  # fmt: skip
                found[name].append([float(value) for value in done.stdout.split()])
    finally:
        for other in others:
            other.kill()
            other.wait()
    default, one = (np.min(found[name], axis=0) for name in ("default", "one"))
    assert (default <= 1.2 * one).all(), (default, one)
