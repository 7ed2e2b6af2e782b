import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import NearestNeighbors

from steep.exceptions import InputError
from steep.neighbors import neighbor_graph, sparse_graph

X = np.random.default_rng(0).normal(size=(50, 3))


@pytest.mark.parametrize("include_self", [True, False])
def test_it_is_the_matrix_scikit_learn_builds(include_self):
    graph = sparse_graph(*neighbor_graph(X, n_neighbors=12, include_self=include_self))
    size = 11 if include_self else 12
    expected = NearestNeighbors(n_neighbors=size).fit(X).kneighbors_graph(mode="distance")
    assert_array_equal(graph.indptr, expected.indptr)
    assert_array_equal(graph.indices, expected.indices)
    assert_allclose(graph.data, expected.data, rtol=1e-6)


def test_equal_points_have_an_explicit_zero():
    graph = sparse_graph(*neighbor_graph([[0.0], [0.0], [1.0]], n_neighbors=2, include_self=False))
    assert graph.nnz == 6
    assert (graph.data == 0).sum() == 2


def test_distances_rise_along_each_row():
    graph = sparse_graph(*neighbor_graph(X, n_neighbors=10, include_self=False))
    assert (np.diff(graph.data.reshape(50, 10), axis=1) >= 0).all()


@pytest.mark.parametrize(
    ("distances", "indices", "message"),
    [
        (np.ones((3, 2)), np.array([[1, 2], [0, 2], [0, 7]]), "rows from 0 to 2"),
        (np.ones((3, 2)), np.array([[0, 1], [0, 2], [2, 1]]), "neighbours of themselves"),
        (np.ones((3, 2)), np.ones((3, 2)), "not a graph"),
        (np.ones((3, 1)), np.array([[1, 2], [0, 2], [0, 1]]), "not a graph"),
    ],
)
def test_what_is_no_graph_is_refused(distances, indices, message):
    with pytest.raises(InputError, match=message):
        sparse_graph(distances, indices)
