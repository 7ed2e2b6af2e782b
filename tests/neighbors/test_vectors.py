"""Laws of the vectors of 16 numbers: squares, lists that stay sorted, bounds of the best, and other processors."""

import os
import subprocess
import sys

import numpy as np
import pytest

from neighbors_oracle import brute_force, engine_graph
from steep.neighbors.kernels.compare import distance
from steep.neighbors.kernels.joins import bound_of_best, join_within, to_scores
from steep.neighbors.kernels.panels import insert
from steep.neighbors.kernels.vectors import LANES
from steep.neighbors.lists import empty_lists


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 7, 8, 9, 31, 32, 33, 40, 64, 71])
def test_squares_are_those_of_float64(n_features, dtype):
    X = np.random.default_rng(n_features).normal(size=(5, n_features)).astype(dtype)
    expected = np.square(X[3].astype(np.float64) - X[1].astype(np.float64)).sum()
    assert distance(X, 3, 1) ** 2 == pytest.approx(expected, rel=1e-14)
    assert distance(X, 2, 2) == 0.0


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 20, 32, 40, 70])
def test_a_list_stays_sorted_and_keeps_the_best(width):
    rng, lists = np.random.default_rng(width), empty_lists(3, width)
    scores = rng.integers(40, size=200).astype(np.float32)  # with ties
    for i, value in enumerate(scores):
        if value < lists.score[1, -1]:
            assert insert(lists.score, lists.index, 1, value, i) == lists.score[1, -1]
    order = np.argsort(scores, kind="stable")[:width]
    np.testing.assert_array_equal(lists.score[1], scores[order])
    np.testing.assert_array_equal(lists.index[1], order)
    assert np.isinf(lists.score[[0, 2]]).all()  # the lists beside it are untouched


@pytest.mark.parametrize("width", [1, 20, 64, 65, 100, 250])
def test_what_is_picked_are_the_wanted_and_not_many_more(width):
    rng = np.random.default_rng(0)
    products, lanes = (rng.random(640).astype(np.float32), np.empty((-(-3 * width // LANES), LANES), np.float32))
    scores = np.float32(1.5) - products
    to_scores(products, np.float32(1.5), lanes)
    np.testing.assert_array_equal(products, scores)
    bound = bound_of_best(lanes, width)
    n_picked = (scores <= bound).sum()
    assert width <= n_picked <= 2 * width + 5


@pytest.mark.parametrize("width", [5, 20, 70, 130])
def test_a_cell_joined_with_itself_is_brute_force(width):
    X = np.random.default_rng(1).normal(size=(450, 11)).astype(np.float32)
    lists = empty_lists(450, width)
    start = np.array([0, 200, 450])
    join_within(X, (X * X).sum(axis=1) / 2, start, np.arange(2), lists.best, np.zeros(1, np.bool_))
    for first, last in [(0, 200), (200, 450)]:
        indices = brute_force(X[first:last].astype(np.float64), width)[1]
        assert (lists.index[first:last] - first == indices).mean() > 0.999  # float32 may turn two that nearly tie


@pytest.mark.parametrize("n_neighbors", [65, 150])
def test_many_neighbours_keep_the_promise(n_neighbors):
    X = np.random.default_rng(2).normal(size=(9_000, 6)).astype(np.float32)
    distances, _, info = engine_graph(
        X, n_neighbors=n_neighbors, include_self=False, algorithm="partitioned", random_state=0, return_info=True
    )  # fmt: skip
    exact = engine_graph(X, n_neighbors=n_neighbors, include_self=False, algorithm="exact")[0]
    assert info.algorithm == "partitioned"
    assert (distances <= exact[:, -1:] * (1 + 1e-6)).mean() >= 0.95


SEARCH = """
import numpy as np
from steep.neighbors import neighbor_graph
from steep.neighbors.kernels.vectors import TILE_PANELS, TILE_ROWS
X = np.random.default_rng(0).normal(size=(9_000, 12)).astype(np.float32)
distances, exact = neighbor_graph(X, n_neighbors=10, recall=1)
found, _, info = neighbor_graph(X, n_neighbors=10, recall=0.9, random_state=0, return_info=True)
kept = (found <= distances[:, -1:] * (1 + 1e-6)).mean() >= 0.9
print(TILE_ROWS, TILE_PANELS, info.algorithm, int(exact.sum()), kept)
"""


@pytest.mark.slow
@pytest.mark.parametrize("features", ["", "+avx,+avx2,+fma,+popcnt,+bmi"])
def test_a_processor_with_smaller_registers_finds_the_same(tmp_path, features):
    asked = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    X = np.random.default_rng(0).normal(size=(9_000, 12)).astype(np.float32)
    exact = engine_graph(X, n_neighbors=10, algorithm="exact")[1]
    done = subprocess.run(
        [sys.executable, "-c", SEARCH], env={**os.environ, **asked}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4", "1", "partitioned", str(int(exact.sum())), "True"]
