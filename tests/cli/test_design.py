"""``steep design`` evaluates a function of the user's where it varies, and writes what it found."""

import json

import numpy as np
import pandas as pd
import pytest

import steep
from steep.cli import main


def design(*arguments):
    return main(["design", *map(str, arguments)])


def test_the_points_are_those_of_the_library(here, capsys):
    assert design("simulator:together", "--bounds", "x=0:1,t=0:10", "-n", "24", "--seed", "3") == 0
    import simulator

    plan = steep.design(simulator.together, {"x": (0, 1), "t": (0, 10)}, 24, n_initial=6, random_state=3)
    frame = pd.read_csv(here / "design.csv")
    assert frame.columns.tolist() == ["x", "t", "f", "variation", "is_initial", "is_even"]
    np.testing.assert_allclose(frame[["x", "t"]], plan.X, rtol=1e-12)
    assert frame["is_initial"].sum() == 6
    assert frame["is_even"].tolist() == plan.is_even.tolist()
    assert "called with an array of points" in capsys.readouterr().out


def test_even_and_placed_points_are_counted_apart(here, capsys):
    """A plane pays for no placed runs: most of its points are even."""
    (here / "plane.py").write_text("def f(x, y, z):\n    return x + y + z\n")
    options = ["--bounds", "x=0:1,y=0:1,z=0:1", "-n", "60", "--report", "page.html", "--json"]
    assert design("plane:f", *options) == 0
    figures = json.loads(capsys.readouterr().out)
    frame = pd.read_csv(here / "design.csv")
    n_even, n_placed = (frame["is_even"] & ~frame["is_initial"]).sum(), (~frame["is_even"]).sum()
    assert (figures["start"], figures["even"], figures["placed"]) == (15, n_even, n_placed)
    assert n_even > 15
    words = f"60 points: 15 initial, {n_even} even and {n_placed} placed"
    assert words in (here / "page.html").read_text()
    assert design("plane:f", *options[:-3], "--force") == 0
    assert f"15 initial, {n_even} even and {n_placed} placed" in capsys.readouterr().out


def test_a_function_of_named_inputs_gets_them_and_names_its_outputs(here, capsys):
    options = ["-n", "12", "--n-initial", "6", "--json", "-o", "d.parquet"]
    assert design("simulator:run", "--bounds", "x=0:1,t=1:10:log", *options) == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert (figures["outputs"], figures["called_with"]) == (["u", "v"], "one point by name")
    assert "running" in printed.err
    frame = pd.read_parquet(here / "d.parquet")
    np.testing.assert_allclose(frame["v"], frame["x"] + frame["t"])


def test_categories_and_whole_numbers_reach_the_function_as_they_are(here):
    (here / "mixed.py").write_text("def f(n, c):\n    assert type(n) is int\n    return n if c == 'steel' else -n\n")
    assert design("mixed:f", "--bounds", "n=1:8:int,c={steel|copper}", "-n", "12") == 0
    frame = pd.read_csv(here / "design.csv")
    assert set(frame["c"]) == {"steel", "copper"}
    assert (frame["f"].abs() == frame["n"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulator:run"], "--bounds is missing"),
        (["simulator:run", "--bounds", "x=0:1"], "function takes (x, t) and is given one array"),
        (["simulator:number", "--bounds", "x=0:1"], "function is a int; expected a callable"),
        (["simulator:failing", "--bounds", "x=0:1"], "ValueError: no root at"),
        (["simulator:together", "--bounds", "x=0:1,t=0:1", "-n", "3", "--n-initial", "4"], "is larger than"),
        (["simulator:together", "--bounds", "x=0:1,t=0:1", "-o", "d.xlsx"], "has the suffix '.xlsx'"),
        (["simulator:together", "--bounds", "x=0:1,t=0:1", "-o", "solver"], "has the suffix ''"),
        (["calls:f", "--bounds", "x=0:1", "-o", "d.npy"], "has the suffix '.npy'; expected one of .csv"),
        (["simulator:together", "--bounds", "x=0:1,t=0:1", "-o", "there.csv"], "exists already"),
        (["simulator:together", "--bounds", "x=0:1,t=0:1", "--measure", "beauty"], "--measure 'beauty' is unknown"),
    ],
)
def test_bad_input_ends_with_one_line(here, capsys, arguments, message):
    (here / "there.csv").write_text("kept")
    (here / "calls.py").write_text("def f(x):\n    open('called', 'w').close()\n    return x\n")
    before = {path.name for path in here.iterdir()}
    assert design(*arguments) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line not in ("loading", "running")]
    assert len(lines) == 1
    assert message in lines[0]
    assert {path.name for path in here.iterdir()} - {"__pycache__"} == before
    assert (here / "there.csv").read_text() == "kept"


@pytest.mark.filterwarnings("always")
def test_a_function_that_fails_at_some_points_is_reported_in_words_of_the_shell(here, capsys):
    (here / "partly.py").write_text("def f(x):\n    if x > 0.8:\n        raise ValueError('no root')\n    return x\n")
    assert design("partly:f", "--bounds", "x=0:1", "-n", "12") == 0
    error = capsys.readouterr().err
    assert "no root" in error
    assert "failures()" not in error
    assert "call it at that point to see why" in error


def test_every_suffix_that_is_written_is_in_the_help(here, capsys):
    assert design("--help") == 0
    shown = capsys.readouterr().out
    for suffix in (".csv", ".txt", ".parquet", ".feather", ".arrow"):
        assert suffix in shown
        assert design("simulator:together", "--bounds", "x=0:1,t=0:1", "-n", "12", "-o", f"d{suffix}") == 0
