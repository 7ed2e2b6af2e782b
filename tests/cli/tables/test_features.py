"""Columns become points as the library encodes them, and what is missing is counted first."""

import numpy as np
import pandas as pd
import pytest

from steep.cli.tables import features as features_module
from steep.cli.tables import open_table
from steep.cli.tables.features import read_features
from steep.cli.tables.roles import assign_roles
from steep.cli.tables.target import read_target
from steep.exceptions import SteepError
from steep.weighting.embedding import embed

FEATURES = ["x", "count", "colour", "day"]


@pytest.fixture
def make(tmp_path):
    def begin(frame):
        frame.to_parquet(tmp_path / "t.parquet")
        return open_table([tmp_path / "t.parquet"])

    return begin


def test_points_are_those_of_the_library(make, frame):
    features = read_features(make(frame), FEATURES)
    np.testing.assert_allclose(features.points, embed(frame[FEATURES]))
    kinds = [(column.name, column.kind, column.width) for column in features.columns]
    assert kinds == [
        ("x", "numbers", 1),
        ("count", "numbers", 1),
        ("colour", "categories", 3),
        ("day", "dates", 1),
    ]


def test_many_points_are_kept_in_float32(make, frame, monkeypatch):
    monkeypatch.setattr(features_module, "_MANY_NUMBERS", 100)
    points = read_features(make(frame), FEATURES).points
    assert points.dtype == np.float32
    assert points.flags.c_contiguous
    np.testing.assert_allclose(points, embed(frame[FEATURES]), rtol=1e-5, atol=1e-6)


def test_missing_values_are_counted_by_column_and_refused(make, frame):
    frame.loc[:4, "x"] = np.nan
    frame.loc[:1, "colour"] = None
    with pytest.raises(
        SteepError, match=r"missing in 2 of 4 columns \('x' 5, 'colour' 2, of 60 rows\); .*--impute median"
    ):
        read_features(make(frame), FEATURES)


def test_imputing_is_what_the_library_does(make, frame):
    frame.loc[:4, "x"] = np.nan
    frame.loc[:1, "colour"] = None
    features = read_features(make(frame), FEATURES, impute="median")
    np.testing.assert_allclose(features.points, embed(frame[FEATURES]))
    assert features.missing == {"x": 5, "colour": 2}


def test_the_mean_stands_for_a_missing_number(make, frame):
    frame.loc[:4, "x"] = np.nan
    points = read_features(make(frame), ["x"], impute="mean").points
    assert points[:5].tolist() == [[points[0, 0], 1.0]] * 5
    assert points[0, 0] == pytest.approx(points[:, 0].mean(), abs=1e-12)
    assert (points[5:, 1] == 0).all()


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
def test_what_looks_like_an_id_is_named(make, frame, name, values, is_id):
    table = make(frame.assign(**{name: values})[["x", name]])
    assert read_features(table, ["x", name]).ids == ([name] if is_id else [])


@pytest.mark.parametrize("first", [0, 1])
def test_columns_that_count_the_rows_are_left_out_unless_kept(make, frame, first):
    table = make(frame.assign(n=np.arange(60) + first)[["x", "n"]])
    assert read_features(table, ["x", "n"]).counters == ["n"]
    assert read_features(table, ["x", "n"], keep=["n"]).names == ["x", "n"]


def test_infinite_values_are_named(make, frame):
    frame.loc[3, "x"] = np.inf
    with pytest.raises(SteepError, match="columns 'x' hold infinite values"):
        read_features(make(frame), FEATURES)


# ------------------------------------------------------------------------------------------- the target


@pytest.mark.parametrize(
    ("values", "task", "text"),
    [
        (["a", "b"] * 30, "classification", "2 classes (a 30, b 30)"),
        ([0, 1, 2] * 20, "classification", "3 classes"),
        ([0.0, 1.0] * 30, "classification", "2 classes (0 30, 1 30)"),
        ([True, False] * 30, "classification", "2 classes"),
        (np.linspace(0, 1, 60), "regression", "numbers from 0 to 1"),
        (np.arange(60) // 2, "regression", "numbers from 0 to 29"),
    ],
)
def test_classes_and_numbers_are_told_apart_and_stated(make, frame, values, task, text):
    target = read_target(make(frame.assign(y=values)), "y")
    assert target.task == task
    assert text in str(target)
    assert (target.hint is not None) == (text == "numbers from 0 to 29")


def test_the_user_may_say_how_to_read_the_target(make, frame):
    table = make(frame.assign(y=np.arange(60) // 2))
    assert read_target(table, "y", "classification").task == "classification"
    assert read_target(table, "count", "regression").task == "regression"
    with pytest.raises(SteepError, match=r"'kind' holds '[ab]', '[ab]'; need numbers"):
        read_target(table, "kind", "regression")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a"] * 60, "has one class only; need at least 2"),
        ([0.5] * 60, "has one value only; need several"),
        ([f"k{i}" for i in range(60)], "has a class of its own in each of 60 rows"),
        (["a", None] * 30, "is missing in 30 of 60 rows; need a label in every row"),
        ([0.5, np.nan] * 30, "is missing in 30 of 60 rows"),
        ([0.5, np.inf] * 30, "holds infinite values"),
        (pd.date_range("2025-01-01", periods=60), "holds dates; need classes or numbers"),
    ],
)
def test_a_target_that_teaches_nothing_is_refused(make, frame, values, message):
    with pytest.raises(SteepError, match=message):
        read_target(make(frame.assign(y=values)), "y")


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


def test_an_array_of_an_archive_is_dropped_by_its_name(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones((3, 2)), noise=np.ones((3, 2)), y=[0, 1, 0])
    table = open_table([tmp_path / "t.npz"])
    assert assign_roles(table, target="y", drop=["noise"]).features == ("X0", "X1")
