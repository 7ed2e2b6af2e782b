"""Laws of the search for the points nearest to other points."""

import numpy as np
import pytest

from neighbors_oracle import NASTY, distances_from
from steep.neighbors import query
from steep.neighbors.query import nearest


def check(points, queries, n_neighbors):
    """Compare with distances to all points; of equal distances either will do."""
    distances, indices = nearest(points, queries, n_neighbors)
    width = min(n_neighbors, len(points))
    assert distances.shape == indices.shape == (len(queries), width)
    for q in range(len(queries)):
        true, shrink = distances_from(np.vstack([points, queries[q : q + 1]]), len(points))
        with np.errstate(over="ignore"):
            wanted = np.sort(true[:-1])[:width]
            np.testing.assert_allclose(true[indices[q]], wanted, rtol=1e-12, atol=0)
            np.testing.assert_allclose(distances[q], wanted / shrink, rtol=1e-12, atol=0)
        assert len(set(indices[q])) == width


@pytest.mark.parametrize("d", [2, 9])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("shape", NASTY)
def test_queries_are_exact_on_any_finite_data(shape, large, d, monkeypatch):
    if large:
        monkeypatch.setattr(query, "_LARGE", 0)
    X = NASTY[shape](np.random.default_rng(0), 230, d).astype(np.float64)
    for n_neighbors in (1, 4):
        check(X[:200], X[200:], n_neighbors)


def test_a_query_far_from_all_points_is_answered():
    rng = np.random.default_rng(0)
    for d in (2, 9):
        check(rng.normal(size=(100, d)), 10.0 ** rng.uniform(-300, 98, (20, 1)) * rng.normal(size=(20, d)), 3)


def test_more_neighbours_than_points_are_all_points():
    for d in (2, 9):
        check(np.random.default_rng(0).normal(size=(80, d)), np.zeros((3, d)), 100)


def test_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    points, queries = rng.normal(size=(300, 10)), rng.normal(size=(50, 10))
    wanted = nearest(points, queries, 5)
    monkeypatch.setattr(query, "_BLOCK", 64)
    for found, true in zip(nearest(points, queries, 5), wanted, strict=True):
        np.testing.assert_array_equal(found, true)
