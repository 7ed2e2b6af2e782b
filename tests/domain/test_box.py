import enum
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from steep import Box, SteepError
from steep.domain.axes import Category, Integer, Log, axis_from_key
from steep.exceptions import InputError, InputTypeError

boxes = st.lists(
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda p: (p[0], p[0] + p[1])), min_size=1, max_size=4
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


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((1.0, 0.0), "axis 't' are reversed"),
        ((1.0, 1.0), "axis 't' are equal"),
        ((0.0, np.nan), "axis 't' are .* expected finite"),
        ((-np.inf, 0.0), "axis 't' are .* expected finite"),
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
    with pytest.raises(ValueError, match="'z' is not a value of 'm'; expected one of 'a', 'b', 'c'"):
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
        (Integer(0.5, 3), "expected whole ends"),
        (Category("a"), "two or more different values"),
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
    with pytest.raises(TypeError, match="constraint is a int"):
        Box([(0, 1)], constraint=3)
    assert Box(box).constraint is box.constraint
    assert "constraint" in repr(box)


class Metal(enum.Enum):
    IRON = "iron"


class Named(enum.StrEnum):
    IRON = "iron"


@pytest.mark.parametrize("value", [("a", 1), ["a"], {"a": 1}, b"a", Metal.IRON, Named.IRON, 1j, object()])
def test_a_category_value_that_a_file_would_not_give_back_is_refused(value):
    with pytest.raises(InputTypeError, match=r"Category value .* expected str, int, float, bool or None"):
        Category("other", value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan"), pytest.param(10**5000, id="huge")])
def test_a_category_number_that_no_file_holds_is_refused(value):
    with pytest.raises(InputError, match=r"Category value .* cannot be stored"):
        Category("other", value)


@pytest.mark.parametrize("pair", [(1, True), (1, 1.0), (0.0, -0.0), ("a", "a"), (None, None), (np.int64(2), 2)])
def test_category_values_that_python_takes_for_equal_are_refused(pair):
    with pytest.raises(InputError, match=r"Category has .* which are equal"):
        Category("other", *pair)


def test_numpy_scalars_become_python_values_in_a_category():
    axis = Category(np.int64(3), np.float32(0.5), np.str_("a"), np.bool_(True))
    assert axis.values == (3, 0.5, "a", True)
    assert [type(value) for value in axis.values] == [int, float, str, bool]
    assert axis.code("m", np.str_("a")) == 2.0


@pytest.mark.parametrize(
    "axis", [Category("é", None, True, -3, 0.1, 10**30), Log(1e-3, 2), Integer(-2, 5), Box([(0.1, 2)]).axes[0]]
)
def test_every_axis_comes_back_from_a_file_as_it_was(axis):
    again = axis_from_key(json.loads(json.dumps(axis.key())))
    assert again == axis
    assert hash(again) == hash(axis)


def test_categories_of_equal_values_of_another_type_are_different():
    assert Category(1, 2) != Category(True, 2)
    assert Category(1, 2) == Category(np.int32(1), 2)
    assert Category(1, 2) != Integer(1, 2)


@pytest.mark.parametrize("key", [["cubic", 0, 1], ["log", 0], ["linear"], [], ["log", "a", "b"]])
def test_a_damaged_axis_in_a_file_is_refused(key):
    with pytest.raises(InputError, match="stored axis"):
        axis_from_key(key)


@pytest.mark.parametrize("kind", [Log, Integer])
@pytest.mark.parametrize("end", [None, "3", b"3", 1j, True, [1], np.ones(2), object(), 10**400, Decimal("sNaN")])
def test_ends_that_are_no_numbers_are_refused(kind, end):
    with pytest.raises(SteepError, match=f"high end of {kind.__name__} is"):
        kind(1, end)


def test_ends_may_be_any_real_number():
    assert Box([(Fraction(1, 2), Decimal("1.5"))]) == Box([(np.float32(0.5), np.array(1.5))])


class Stubborn:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "bounds",
    [[(0, 10**400)], [(None, 1)], [Stubborn()], Stubborn(), {(0, 1)}, [np.ones((2, 2))], np.float64(3), [[0, [1]]],
     {"a": None}, [(False, True)], [("0", "1")], b"ab", np.array(3.0), [{0: 1, 2: 3}], iter([(0, 1)])],
)  # fmt: skip
def test_bounds_of_odd_objects_are_refused_in_one_line(bounds):
    with pytest.raises(SteepError, match="bounds") as caught:
        Box(bounds)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ((-1.7e308, 1.7e308), "further apart than floats reach"),
        (Log(1e-310, 1e300), "whose ratio is inf"),
        (Integer(0, 2**54), r"expected ends within ±2\^53"),
    ],
)
def test_axes_that_floats_cannot_span_are_refused_by_name(axis, message):
    with pytest.raises(InputError, match=message):
        Box({"a": axis})


