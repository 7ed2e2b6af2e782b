"""Laws of the partitioned search: the recall promised, the reach that never misses."""

import warnings

import numpy as np
import pytest

from neighbors_oracle import NASTY, brute_force, engine_graph, recall, shares_found
from steep._validation import check_points
from steep.exceptions import SteepWarning
from steep.neighbors import graph, neighbor_graph, partitioned
from steep.neighbors.cells import Cells, cut, near_cells
from steep.neighbors.frame import ordinary
from steep.neighbors.lists import Join, threads
from steep.neighbors.recall import choose_reach, exact_sample, exact_sample_by_cells

N = 6_000


def features(n=N, n_features=32, seed=0):
    """Clusters seen through a ReLU layer, as a network's features are."""
    rng = np.random.default_rng(seed)
    mode = rng.integers(12, size=n)
    z = rng.normal(size=(12, 8))[mode] + 0.5 * rng.normal(size=(n, 8))
    return np.maximum(z @ rng.normal(size=(8, n_features)), 0).astype(np.float32), mode % 4


def shapes():
    rng = np.random.default_rng(1)
    scales = np.repeat([1e-3, 1.0, 1e3], N // 3)[:, None]
    return {
        "features": features()[0],
        "isotropic": rng.normal(size=(N, 16)),
        "three scales": scales * rng.normal(size=(N, 6)) + 10 * scales,
        "half the points equal": np.vstack([np.zeros((N // 2, 12)), rng.normal(size=(N // 2, 12))]),
        "one feature": rng.random((N, 1)),
    }


@pytest.mark.parametrize("shape", [*shapes(), *NASTY])
def test_a_sample_searched_through_the_cells_is_as_exact_as_one_compared_with_all(shape):
    rng = np.random.default_rng(3)
    X = shapes()[shape] if shape in shapes() else NASTY[shape](rng, 3_000, 12)
    X, frame, _ = ordinary(np.ascontiguousarray(check_points(X)))
    with threads(1) as team:
        cells = cut(X, frame, 200, rng, team)
        near = near_cells(cells, cells.n_cells - 1, team)
        job = Join(X, frame, 10, False, team)
        found = exact_sample_by_cells(job, cells, near, 300, np.random.default_rng(4))
        expected = exact_sample(job, 300, np.random.default_rng(4))
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.distances, expected.distances)


def found_share(distances, true_distances):
    """Recall by distance: an equal point in the place of another is not a miss."""
    return (distances <= true_distances[:, -1:] * (1 + 1e-5)).mean()


@pytest.mark.parametrize("promised", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("shape", shapes())
def test_the_recall_promised_is_kept(shape, promised):
    X = shapes()[shape]
    distances, _, info = engine_graph(
        X,
        n_neighbors=10,
        include_self=False,
        algorithm="partitioned",
        recall=promised,
        random_state=0,
        return_info=True,
    )
    exact, _ = engine_graph(X, n_neighbors=10, include_self=False, algorithm="exact")
    assert info.estimated_recall >= promised
    assert info.algorithm == "partitioned"
    assert found_share(distances, exact) >= promised


def test_distances_are_those_of_the_neighbours_returned():
    X = features()[0]
    distances, indices = engine_graph(X, algorithm="partitioned", random_state=0)
    true = np.linalg.norm(X[:, None].astype(np.float64) - X[indices], axis=2)
    np.testing.assert_allclose(distances, true, rtol=1e-5, atol=1e-6)


def test_the_whole_reach_misses_nothing():
    X = features(3_000)[0]
    _, indices = engine_graph(X, n_neighbors=10, algorithm="partitioned", recall=1.0, random_state=0)
    assert recall(indices, brute_force(X, 10, include_self=True)[1]) > 0.999


def test_the_seed_decides():
    X = features()[0]
    graph = [engine_graph(X, algorithm="partitioned", recall=0.8, random_state=seed)[1] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(graph[0], graph[1])
    assert (graph[0] != graph[2]).any()


def test_the_reach_is_the_least_that_keeps_the_promise():
    needed = np.tile(np.linspace(0.005, 0.995, 100), (50, 1))  # recall(reach) = reach, the same for every point
    reach, estimate = choose_reach(needed, 0.9)
    assert reach == pytest.approx(0.895, abs=0.0015)  # where the 90th of 100 neighbours is met
    assert estimate.kept
    assert estimate.recall == pytest.approx(0.9)


def groups_of(along, size):
    """The nearest of each point's group of ``size``, taken in order along the line, told apart to a 512th."""
    level = ((along - along.min()) / ((along.max() - along.min()) / np.float32(512))).astype(int)
    order = np.argsort(level, kind="stable")
    nearest = np.empty(len(along), np.float32)
    for first in range(0, len(along), size):
        nearest[order[first : first + size]] = along[order[first : first + size]].min()
    return nearest


def test_the_reach_of_a_meeting_does_not_depend_on_the_meetings_before_it():
    from steep.neighbors.kernels.joins import ROWS, meeting_gaps
    from steep.neighbors.kernels.vectors import TOGETHER

    rng = np.random.default_rng(0)
    start, centers = np.array([0, 100, 250, 300]), np.zeros((3, 4))
    centers[:, 0] = 0.0, 3.0, 5.0  # u is an axis: no rounding moves a point to another group
    X = rng.normal(size=(300, 4)).astype(np.float32)
    cell = np.repeat(np.arange(3), np.diff(start))
    q, m = rng.integers(300, size=(2, 500))
    q, m = (part[cell[q] != cell[m]] for part in (q, m))
    gaps = np.empty(len(q))
    none = np.empty(0, np.float32)
    meeting_gaps(Cells(X, none, none, np.empty(0, np.int32), start, centers), cell[q], cell[m], q, m, gaps)
    for i, (one, other) in enumerate(zip(q, m, strict=True)):
        row, col = (one, other) if cell[one] < cell[other] else (other, one)
        a, b = cell[row], cell[col]
        away, towards = -X[start[a] : start[a + 1], 0], X[start[b] : start[b + 1], 0]
        row, col = row - start[a], col - start[b]
        tile = groups_of(away, ROWS)[row] + groups_of(towards, TOGETHER)[col]
        expected = max(tile, away[row] + towards.min(), towards[col] + away.min()) + centers[b, 0] - centers[a, 0]
        assert gaps[i] == pytest.approx(expected, abs=1e-5)


def test_a_promise_out_of_reach_is_said():
    reach, estimate = choose_reach(np.full((50, 10), np.nan), 0.9)
    assert reach == np.inf
    assert not estimate.kept


def test_no_warning_when_the_promise_is_kept():
    with warnings.catch_warnings():
        warnings.simplefilter("error", SteepWarning)
        engine_graph(features()[0], algorithm="partitioned", random_state=0)


def test_no_cell_meets_twice_in_one_round():
    from steep.neighbors.lists import in_rounds

    rng = np.random.default_rng(0)
    pairs = np.column_stack(np.triu_indices(30, 1))[rng.permutation(435)[:200]]
    for n_threads in (1, 2):
        order, rounds = in_rounds(pairs, 30, n_threads, 8)
        assert sorted(order) == list(range(200))
        together = [np.concatenate([pairs[order][some] for some in batch]) for batch in rounds]
        np.testing.assert_array_equal(np.concatenate(together), pairs[order])
        assert all(some.stop - some.start <= 8 for batch in rounds for some in batch)
        assert n_threads == 1 or all(len(np.unique(batch)) == batch.size for batch in together)


HARD = [
    "fill value",
    "outlier 1e6",
    "outlier 3e6",
    "Cauchy squared",
    "Cauchy cubed, standardised",
    "nested clusters",
    "two scales",
]


@pytest.mark.parametrize("shape", HARD)
def test_the_recall_promised_is_kept_or_the_loss_is_said(shape):
    n, rng = 8_000, np.random.default_rng(0)
    X = NASTY[shape](rng, n, 12)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _, indices, info = engine_graph(
            X, n_neighbors=10, include_self=False, algorithm="partitioned", random_state=0, return_info=True
        )
    found = shares_found(X, indices, rng.choice(n, 200, replace=False)).mean()
    assert found >= 0.95 or said
    assert abs(found - info.estimated_recall) < 0.03


def test_a_broken_promise_is_mended_by_exact_search_where_affordable(monkeypatch):
    X = NASTY["nested clusters"](np.random.default_rng(0), N, 12)
    monkeypatch.setattr(graph, "MEDIUM", 0)
    options = {"n_neighbors": 10, "random_state": 0, "return_info": True}
    assert neighbor_graph(X, **options)[2].algorithm == "exact"
    monkeypatch.setattr(partitioned, "AFFORDABLE", 0)
    with pytest.warns(SteepWarning, match="is out of reach of the partitioned search, estimated 0") as said:
        info = neighbor_graph(X, **options)[2]
    assert said[0].filename == __file__
    assert info.estimated_recall < 0.95
