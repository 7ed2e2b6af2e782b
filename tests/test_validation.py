import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import steep
from steep._validation import check_count, check_points, check_real
from steep.exceptions import InputError, InputTypeError

GOOD = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "given",
    [GOOD, np.array(GOOD), np.array(GOOD, dtype=int), np.array(GOOD).astype(str), pd.DataFrame(GOOD), pl.DataFrame(
        {"a": [1.0, 3.0], "b": [2.0, 4.0]}), pd.DataFrame(GOOD).astype("Float64"), np.array(GOOD, dtype=object),
     np.array(GOOD, dtype=np.float16), np.ma.masked_array(GOOD)],
)  # fmt: skip
def test_numbers_in_any_container_are_numbers(given):
    points = check_points(given)
    assert points.dtype == np.float64
    np.testing.assert_array_equal(points, GOOD)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_floats_are_kept_without_a_copy(kind):
    X = np.array(GOOD, dtype=kind)
    assert check_points(X) is X or check_points(X).base is X


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([["2020-01-01", "NaT"]], dtype="datetime64[D]"), "X is not numeric"),
        (pd.DataFrame({"when": pd.to_datetime(["2020-01-01", None])}), "X is not numeric"),
        ([[datetime.date(2020, 1, 1)]], "X is not numeric"),
        (np.ma.masked_array(GOOD, mask=[[0, 1], [0, 0]]), "X is masked at 1 of 4 entries; expected a value everywhere"),
        ([[1.0, np.ma.masked]], "X is masked at 1 of 1 entries"),
        ([[10**400]], "X is not numeric .*too large"),
        (pd.DataFrame({"a": pd.array([1.0, None], dtype="Float64")}), r"X contains NaN, first at \[1, 0\]"),
        ([[1j]], "X is complex"),
        ([["a"]], "X is not numeric"),
    ],
)
def test_what_is_no_number_is_refused_in_one_line(given, message):
    with pytest.raises((InputError, InputTypeError), match=message) as caught:
        check_points(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_numbers_beyond_all_floats_are_out_of_range(value):
    with pytest.raises(InputError, match="out of range"):
        check_real(value, name="x")
    with pytest.raises(InputError, match=r"too (large|small)"):
        check_count(value, name="n")


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no")


def test_errors_stay_short_and_on_one_line_whatever_was_passed():
    for odd in ("x" * 10_000, "a\nb", Unshowable(), [0] * 10_000):
        with pytest.raises(InputTypeError) as caught:
            check_real(odd, name="x")
        assert len(str(caught.value)) < 200
        assert "\n" not in str(caught.value)


def test_warnings_point_at_the_line_that_called():
    X, ages = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60)
    calls = [
        lambda: steep.neighbor_variance(X, ages),
        lambda: steep.sample_weights(X, ages),
        lambda: steep.VariationSampler([(0, 1)]).fit([[0.5]], [0.0]),
    ]
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert caught
        assert {warning.filename for warning in caught} == {__file__}
