"""Bounds on the command line mean the axes of the library."""

import random

import pytest

from steep import Category, Integer, Log, SteepError
from steep.cli.options import axes_of, parse_bounds
from steep.domain.axes import Axis


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("x=0:1", Axis(0, 1)),
        (" x = -1e-3 : 2.5 ", Axis(-1e-3, 2.5)),
        ("x=-1e-3:2.5", Axis(-1e-3, 2.5)),
        ("x=1:100:log", Log(1, 100)),
        ("x=1:8:int", Integer(1, 8)),
        ("x={a|b}", Category("a", "b")),
        ("x={1|2.5|three}", Category(1, 2.5, "three")),
        ("x={a, b|c=d:e}", Category("a, b", "c=d:e")),
        ("x={nan|inf}", Category("nan", "inf")),
    ],
)
def test_each_kind_of_axis_has_its_syntax(text, axis):
    assert parse_bounds(text) == {"x": axis}


def test_inputs_keep_their_order():
    assert list(parse_bounds("z=0:1, a=0:1,m={p|q} ,b=1:2:log")) == ["z", "a", "m", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--bounds is empty"),
        ("x", "'x', which is not an input with its range"),
        ("x=0:1,x=0:2", "'x' twice"),
        ("=0:1", "is not an input with its range"),
        ("x=0", "the range of 'x' is '0'; expected low:high"),
        ("x=0:1:exp", "the range of 'x' is '0:1:exp'"),
        ("x=a:b", "the range of 'x' is 'a:b'"),
        ("x=1:0", "reversed"),
        ("x=0:1:log", "expected low > 0"),
        ("x=0:inf", "expected finite numbers"),
        ("x={a}", "two or more different values"),
        ("x={a|a}", "which are equal"),
        ("x={a||b}", "a category without a name"),
        ("x={a|b", "is not an input with its range"),
        ("x=0.5:2.5:int", "expected whole ends"),
    ],
)
def test_what_is_no_bound_is_refused(text, message):
    with pytest.raises(SteepError, match=message) as caught:
        parse_bounds(text)
    assert "\n" not in str(caught.value)


def test_a_file_may_hold_pairs_lists_and_text():
    axes = axes_of({"u": [0, 1], "k": "1:10:log", "c": ["a", "b"], "n": [1, 2, 4]})
    assert axes == {"u": Axis(0, 1), "k": Log(1, 10), "c": Category("a", "b"), "n": Category(1, 2, 4)}


@pytest.mark.parametrize(
    "entries", [{}, {"u": 3}, {"u": []}, {"u": [[1], [2]]}, {"u": {"low": 1}}, {"u": [True, False, None]}]
)
def test_what_is_no_bound_in_a_file_is_refused(entries):
    if entries == {"u": [True, False, None]}:
        assert axes_of(entries) == {"u": Category(True, False, None)}
        return
    with pytest.raises(SteepError):
        axes_of(entries)


def test_any_text_is_bounds_or_refused():
    rng, n_read = random.Random(0), 0
    pieces = [
        "x",
        "y",
        "=",
        ":",
        ",",
        "0",
        "1",
        "-",
        "e5",
        ".",
        "{",
        "}",
        "|",
        "log",
        "int",
        " ",
        "é",
        "\n",
        "nan",
        "'",
    ]
    usual = ["x=0:1", "k=1:9:log", "n=0:7:int", "c={a|b}"]
    for _ in range(2000):
        parts = rng.sample(usual, rng.randrange(1, 4)) + rng.choices(pieces, k=rng.randrange(4))
        rng.shuffle(parts)
        try:
            parse_bounds(rng.choice(["", ","]).join(parts))
            n_read += 1
        except SteepError:
            continue
    assert 20 < n_read < 1980
