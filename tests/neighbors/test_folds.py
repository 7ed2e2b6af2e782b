import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steep import neighbor_graph
from steep.neighbors.folds import SharedGraph, standardise


def searched_anew(X, train, k, standardised):
    points = standardise(X[train]) if standardised else X[train]
    return neighbor_graph(points, n_neighbors=k, recall=1.0)[1]


def taken(X, train, k, standardised=True):
    graph = SharedGraph.of(X, k, standardised=standardised)
    return graph.within(train, standardise(X[train]) if standardised else X[train], k)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), share=st.floats(0.8, 0.95), d=st.integers(1, 12), standardised=st.booleans())
def test_the_graph_of_a_fold_is_the_one_it_would_find_itself(seed, share, d, standardised):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, d)) * np.logspace(-2, 2, d)
    train = np.sort(rng.permutation(150)[: int(share * 150)])
    np.testing.assert_array_equal(taken(X, train, 5, standardised), searched_anew(X, train, 5, standardised))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), share=st.floats(0.3, 0.9), d=st.integers(1, 12))
def test_heavy_tails_are_taken_exactly_or_left_to_a_new_search(seed, share, d):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, size=(150, d))
    train = np.sort(rng.permutation(150)[: int(share * 150)])
    found, anew = taken(X, train, 5), searched_anew(X, train, 5, True)
    assert found is None or np.array_equal(found, anew)


def test_the_graph_of_all_rows_is_the_one_they_would_find_themselves():
    X = np.random.default_rng(0).normal(size=(300, 4)) * [1, 10, 100, 1000]
    graph = SharedGraph.of(X, 7, standardised=True)
    np.testing.assert_array_equal(graph.whole(7), searched_anew(X, np.arange(300), 7, True))


def test_it_is_found_for_ordinary_folds():
    X = np.random.default_rng(0).normal(size=(500, 8))
    assert taken(X, np.flatnonzero(np.arange(500) % 5), 5) is not None


def test_rows_that_lost_their_neighbours_are_searched_in_full():
    X = np.random.default_rng(1).normal(size=(300, 2))
    crowd = np.argsort(((X - X[7]) ** 2).sum(axis=1))[:40]
    train = np.setdiff1d(np.arange(300), crowd[1:])  # all that x_7 knows is gone
    np.testing.assert_array_equal(taken(X, train, 5), searched_anew(X, train, 5, True))


def test_too_many_lost_rows_are_left_to_a_new_search():
    X = np.random.default_rng(2).normal(size=(300, 2))
    assert taken(X, np.arange(40), 5) is None


def test_duplicates_keep_each_row_its_own_first_neighbour():
    X = np.random.default_rng(3).normal(size=(300, 2))
    X[:30] = X[0]
    train = np.flatnonzero(np.arange(300) % 5)
    found = taken(X, train, 5)
    np.testing.assert_array_equal(found[:, 0], np.arange(len(train)))
    assert (found[:24] < 24).all()


def test_a_column_that_is_constant_in_the_fold_adds_no_distance():
    X = np.random.default_rng(4).normal(size=(200, 3))
    X[:, 2] = 0
    X[0, 2] = 1000.0
    train = np.arange(1, 200)
    np.testing.assert_array_equal(taken(X, train, 5), searched_anew(X, train, 5, True))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_units_do_not_matter_however_extreme(scale):
    X = np.random.default_rng(5).normal(size=(200, 3))
    train = np.flatnonzero(np.arange(200) % 5)
    np.testing.assert_array_equal(taken(X * scale, train, 5), taken(X, train, 5))


@pytest.mark.parametrize("k", [1, 80])
def test_where_a_fold_had_better_search_its_own_there_is_none(k):
    X = np.random.default_rng(0).normal(size=(100, 2))
    assert SharedGraph.of(X, k, standardised=True) is None
