"""What a run returns is recorded as it was meant, or the run failed: nothing in between."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from steep import Adaptive, SteepError, SteepWarning, design
from steep.campaign import Campaign


def recorded(*answers, outputs=None):
    """Results and kinds of failure of runs that return one answer after another."""
    left = iter(answers)
    with Campaign({"u": (0.0, 1.0)}, storage=":memory:", outputs=outputs) as campaign:
        campaign.run(lambda u: next(left), len(answers), retries=0)
        return campaign.y.tolist(), campaign.failures()["kind"].tolist(), campaign.outputs


GOOD = np.array([1.0, 2.0])
MASKED = np.ma.array([1.0, 9.97e36], mask=[0, 1])


@pytest.mark.parametrize(
    "missing",
    [
        MASKED,
        [MASKED],
        np.ma.array(GOOD, mask=True),
        [1.0, np.ma.masked],
        (np.ma.masked, 2.0),
        [1.0, None],
        [1.0, pd.NA],
        pd.array([1, None], dtype="Int64"),
        pd.Series([1, None], dtype="Int64"),
        pl.Series([1.0, None]),
    ],
)
def test_a_masked_or_missing_output_fails_its_run(missing):
    y, kinds, _ = recorded(GOOD, missing)
    assert y == [GOOD.tolist()]
    assert len(kinds) == 1


@pytest.mark.parametrize("missing", [np.ma.masked, MASKED[1], MASKED[1:], None, pd.NA, pd.NaT])
def test_one_masked_or_missing_number_fails_its_run_named_or_not(missing):
    assert recorded(1.0, missing)[0] == [1.0]
    assert recorded({"f": 1.0}, {"f": missing})[0] == [1.0]


def test_a_mask_that_hides_nothing_is_no_matter():
    assert recorded(np.ma.array(GOOD), [np.ma.array(1.0), 2.0])[0] == [GOOD.tolist()] * 2


@pytest.mark.parametrize(
    "wrong",
    [
        1 + 2j, np.complex128(1 + 2j), np.array([1 + 2j]), [np.complex64(1 + 2j)], np.array([1 + 2j], dtype=object),
        np.timedelta64(5, "s"), np.datetime64("2020-01-01"), np.array(["2020-01-01"], dtype="M8[D]"),
        10**400, "text", [1.0, 2.0], [], {}, object(), {1.0}, np.inf, -np.inf, np.nan,
    ],
)  # fmt: skip
def test_what_is_not_one_real_number_fails_its_run(wrong):
    y, kinds, _ = recorded(1.0, wrong)
    assert (y, len(kinds)) == ([1.0], 1)
    y, kinds, _ = recorded({"f": 1.0}, {"f": wrong})
    assert (y, len(kinds)) == ([1.0], 1)


@pytest.mark.parametrize(
    "right",
    [
        2, True, np.bool_(True), np.float32(1.5), np.int8(-3), np.array(2.5), np.array([2.5]), Decimal("2.5"),
        Fraction(5, 2), "2.5", 2**53, pd.Series([2.5]), pl.Series([2.5]),
    ],
)  # fmt: skip
def test_every_kind_of_number_is_recorded_as_its_float(right):
    value = float(np.ravel(right)[0])
    assert recorded(right)[0] == [value]
    assert recorded({"f": right})[0] == [value]


NAMED = [
    lambda a, b: {"a": a, "b": b},
    lambda a, b: {"b": b, "a": a},
    lambda a, b: pd.Series({"b": b, "a": a}),
    lambda a, b: pd.DataFrame({"b": [b], "a": [a]}),
    lambda a, b: pl.DataFrame({"b": [b], "a": [a]}),
]


def test_outputs_with_names_are_filed_by_name_whatever_their_order():
    y, kinds, outputs = recorded(*[named(1.0, 2.0) for named in NAMED])
    assert (y, kinds, outputs) == ([[1.0, 2.0]] * len(NAMED), [], ("a", "b"))
    y, kinds, outputs = recorded(*[named(1.0, 2.0) for named in NAMED], outputs=["b", "a"])
    assert (y, kinds, outputs) == ([[2.0, 1.0]] * len(NAMED), [], ("b", "a"))


@pytest.mark.parametrize(
    "wrong",
    [
        pd.Series({"a": 1.0, "c": 2.0}),
        pd.Series([1.0, 2.0], index=["a", "a"]),
        pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
        pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}),
        pl.DataFrame({"a": [1.0, 2.0]}),
        {"a": 1.0, "b": [2.0, 3.0]},
        {1: 1.0, "1": 2.0},
    ],
)
def test_names_that_do_not_match_fail_their_run(wrong):
    y, kinds, _ = recorded({"a": 1.0, "b": 2.0}, wrong)
    assert (y, len(kinds)) == ([[1.0, 2.0]], 1)


def test_a_series_without_names_is_a_sequence():
    assert recorded(GOOD, pd.Series(GOOD, index=[1, 0]))[0] == [GOOD.tolist()] * 2


@pytest.mark.parametrize("style", ["point", "keywords", "mapping"])
def test_a_design_files_named_outputs_by_name(style):
    left = iter(range(10**6))

    def solve(*point, **inputs):
        k = next(left)
        return NAMED[k % len(NAMED)](k, -1.0 - k)

    found = design(solve, [(0, 1), (0, 1)], 12, n_initial=8, pass_as=style, random_state=0)
    assert found.outputs == ("a", "b")
    assert (found.y[:, 0] >= 0).all()
    assert (found.y[:, 1] == -1 - found.y[:, 0]).all()


def test_a_design_of_all_points_at_once_files_columns_by_name():
    left = iter(range(10**6))

    def solve(X):
        frame = pd.DataFrame({"a": X[:, 0], "b": -X[:, 1]})
        turned = frame[["b", "a"]] if next(left) % 2 else frame
        return turned if len(X) % 2 else pl.from_pandas(turned)

    found = design(solve, [(0, 1), (0, 1)], 18, n_initial=9, strategy=Adaptive(rounds=3), random_state=0)
    np.testing.assert_array_equal(found.y, found.X * [1, -1])
    assert found.outputs == ("a", "b")


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("missing", [np.ma.masked, MASKED[1], MASKED[1:], [MASKED[1:]]])
def test_a_masked_output_fails_its_point_of_a_design(missing, named):
    left = iter(range(10**6))

    def solve(u, t):
        value = missing if next(left) == 3 else u + 1
        return {"f": value} if named else value

    with pytest.warns(SteepWarning, match="failed at 1 of 12 points"):
        found = design(solve, {"u": (0, 1), "t": (0, 1)}, 12, n_initial=8, random_state=0)
    np.testing.assert_array_equal(found.y, found.X[:, 0] + 1)
    assert len(found.failed) == 1


@pytest.mark.parametrize("columns", [["a", "a"], ["a", "c"]])
def test_a_design_rejects_columns_that_do_not_match(columns):
    left = iter(range(10**6))

    def solve(X):
        return pd.DataFrame(X, columns=columns if next(left) else ["a", "b"])

    with pytest.raises(SteepError, match="a"):
        design(solve, [(0, 1), (0, 1)], 12, n_initial=8, strategy=Adaptive(rounds=2), random_state=0)
