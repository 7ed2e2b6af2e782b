"""Laws of the limit on linear algebra's threads: held inside, restored outside, and only for small problems."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info, threadpool_limits

import steep
from steep import _blas
from steep._blas import SMALL, few_threads, one_blas_thread, one_thread


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if set(blas_threads()) != {2}:
            pytest.skip("this BLAS cannot be given two threads")
        yield


def test_small_problems_hold_one_thread_and_large_ones_keep_theirs():
    with few_threads(SMALL):
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {2}
    with few_threads(SMALL + 1):
        assert set(blas_threads()) == {2}


def test_what_was_set_before_is_restored_after_an_error_and_after_nesting():
    with pytest.raises(ZeroDivisionError), one_blas_thread(), one_blas_thread():
        raise ZeroDivisionError
    assert set(blas_threads()) == {2}


class Watched(Ridge):
    """Writes down how many threads its fits had."""

    seen = []

    def fit(self, X, y, sample_weight=None):
        Watched.seen += blas_threads()
        return super().fit(X, y, sample_weight)


def test_a_search_among_small_fits_holds_one_thread():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Watched.seen.clear()
    steep.VarianceWeightedCV(
        Watched(), weight_ratio=(1, 5), cv=2, search=steep.WeightSearch(n_repeats=1), random_state=0
    ).fit(X, X[:, 0])
    assert set(Watched.seen) == {1}
    assert set(blas_threads()) == {2}


def test_another_thread_may_hold_it_at_the_same_time():
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread():
            inside.set()
            leave.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    inside.wait(30)
    with one_blas_thread():
        pass
    leave.set()
    other.join(30)
    assert not other.is_alive()
    assert set(blas_threads()) == {2}


def test_an_inner_hold_does_not_end_the_outer_one():
    with one_blas_thread():
        with one_blas_thread():
            pass
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {2}


def test_a_thread_that_leaves_does_not_end_the_hold_of_another():
    def visit():
        with one_blas_thread():
            pass

    with one_blas_thread():
        other = threading.Thread(target=visit)
        other.start()
        other.join(30)
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {2}


def test_as_a_decorator_it_holds_each_call_and_gives_back_after_an_error():
    @one_blas_thread()
    def fails():
        assert set(blas_threads()) == {1}
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fails()
        assert set(blas_threads()) == {2}


def test_libraries_are_looked_for_once(monkeypatch):
    with one_blas_thread():
        pass
    monkeypatch.setattr(_blas, "ThreadpoolController", None)  # to look again would fail
    with one_blas_thread():
        assert set(blas_threads()) == {1}


def all_threads():
    return {pool["num_threads"] for pool in threadpool_info()}


def test_one_thread_holds_torch_as_well_and_gives_it_back():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            assert all_threads() == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# A process of its own: threadpoolctl lets one thread set limits, and here no other has set one.
OVERLAPPING = """
import threading
import torch
from threadpoolctl import threadpool_info
from steep.nn import HeadSearch, improve

X = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
y = (X[:, 0] > 0).long()
first_inside, second_inside, first_done = (threading.Event() for _ in range(3))

def blas():
    return sorted({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})

def run(measure):
    network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    data = (X[:200], y[:200]), (X[200:], y[200:])
    improve(network, *data, search=HeadSearch((1e-2,), (5.0,), n_neighbors=(5,), measure=measure))

def first(features, labels):
    first_inside.set()
    second_inside.wait(60)
    return features[:, 0] ** 2

def second(features, labels):
    second_inside.set()
    first_done.wait(60)
    return features[:, 0] ** 2

before = blas()
one, two = threading.Thread(target=run, args=(first,)), threading.Thread(target=run, args=(second,))
one.start()
first_inside.wait(60)
two.start()
one.join(60)
first_done.set()
two.join(60)
print(before, blas())
"""


def test_overlapping_calls_of_improve_give_back_what_they_found():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", OVERLAPPING],
        env={**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.stdout == "[2] [2]\n", done.stderr
