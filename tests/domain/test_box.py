import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from steep import Box, SteepError
from steep.domain.axes import Category, Integer, Log

boxes = st.lists(
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda p: (p[0], p[0] + p[1])),
    min_size=1,
    max_size=4,
).map(Box)


@given(box=boxes, data=st.data())
def test_unit_and_from_unit_undo_each_other(box, data):
    U = data.draw(hnp.arrays(float, (5, box.n_features), elements=st.floats(0, 1)))
    X = box.from_unit(U)
    assert box.contains(X).all()
    np.testing.assert_allclose(box.unit(X), U, atol=1e-6)


@pytest.mark.parametrize("kind", ["uniform", "sobol"])
@pytest.mark.parametrize("n_samples", [1, 5, 64])
def test_draws_lie_inside_and_follow_the_seed(kind, n_samples):
    box = Box([(-3.0, -2.0), (10.0, 1000.0)])
    first, again, other = (getattr(box, kind)(n_samples, random_state=seed) for seed in (1, 1, 2))
    assert first.shape == (n_samples, 2)
    assert box.contains(first).all()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_sobol_is_more_even_than_uniform_draws():
    box = Box([(0, 1)] * 2)
    counts = np.histogram2d(*box.sobol(64, random_state=0).T, bins=8, range=[[0, 1]] * 2)[0]
    assert (counts == 1).all()


def test_grid_is_regular_and_touches_the_edges():
    grid = Box([(0, 1), (0, 10)]).grid(9)
    assert {tuple(x) for x in grid} == {(a, b) for a in (0, 0.5, 1) for b in (0, 5, 10)}


def test_grid_of_an_impossible_size_names_the_possible_ones():
    with pytest.raises(ValueError, match=r"p\^2 points, got 10; use 9 or 16"):
        Box([(0, 1)] * 2).grid(10)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((1.0, 0.0), "axis 't' are reversed"),
        ((1.0, 1.0), "axis 't' are equal"),
        ((0.0, np.nan), "axis 't' are .* need finite"),
        ((-np.inf, 0.0), "axis 't' are .* need finite"),
    ],
)
def test_bad_bounds_are_refused_by_name(pair, message):
    with pytest.raises(ValueError, match=message) as caught:
        Box({"u": (0.0, 1.0), "t": pair})
    assert isinstance(caught.value, SteepError)


@pytest.mark.parametrize("bounds", [3, "ab", [3], [(1, 2, 3)], [("a", "b")]])
def test_bounds_of_the_wrong_kind_are_refused(bounds):
    with pytest.raises(TypeError, match="bounds"):
        Box(bounds)


def test_no_bounds_are_refused():
    with pytest.raises(ValueError, match="bounds is empty"):
        Box([])


def test_equal_boxes_are_equal_and_hash_alike():
    assert Box([(0, 1)]) == Box({"x0": (0, 1)})
    assert hash(Box([(0, 1)])) == hash(Box([(0, 1)]))
    assert Box([(0, 1)]) != Box([(0, 2)])
    assert Box([(0, 1)]) != "box"


def test_contains_counts_the_edges():
    assert Box([(0, 1)]).contains([[0.0], [1.0], [1.0000001]]).tolist() == [True, True, False]


MIXED = {"k": Log(1e-3, 1e3), "n": Integer(2, 9), "m": Category("a", "b", "c"), "x": (0.0, 1.0)}


def test_every_kind_of_axis_survives_the_way_to_the_unit_cube_and_back():
    X = Box(MIXED).sobol(64, random_state=0)
    assert Box(MIXED).contains(X).all()
    np.testing.assert_allclose(Box(MIXED).from_unit(Box(MIXED).unit(X)), X, rtol=1e-12)


def test_a_log_axis_gives_each_decade_the_same_room():
    x = Box({"k": Log(1e-3, 1e3)}).sobol(600, random_state=0)[:, 0]
    counts = np.histogram(np.log10(x), bins=6, range=(-3, 3))[0]
    assert counts.min() >= 98


def test_whole_numbers_and_categories_are_equally_likely():
    X = Box(MIXED).sobol(2400, random_state=0)
    assert np.unique(X[:, 1], return_counts=True)[1].min() > 290
    assert np.unique(X[:, 2], return_counts=True)[1].min() > 790


def test_named_inputs_go_out_and_come_back():
    box = Box(MIXED)
    X = box.sobol(16, random_state=0)
    rows = box.decode(X)
    assert isinstance(rows[0]["n"], int)
    assert rows[0]["m"] in ("a", "b", "c")
    np.testing.assert_array_equal(box.encode(rows), X)
    with pytest.raises(ValueError, match="'z' is no value of 'm'; need one of 'a', 'b', 'c'"):
        box.encode([rows[0] | {"m": "z"}])


def test_any_two_categories_are_one_apart():
    box = Box({"m": ["a", "b", "c"]})
    points = box.embed(box.unit([[0.0], [1.0], [2.0]]))
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_allclose(gaps, 1 - np.eye(3))


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (Log(0.0, 1.0), "log axis 'a' starts at 0"),
        (Integer(0.5, 3), "need whole ends"),
        (Category("a"), "two or more different values"),
        (Category("a", "a"), "two or more different values"),
        (Log(2.0, 1.0), "axis 'a' are reversed"),
    ],
)
def test_impossible_axes_are_refused_by_name(axis, message):
    with pytest.raises(ValueError, match=message):
        Box({"a": axis})


def test_a_constraint_shapes_every_draw():
    box = Box([(0, 1)] * 2, constraint=lambda X: X.sum(axis=1) < 0.5)
    for draw in (box.sobol, box.uniform):
        X = draw(200, random_state=0)
        assert X.shape == (200, 2)
        assert (X.sum(axis=1) < 0.5).all()
    with pytest.raises(ValueError, match="use sobol"):
        box.grid(9)
    with pytest.raises(TypeError, match="constraint is a int"):
        Box([(0, 1)], constraint=3)
    assert Box(box).constraint is box.constraint
    assert "constraint" in repr(box)
