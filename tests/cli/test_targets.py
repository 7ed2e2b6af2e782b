"""``module:name`` finds the user's own code, and says what is wrong with it otherwise."""

import pytest

from steep._function import calling_style
from steep.cli.options import load_target
from steep.exceptions import SteepError


@pytest.mark.parametrize("text", ["simulator:run", "simulator.py:run", "./simulator.py:run"])
def test_a_function_of_the_current_folder_is_found(here, text):
    assert load_target(text)(x=0.3, t=2.0) == {"u": 0.0, "v": 2.3}


def test_a_name_may_have_dots():
    assert load_target("os:path.join")("a", "b") == "a/b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("simulator", "expected a module and a name in it"),
        (":run", "expected a module and a name in it"),
        ("simulator:", "expected a module and a name in it"),
        ("simulator:rnu", "simulator has no 'rnu'; .*run"),
        ("simulatr:run", "cannot find module 'simulatr'"),
        ("simulator.inner:run", "cannot find module|is not a package"),
        ("lacking:run", "importing lacking raises ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("broken:run", "importing broken raises SyntaxError"),
        ("ending:run", "importing ending raises SystemExit"),
    ],
)
def test_what_cannot_be_found_is_said_in_one_line(here, text, message):
    (here / "lacking.py").write_text("import nowhere_to_be_found")
    (here / "broken.py").write_text("def run(:")
    (here / "ending.py").write_text("raise SystemExit(0)")
    with pytest.raises(SteepError, match=message):
        load_target(text)


@pytest.mark.parametrize(
    ("function", "style"),
    [
        (lambda x, t: 0, "keywords"),
        (lambda t, x, scale=1.0: 0, "keywords"),
        (lambda **inputs: 0, "keywords"),
        (lambda *, x, t: 0, "keywords"),
        (lambda X: 0, "array"),
        (lambda points, scale=1.0: 0, "array"),
        (lambda *args: 0, "array"),
        (lambda x: 0, "array"),  # one of two inputs: taken as the array of points
        (lambda x, y: 0, None),
        (lambda: 0, None),
        (lambda X, extra: 0, None),
        (3, None),
        (max, "array"),
    ],
)
def test_the_signature_says_how_to_call(function, style):
    if style is None:
        with pytest.raises(SteepError, match=r"expected|rename"):
            calling_style(function, ("x", "t"))
    else:
        assert calling_style(function, ("x", "t")) == style


def test_a_function_of_the_only_input_gets_the_value_where_that_is_wanted():
    assert calling_style(lambda x: x, ("x",)) == "array"
    assert calling_style(lambda x: x, ("x",), alone="keywords") == "keywords"
