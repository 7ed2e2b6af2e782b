"""Exact engines are exact on any finite data; every odd input works or is rejected by a SteepError."""

import warnings

import numpy as np
import pytest

import steep
from neighbors_oracle import NASTY, brute_force, engine_graph, shares_found
from steep.exceptions import SteepError
from steep.neighbors import exact, graph

ENGINES = ["brute", "tree", "exact", "cells"]


@pytest.fixture
def any_size(monkeypatch):
    """Every engine whatever the size of the data."""

    def choose(engine):
        monkeypatch.setattr(graph, "SMALL", 10**9 if engine == "brute" else 0)
        if engine == "cells":
            monkeypatch.setattr(exact, "WORTHWHILE", 0)
            monkeypatch.setattr(exact, "CELL", 40)
            monkeypatch.setattr(exact, "LARGE_SHARE", np.inf)
        return {"brute": "auto", "cells": "exact"}.get(engine, engine)

    return choose


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", NASTY)
def test_exact_engines_are_exact_on_any_finite_data(shape, engine, any_size):
    algorithm = any_size(engine)
    for seed, (n, d, k) in enumerate([(600, 5, 9), (300, 2, 3), (40, 3, 39), (2, 1, 1)]):
        X = NASTY[shape](np.random.default_rng(seed), n, d)
        X = np.asfortranarray(X) if seed % 2 else X
        distances, indices = engine_graph(X, n_neighbors=k, include_self=False, algorithm=algorithm)
        rows = np.arange(0, n, max(1, n // 60))
        assert (shares_found(X, indices, rows) == 1).all()
        true_distances, _ = brute_force(X, k, rows=rows)
        np.testing.assert_allclose(distances[rows], true_distances, rtol=3e-7, atol=1e-44)
        assert all(len(set(row)) == k for row in indices)
        assert (indices != np.arange(n)[:, None]).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_distances_beyond_float32_come_in_their_true_order(engine, any_size):
    X = 1e60 * np.random.default_rng(0).normal(size=(500, 3))
    distances, indices = engine_graph(X, n_neighbors=6, include_self=False, algorithm=any_size(engine))
    assert (distances == np.finfo(np.float32).max).all()
    np.testing.assert_array_equal(indices, brute_force(X, 6)[1])


@pytest.mark.parametrize("algorithm", ["tree", "exact"])
def test_equal_points_are_the_first_of_their_kind(algorithm):
    n = 20_000  # one by one, that many comparisons with each other would take a quarter of a minute
    _, indices = engine_graph(np.full((n, 12), 0.1), n_neighbors=4, include_self=False, algorithm=algorithm)
    np.testing.assert_array_equal(indices[5:], np.broadcast_to(np.arange(4), (n - 5, 4)))
    np.testing.assert_array_equal(indices[2], [0, 1, 3, 4])


def test_a_fill_value_does_not_end_the_process():
    X = np.random.default_rng(0).normal(size=(1500, 12))
    X[0, 0] = 9.96921e36
    assert np.isfinite(steep.neighbor_variance(X, X[:, 1])).all()


ODD_DATA = [
    [[1.0]], [[1, 2], [3, 4]], [], [[]], [1, 2], None, "text", [["a"], ["b"]], [[np.nan], [1]], [[np.inf], [1]],
    [[1j], [2]], np.zeros((3, 0)), np.zeros((2, 2, 2)), [[1], [2, 3]], [[True], [False]], {"a": 1}, [[None], [1]],
    np.array([["2020-01-01"]], "M8[D]"), np.ones((4, 2), np.longdouble), [[-0.0], [0.0], [5e-324]],
]  # fmt: skip
ODD_OPTIONS = {
    "n_neighbors": [1, 2, 0, -1, 10**9, 2.0, "3", None, True, np.int64(2), np.nan],
    "include_self": [True, False, 1, "yes", None],
    "recall": [0.95, 1.0, 1, 0, -1, 2, np.nan, "high", None, True, np.float32(0.5)],
    "metric": ["euclidean", "cosine", "l1", None, 0],
    "n_jobs": [None, 1, 2, -1, -100, 0, 1.5, "2", True, np.int32(1)],
    "random_state": [None, 0, -1, "seed", 1.5, np.random.RandomState(0), 2**70],
}


def test_every_odd_call_works_or_is_refused():
    rng = np.random.default_rng(0)
    n_worked, rejections = 0, []
    for _ in range(600):
        X = ODD_DATA[rng.integers(len(ODD_DATA))] if rng.random() < 0.5 else rng.normal(size=(5, 2))
        names = rng.choice(list(ODD_OPTIONS), size=rng.integers(4), replace=False)
        options = {name: ODD_OPTIONS[name][rng.integers(len(ODD_OPTIONS[name]))] for name in names}
        options.setdefault("n_neighbors", 1)
        try:
            steep.neighbors.neighbor_graph(X, **options)
            n_worked += 1
        except SteepError as error:
            rejections.append(str(error))
    assert n_worked > 50
    assert not any("\n" in refusal for refusal in rejections)


@pytest.mark.parametrize("seed", range(12))
def test_the_partitioned_engine_keeps_its_promise_or_says_so(seed):
    rng = np.random.default_rng(seed)
    shape = list(NASTY)[int(rng.integers(len(NASTY)))]
    X = NASTY[shape](rng, 1_500, int(rng.integers(1, 16)))
    promised = rng.choice([0.8, 0.95, 0.99])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _, indices = engine_graph(
            X, n_neighbors=5, include_self=False, algorithm="partitioned", recall=promised, random_state=seed
        )
    assert said or shares_found(X, indices).mean() >= promised


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3])
def test_cells_of_many_equal_points_hold_the_nearest(share):
    """Most candidates of a cell are ties there; the lists hold the nearest all the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9_000, 6)) * (rng.random((9_000, 6)) < share)
    rows = np.arange(0, 9_000, 90)
    distances, indices = engine_graph(
        X, n_neighbors=8, include_self=False, algorithm="partitioned", recall=0.95, random_state=0
    )
    assert shares_found(X, indices, rows).mean() >= 0.95
    assert all(len(set(row)) == 8 for row in indices[rows])
    for q in rows:
        lengths = np.linalg.norm(X[indices[q]] - X[q], axis=1)
        np.testing.assert_allclose(distances[q], lengths, rtol=1e-6, atol=1e-9)
