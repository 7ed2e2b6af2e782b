import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steep import neighbor_graph
from steep.neighbors import folds
from steep.neighbors.folds import SharedGraph, standardise


def searched_anew(X, train, k, standardised):
    points = standardise(X[train]) if standardised else X[train]
    return neighbor_graph(points, n_neighbors=k, recall=1.0)[1]


def taken(X, train, k, standardised=True):
    graph = SharedGraph.of(X, k, [train], standardised=standardised)
    return next(graph.within([train], k))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), share=st.floats(0.8, 0.95), d=st.integers(1, 12), standardised=st.booleans())
def test_the_graph_of_a_fold_is_the_one_it_would_find_itself(seed, share, d, standardised):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, d)) * np.logspace(-2, 2, d)
    train = np.sort(rng.permutation(150)[: int(share * 150)])
    np.testing.assert_array_equal(taken(X, train, 5, standardised), searched_anew(X, train, 5, standardised))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), share=st.floats(0.3, 0.9), d=st.integers(1, 12))
def test_heavy_tails_are_taken_exactly_by_all_folds_of_one_list(seed, share, d):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(1.5, size=(150, d))
    trains = [np.sort(rng.permutation(150)[: int(share * 150)]) for _ in range(4)]
    graph = SharedGraph.of(X, 5, trains, standardised=True)
    for train, found in zip(trains, graph.within(trains, 5), strict=True):
        np.testing.assert_array_equal(found, searched_anew(X, train, 5, True))


def test_the_graph_of_all_rows_is_the_one_they_would_find_themselves():
    X = np.random.default_rng(0).normal(size=(300, 4)) * [1, 10, 100, 1000]
    graph = SharedGraph.of(X, 7, [np.arange(0, 300, 2)], standardised=True)
    np.testing.assert_array_equal(graph.whole(7), searched_anew(X, np.arange(300), 7, True))


def test_the_list_is_enough_for_nearly_all_rows_of_ordinary_folds(monkeypatch):
    asked = []

    def counted(points, rows, k):
        asked.extend(rows)
        return search(points, rows, k)

    search = folds.nearest_others
    monkeypatch.setattr(folds, "nearest_others", counted)
    X = np.random.default_rng(0).normal(size=(500, 8))
    trains = [np.flatnonzero(np.arange(500) % 5 != i) for i in range(5)]
    list(SharedGraph.of(X, 5, trains, standardised=True).within(trains, 5))
    assert len(asked) < 0.02 * 2000


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_no_row_left_out_is_nearer_than_the_reach(offset):
    X = np.random.default_rng(6).standard_t(2, size=(400, 6)) + offset
    graph = SharedGraph.of(X, 5, [np.arange(400)], standardised=True)
    points = graph.numbers
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    squares[np.arange(400)[:, None], graph.indices] = np.inf
    assert (squares.min(axis=1) >= graph.reach).all()
    assert (graph.reach > 0).mean() > 0.99
    assert (graph.indices[np.arange(400), graph.self_at] == np.arange(400)).all()


@pytest.mark.parametrize("limit", ["_SQUARES", "_GAPS"])
def test_the_graph_does_not_depend_on_what_is_held_at_once(limit, monkeypatch):
    X = np.random.default_rng(7).normal(size=(300, 5))
    train = np.flatnonzero(np.arange(300) % 5)
    expected = taken(X, train, 5)
    monkeypatch.setattr(folds, limit, 100)
    np.testing.assert_array_equal(taken(X, train, 5), expected)


def test_rows_that_are_drawn_twice_are_neighbours_of_each_other():
    X = np.random.default_rng(8).normal(size=(100, 3))
    train = np.random.default_rng(9).integers(100, size=90)
    found = np.sort(X[train][taken(X, train, 4)], axis=1)
    np.testing.assert_array_equal(found, np.sort(X[train][searched_anew(X, train, 4, True)], axis=1))


def test_rows_that_lost_their_neighbours_are_searched_in_full():
    X = np.random.default_rng(1).normal(size=(300, 2))
    crowd = np.argsort(((X - X[7]) ** 2).sum(axis=1))[:40]
    train = np.setdiff1d(np.arange(300), crowd[1:])  # all that x_7 knows is gone
    np.testing.assert_array_equal(taken(X, train, 5), searched_anew(X, train, 5, True))


def test_a_small_part_of_the_rows_is_searched_in_full():
    X = np.random.default_rng(2).normal(size=(300, 2))
    graph = SharedGraph.of(X, 5, [np.arange(250)], standardised=True)
    found = next(graph.within([np.arange(40)], 5))
    np.testing.assert_array_equal(found, searched_anew(X, np.arange(40), 5, True))


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


def test_columns_that_are_all_constant_leave_each_row_its_own_neighbour():
    found = taken(np.full((60, 2), 0.1), np.arange(50), 3)
    np.testing.assert_array_equal(found[:, 0], np.arange(50))


@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_units_do_not_matter_however_extreme(scale, standardised):
    X = np.random.default_rng(5).normal(size=(200, 3))
    train = np.flatnonzero(np.arange(200) % 5)
    found = taken(X * scale, train, 5, standardised)
    np.testing.assert_array_equal(found, taken(X, train, 5, standardised))


@pytest.mark.parametrize("k", [1, 80])
def test_where_a_fold_had_better_search_its_own_there_is_none(k):
    X = np.random.default_rng(0).normal(size=(100, 2))
    assert SharedGraph.of(X, k, [np.arange(80)], standardised=True) is None


@pytest.mark.parametrize("value", [1e6, 1e12, 1e16, 1e18, 1e30, 1e200, 1e300])
@pytest.mark.parametrize("standardised", [True, False])
def test_one_huge_cell_changes_no_fold_that_lacks_it(value, standardised):
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[3, 1] = value
    trains = [np.flatnonzero(np.arange(200) // 40 != i) for i in (4, 3, 2, 1, 0)]
    graph = SharedGraph.of(X, 5, trains, standardised=standardised)
    if graph is None:  # every fold searches its own rows
        assert value > 1e6
        return
    for train, found in zip(trains, graph.within(trains, 5), strict=True):
        if 3 not in train:
            np.testing.assert_array_equal(found, searched_anew(X, train, 5, standardised))


def test_columns_that_hardly_vary_are_listed_once():
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[:, 1] = np.arange(200) == 7
    trains = [np.flatnonzero(np.arange(200) // 40 != i) for i in range(5)]
    assert SharedGraph.of(X, 5, trains, standardised=True) is not None
