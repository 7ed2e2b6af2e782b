import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steep import neighbor_graph
from steep.weighting.shared_graph import SharedGraph
from steep.weighting.weights import embed


def searched_anew(X, train, k, embedding):
    distances, indices = neighbor_graph(embed(X[train], embedding), n_neighbors=k, recall=1.0)
    return distances, indices


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 999),
    share=st.floats(0.6, 0.95),
    d=st.integers(1, 12),
    embedding=st.sampled_from(["standard", None]),
)
def test_the_graph_of_a_fold_is_the_one_it_would_find_itself(seed, share, d, embedding):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(150, d)) * np.logspace(-2, 2, d)
    train = np.sort(rng.permutation(150)[: int(share * 150)])
    found = SharedGraph.of(X, 5, embedding).within(train, 5)
    if found is not None:
        np.testing.assert_array_equal(found, searched_anew(X, train, 5, embedding)[1])


def test_it_is_found_for_ordinary_folds():
    X = np.random.default_rng(0).normal(size=(500, 8))
    train = np.flatnonzero(np.arange(500) % 5)
    assert SharedGraph.of(X, 5, "standard").within(train, 5) is not None


def test_rows_that_lost_their_neighbours_are_searched_in_full():
    X = np.random.default_rng(1).normal(size=(300, 2))
    crowd = np.argsort(((X - X[7]) ** 2).sum(axis=1))[:40]
    train = np.setdiff1d(np.arange(300), crowd[1:])  # all that x_7 knows is gone
    found = SharedGraph.of(X, 5, "standard").within(train, 5)
    np.testing.assert_array_equal(found, searched_anew(X, train, 5, "standard")[1])


def test_too_many_lost_rows_are_left_to_a_new_search():
    X = np.random.default_rng(2).normal(size=(300, 2))
    assert SharedGraph.of(X, 5, "standard").within(np.arange(40), 5) is None


def test_duplicates_keep_each_row_its_own_first_neighbour():
    X = np.random.default_rng(3).normal(size=(300, 2))
    X[:30] = X[0]
    train = np.flatnonzero(np.arange(300) % 5)
    found = SharedGraph.of(X, 5, "standard").within(train, 5)
    np.testing.assert_array_equal(found[:, 0], np.arange(len(train)))
    assert (found[:24] < 24).all()


def test_a_column_that_is_constant_in_the_fold_adds_no_distance():
    X = np.random.default_rng(4).normal(size=(200, 3))
    X[:, 2] = 0
    X[0, 2] = 1000.0
    train = np.arange(1, 200)
    found = SharedGraph.of(X, 5, "standard").within(train, 5)
    np.testing.assert_array_equal(found, searched_anew(X, train, 5, "standard")[1])


@pytest.mark.parametrize(("k", "embedding"), [(1, "standard"), (5, lambda X: X), (80, "standard")])
def test_where_a_fold_had_better_search_its_own_there_is_none(k, embedding):
    assert SharedGraph.of(np.random.default_rng(0).normal(size=(100, 2)), k, embedding) is None
