"""Laws of the search in few coordinates: what it ranks, when it is taken, and that the promise holds all the same."""

import numpy as np
import pytest

from neighbors_oracle import brute_force, engine_graph
from steep.neighbors.exact import Bounds, exact_rows
from steep.neighbors.frame import Frame
from steep.neighbors.lists import Join, threads
from steep.neighbors.narrow import BETAS, _ranks, _rotated, _tall, leading_directions, leading_view, narrow_view
from steep.neighbors.recall import Truth, exact_sample

N, D = 4_000, 240


def pictures(n=N, d=D, seed=0):
    """Points whose variance falls along the directions as that of pictures does: the j-th holds about 1/j²."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    middle = rng.normal(size=(10, d)) * 3
    spread = 10 / np.arange(1, d + 1)
    return (((rng.normal(size=(n, d)) + middle[rng.integers(10, size=n)]) * spread) @ turn).astype(np.float32)


def search(X, **options):
    options = {"n_neighbors": 10, "include_self": False, "algorithm": "partitioned", "random_state": 0, **options}
    return engine_graph(X, return_info=True, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("promised", [0.8, 0.95, 0.99])
def test_wide_data_are_searched_in_few_coordinates_and_the_promise_holds(promised, dtype):
    X = pictures().astype(dtype)
    distances, _, info = search(X, recall=promised)
    exact, _ = engine_graph(X, n_neighbors=10, include_self=False, algorithm="exact")
    assert info.algorithm == "partitioned"
    assert info.n_coordinates < D / 2
    assert info.estimated_recall >= promised
    assert (distances <= exact[:, -1:] * (1 + 1e-6)).mean() >= promised


def test_distances_are_those_of_all_features():
    X = pictures()
    distances, indices, info = search(X)
    true = np.linalg.norm(X[indices[:50]].astype(np.float64) - X[:50, None].astype(np.float64), axis=2)
    assert info.n_coordinates < D
    np.testing.assert_allclose(distances[:50], true, rtol=1e-6)
    assert (np.diff(distances, axis=1) >= 0).all()


def test_the_number_of_threads_changes_nothing():
    X = pictures(2_500)
    one, two = search(X, n_jobs=1), search(X, n_jobs=2)
    np.testing.assert_array_equal(one[1], two[1])


def test_where_all_directions_hold_as_much_all_are_kept():
    X = np.random.default_rng(0).normal(size=(N, D))
    rng = np.random.default_rng(0)
    frame = Frame.of(X)
    with threads(1) as team:
        truth = exact_sample(Join(X, frame, 10, False, team), 400, rng)
        assert narrow_view(leading_view(X, frame, 64, rng, team), truth, 0.95) is None


def test_ranks_are_places_among_all_points():
    X, rng = pictures(600, 60), np.random.default_rng(1)
    frame = Frame.of(X)
    with threads(1) as team:
        points, half = _rotated(X, frame, leading_directions(X, frame, 16, rng), team)
        truth = exact_sample(Join(X, frame, 5, False, team), 400, rng)
    few = Truth(truth.rows[:20], truth.indices[:20], truth.distances[:20])
    ranks = _ranks(points, half, few, [8, 16], BETAS)
    for i, p in enumerate([8, 16]):
        z = points[:, :p].astype(np.float64)
        norm = (z**2).sum(axis=1)
        for j, beta in enumerate(BETAS):
            tall = norm + beta * np.maximum(2.0 * half - norm, 0)
            score = tall[few.rows][:, None] + tall - 2 * z[few.rows] @ z.T
            mine = np.take_along_axis(score, few.indices, axis=1)
            places = (score[:, None, :] <= mine[:, :, None] * (1 + 1e-9)).sum(axis=2)
            assert np.abs(ranks[i, j] - places).max() <= 1  # float32 may turn two that nearly tie
    assert ranks.shape == (2, len(BETAS), 20, 5)


def test_leading_directions_hold_as_much_as_the_true_ones():
    X = pictures().astype(np.float64)
    axes = leading_directions(X, Frame.of(X), 16, np.random.default_rng(0)).astype(np.float64)
    np.testing.assert_allclose(axes.T @ axes, np.eye(16), atol=1e-5)
    centred = X - X.mean(axis=0)
    held = ((centred @ axes) ** 2).sum()
    assert held > 0.99 * (np.linalg.svd(centred, compute_uv=False)[:16] ** 2).sum()


def test_what_a_score_counts_besides_is_never_negative():
    tall = _tall(np.float32([1.0, 2.0]), np.float32([3.0, 1.9999999]), 0.5)
    np.testing.assert_allclose(tall, [2.0, 2.0])


@pytest.mark.parametrize("nasty", ["one point far off", "large offset", "few distinct points"])
def test_no_data_are_too_odd(nasty):
    X = pictures(1_500).astype(np.float64)
    if nasty == "one point far off":
        X[7] *= 1e9
    elif nasty == "large offset":
        X += 1e6
    else:
        X = X[np.arange(len(X)) % 300]
    distances, _, _ = search(X, recall=0.9)
    true = brute_force(X, 10)[0] if nasty == "few distinct points" else None
    exact, _ = engine_graph(X, n_neighbors=10, include_self=False, algorithm="exact")
    assert (distances <= exact[:, -1:] * (1 + 1e-6)).mean() >= 0.9
    assert true is None or (distances[:, 0] == 0).all()


@pytest.mark.parametrize("data", ["pictures", "small clusters", "float64", "equal points"])
def test_exact_search_of_wide_data_misses_nothing(data):
    X = pictures(9_000, 160)
    if data == "small clusters":
        X = X[:900].repeat(10, axis=0) + 1e-3 * np.random.default_rng(3).normal(size=X.shape).astype(np.float32)
    elif data == "float64":
        X = X.astype(np.float64)
    elif data == "equal points":
        X[::3] = X[0]
    distances, indices, _ = search(X, algorithm="exact")
    rows = np.arange(0, 9_000, 180)
    true, true_indices = brute_force(X, 10, rows=rows)
    np.testing.assert_allclose(distances[rows], true, rtol=1e-6, atol=1e-6)
    if data in ("pictures", "float64"):
        np.testing.assert_array_equal(indices[rows], true_indices)


def test_no_two_points_are_farther_apart_in_the_bounding_coordinates():
    X = pictures(3_000, 160)
    with threads(1) as team:
        frame = Frame.of(X)
        view = leading_view(X, frame, 64, np.random.default_rng(0), team).bounds(frame)
    i, j = np.random.default_rng(1).integers(3_000, size=(2, 20_000))
    true = np.linalg.norm(X[i].astype(np.float64) - X[j], axis=1)
    seen = np.linalg.norm(view.points[i].astype(np.float64) - view.points[j], axis=1)
    assert (seen <= true + view.slack).all()
    assert view.slack < 0.1 * np.median(true)
    assert np.median(seen) > 0.9 * np.median(true)


@pytest.mark.parametrize("data", ["pictures", "float64", "equal points", "whole numbers", "flat"])
def test_bounds_change_nothing_about_the_rows_found(data):
    X = pictures(3_000, 160)
    if data == "float64":
        X = X.astype(np.float64)
    elif data == "equal points":
        X[::3] = X[0]
    elif data == "whole numbers":
        X = np.round(X / 4)
    elif data == "flat":
        X = np.random.default_rng(2).normal(size=X.shape)
    frame, rows = Frame.of(X), np.arange(0, 3_000, 20)
    with threads(2) as team:
        leading = leading_view(X, frame, 64, np.random.default_rng(0), team)
        bounds = leading.bounds(frame) or Bounds(leading.points, 1.0)  # flat data: little is ruled out
        job = Join(X, frame, 10, False, team)
        found, true = exact_rows(job, rows, bounds), exact_rows(job, rows)
    np.testing.assert_array_equal(found[0], true[0])
    np.testing.assert_array_equal(found[1], true[1])
