"""Laws of the limit on linear algebra's threads: held inside, restored outside, and only for small problems."""

import threading

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info, threadpool_limits

import steep
from steep._blas import SMALL, few_threads, one_blas_thread


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
    steep.VarianceWeightedCV(Watched(), weight_ratio=(1, 5), cv=2, n_repeats=1, random_state=0).fit(
        X, X[:, 0]
    )
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
