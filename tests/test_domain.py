import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from steep import Box, SteepError

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
