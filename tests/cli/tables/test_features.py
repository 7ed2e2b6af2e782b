"""What columns hold is found out and stated; labels are read as the library reads them."""

import warnings

import numpy as np
import pandas as pd
import pytest

from steep.cli.tables import open_table
from steep.cli.tables.features import examine
from steep.cli.tables.roles import assign_roles
from steep.cli.tables.target import read_target
from steep.exceptions import SteepError
from steep.labels import check_labels

FEATURES = ["x", "count", "colour", "day"]


@pytest.fixture
def make(tmp_path):
    def begin(frame):
        frame.to_parquet(tmp_path / "t.parquet")
        return open_table([tmp_path / "t.parquet"])

    return begin


def test_the_kind_of_every_column_is_found(frame):
    kinds = [(column.name, column.kind) for column in examine(frame[FEATURES]).columns]
    assert kinds == [("x", "numbers"), ("count", "numbers"), ("colour", "categories"), ("day", "dates")]


def test_missing_values_are_counted_by_column(frame):
    frame.loc[:4, "x"] = np.nan
    frame.loc[:1, "colour"] = None
    assert examine(frame[FEATURES]).missing == {"x": 5, "colour": 2}


def test_a_column_without_any_value_is_left_out(frame):
    found = examine(frame.assign(none=np.nan)[["x", "none"]])
    assert (found.names, found.empty) == (["x"], ["none"])


@pytest.mark.parametrize(
    ("name", "values", "is_id"),
    [
        ("patient_id", [*range(500, 560)][::-1], True),
        ("customerId", [*range(500, 560)][::-1], True),
        ("year", [*range(500, 560)], True),  # counts upwards
        ("price", [*range(500, 560)][::-1], False),
        ("name", [f"n{i}" for i in range(60)], True),
        ("colour", ["red", "blue"] * 30, False),
        ("x_id", np.linspace(0, 1, 60), False),
    ],
)
def test_what_looks_like_an_id_is_named(frame, name, values, is_id):
    assert examine(frame.assign(**{name: values})[["x", name]]).ids == ([name] if is_id else [])


@pytest.mark.parametrize("first", [0, 1])
def test_columns_that_count_the_rows_are_left_out_unless_kept(frame, first):
    counted = frame.assign(n=np.arange(60) + first)[["x", "n"]]
    assert examine(counted).counters == ["n"]
    assert examine(counted, keep=["n"]).names == ["x", "n"]


def test_infinite_values_are_named(frame):
    frame.loc[3, "x"] = np.inf
    with pytest.raises(SteepError, match="columns 'x' hold infinite values"):
        examine(frame[FEATURES])


# ------------------------------------------------------------------------------------------- the target


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"] * 30,
        [0, 1, 2] * 20,
        [0.0, 1.0] * 30,
        [0.0, 1.0, 2.0] * 20,
        [True, False] * 30,
        np.linspace(0, 1, 60),
        np.arange(60) // 2,
        np.arange(60) // 4,
        np.arange(1990, 2020).repeat(2),
    ],
)
def test_the_target_is_read_by_the_rule_of_the_library(values):
    target = read_target(pd.Series(values, name="y"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = check_labels(np.asarray(values), n_samples=60)
    assert target.task == ("regression" if expected.codes is None else "classification")
    assert ("classes" if expected.codes is not None else "numbers from") in str(target)
    np.testing.assert_array_equal(target.labels.array, expected.array)


@pytest.mark.parametrize("values", [np.arange(60) // 2, [0.0, 1.0] * 30])
def test_a_doubtful_target_is_explained_in_words_of_the_shell(values):
    hint = read_target(pd.Series(values, name="y")).hint
    assert "the target 'y' holds" in hint
    assert "--task " in hint
    assert "task=" not in hint


def test_the_user_may_say_how_to_read_the_target(frame):
    assert read_target(pd.Series(np.arange(60) // 2, name="y"), "classification").task == "classification"
    assert read_target(frame["count"], "regression").task == "regression"
    with pytest.raises(SteepError, match=r"'kind' holds '[ab]', '[ab]'; expected numbers"):
        read_target(frame["kind"], "regression")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a"] * 60, "has only one class; expected at least 2"),
        ([0.5] * 60, "has only one value; expected several"),
        ([f"k{i}" for i in range(60)], "has a class of its own in each of 60 rows"),
        ([0.5, np.inf] * 30, "holds infinite values"),
        (pd.date_range("2025-01-01", periods=60), "holds dates; expected classes or numbers"),
    ],
)
def test_a_target_that_teaches_nothing_is_refused(values, message):
    with pytest.raises(SteepError, match=message):
        read_target(pd.Series(values, name="y"))


# ------------------------------------------------------------------------------------------- roles


def test_every_column_has_one_role(make, frame):
    table = make(frame.assign(sample_weight=1.0, who=1))
    roles = assign_roles(table, target="kind", drop=["day"], groups="who", weights={"sample_weight"})
    assert roles.features == ("x", "count", "colour")
    assert (roles.groups, roles.dropped, roles.old_weights) == ("who", ("day",), ("sample_weight",))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"target": "knid"}, r"has no column 'knid'; .*; did you mean 'kind'\?"),
        ({"target": "kind", "drop": ["none"]}, "has no column 'none'"),
        ({"target": "kind", "groups": "none"}, "has no column 'none'"),
        ({"target": "kind", "drop": ["kind"]}, "'kind' is the target"),
        ({"target": "kind", "groups": "kind"}, "'kind' is the target"),
    ],
)
def test_wrong_names_are_refused(make, frame, asked, message):
    with pytest.raises(SteepError, match=message):
        assign_roles(make(frame), **asked)


def test_a_table_without_a_header_is_suspected(tmp_path):
    (tmp_path / "t.csv").write_text("1.5,2.5\n3.5,4.5\n")
    with pytest.raises(SteepError, match=r"is there a header\?"):
        assign_roles(open_table([tmp_path / "t.csv"]), target="y")