def test_names_that_are_the_same_text_are_refused():
    with pytest.raises(InputError, match="not all different"):
        Box({1: (0, 1), "1": (0, 1)})


def test_a_log_axis_of_tiny_numbers_keeps_its_way_back():
    axis = Log(1e-310, 1e-300)
    u = np.linspace(0, 1, 5)
    np.testing.assert_allclose(axis.unit(axis.from_unit(u)), u, atol=1e-9)
    assert (Log(1e300, 1e305).unit(np.array([0.0, -1.0])) < 0).all()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"k": 1.0, "n": 3, "m": "a"}], r"row 0 names \['k', 'n', 'm'\]; expected the inputs"),
        ([{"k": 1.0, "n": 3, "m": "a", "x": 0.5, "z": 1}], r"row 0 names .*'z'\]; expected the inputs"),
        ([{"k": "one", "n": 3, "m": "a", "x": 0.5}], "value of 'k' is 'one', a str; expected a number"),
        ([{"k": 10**400, "n": 3, "m": "a", "x": 0.5}], "which no float holds"),
        ([{"k": 1.0, "n": 3, "m": np.ones(2), "x": 0.5}], "is not a value of 'm'"),
        ([{"k": 1.0, "n": 3, "m": ["a"], "x": 0.5}], "is not a value of 'm'"),
        ([3], "row 0 is a int; expected a mapping"),
        ({"k": 1.0}, "rows is a dict; expected a list"),
        (None, "rows is a NoneType"),
    ],
)
def test_rows_that_are_no_named_inputs_are_refused(rows, message):
    with pytest.raises(SteepError, match=message):
        Box(MIXED).encode(rows)


def test_a_code_that_no_category_has_is_refused():
    with pytest.raises(InputError, match=r"7 is not a code of Category\('a', 'b', 'c'\)"):
        Box(MIXED).decode([[1.0, 3, 7, 0.5]])


def test_a_constraint_cannot_change_the_points_it_is_asked_about():
    def greedy(X):
        X *= 0
        return np.ones(len(X), dtype=bool)

    box = Box([(0, 1)] * 2, constraint=greedy)
    X = np.full((3, 2), 0.5)
    assert box.contains(X).all()
    assert (X == 0.5).all()
    assert (box.sobol(8, random_state=0) > 0).all()


@pytest.mark.parametrize("answer", [[[1], [1, 2]], "yes", None, [1.0, 0.0, 1.0]])
def test_a_constraint_that_answers_nonsense_is_refused(answer):
    with pytest.raises(InputError, match="constraint returned"):
        Box([(0, 1)], constraint=lambda X: answer).contains([[0.1], [0.2], [0.3]])


def test_every_point_of_a_box_without_real_axes_can_be_listed():
    box = Box({"n": Integer(1, 3), "m": Category("a", "b")}, constraint=lambda X: X[:, 0] + X[:, 1] < 4)
    assert box.n_points == 6
    assert {tuple(x) for x in box.every_point()} == {(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)}
    assert Box(MIXED).n_points == np.inf
    with pytest.raises(InputError, match="expected at most"):
        Box(MIXED).every_point()


@pytest.mark.parametrize("n_samples", [10**400, 2**40])
def test_more_sobol_points_than_there_are_are_refused(n_samples):
    with pytest.raises(InputError, match=r"too (many|large)"):
        Box([(0, 1)]).sobol(n_samples)


def test_no_kind_of_axis_is_another_kind():
    axes = [Log(1, 2), Integer(1, 2), Category("a", "b")]
    for axis in axes:
        assert [isinstance(axis, type(other)) for other in axes] == [axis is other for other in axes]


def test_a_constraint_that_does_not_know_is_an_error():
    unsure = Box([(0, 1)], constraint=lambda X: np.ma.array(np.ones(len(X), dtype=bool), mask=X[:, 0] > 0.5))
    assert unsure.contains([[0.2]]).all()
    with pytest.raises(InputError, match="constraint returned is masked at 1 of 2 entries"):
        unsure.contains([[0.2], [0.8]])
