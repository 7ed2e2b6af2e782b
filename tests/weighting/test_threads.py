"""Linear algebra of a search is held to one thread, and who is loaded is not asked anew each time."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from steep._blas import SMALL
from steep.weighting import threads
from steep.weighting.threads import one_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize(("n_numbers", "inside"), [(SMALL, 1), (SMALL + 1, 2)])
def test_several_threads_are_held_to_one_for_small_problems(n_numbers, inside):
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS cannot be given two threads")
        with one_thread(n_numbers):
            assert blas_threads() == {inside}
        assert blas_threads() == {2}


def test_libraries_are_looked_for_once(monkeypatch):
    np.ones((2, 2)) @ np.ones(2)
    with threadpool_limits(1, user_api="blas"):
        with one_thread(1):
            pass
        monkeypatch.setattr(threads, "ThreadpoolController", None)  # to look again would fail
        with one_thread(1):
            assert blas_threads() == {1}
