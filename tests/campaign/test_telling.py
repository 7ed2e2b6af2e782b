import contextlib

import numpy as np
import pandas as pd
import polars as pl
import pytest

from campaign_simulators import BOUNDS, wave
from steep.campaign import Campaign
from steep.domain import Category, Integer, Log
from steep.exceptions import InputError, InputTypeError, SteepError

KINDS = {"u": (0.0, 1.0), "k": Log(1e-3, 1e3), "n": Integer(0, 10**6), "m": Category("a", "b", "c")}


def printed(X):
    """As most programs print numbers: six digits."""
    return np.array([[float(f"{x:g}") for x in row] for row in X])


def test_points_told_with_six_digits_are_those_that_were_asked(storage):
    with Campaign(KINDS, storage=storage) as campaign:
        X = campaign.ask(40)
        rounded = printed(X)
        assert (rounded != X).any(axis=1).mean() > 0.8  # corners are as they were
        campaign.tell(rounded[::-1], X[::-1, 0])
        assert (campaign.n_done, len(campaign.pending)) == (40, 0)
        assert set(campaign.to_dataframe().origin) == {"initial", "design"}
        np.testing.assert_array_equal(campaign.X[::-1], X)


def test_a_point_is_matched_within_the_tolerance_and_not_beyond(campaign):
    X = campaign.ask(3)
    shift = np.array([[0.5, 5.0]]) * [[1e-5], [3e-5], [0.0]]
    campaign.tell(X + shift, [1.0, 2.0, 3.0])
    assert campaign.to_dataframe().origin.tolist() == ["initial"] * 3 + ["foreign"]
    np.testing.assert_array_equal(campaign.pending, X[1:2])


def test_whole_numbers_and_categories_are_never_rounded_into_each_other(storage):
    with Campaign(KINDS, storage=storage) as campaign:
        x = campaign.ask(1)[0]
        for axis, step in ((2, 1), (3, 1 if x[3] < 2 else -1)):
            other = x.copy()
            other[axis] += step
            campaign.tell([other], [0.0])
        assert campaign.to_dataframe().origin.tolist() == ["initial", "foreign", "foreign"]
        assert len(campaign.pending) == 1


def test_two_points_never_mean_the_same_run(campaign):
    x = campaign.ask(1)[0]
    campaign.tell([x + 1e-7, x + 2e-7], [1.0, 2.0])
    assert campaign.n_done == 2
    assert campaign.to_dataframe().origin.tolist() == ["initial", "foreign"]


def test_failures_are_told_with_rounded_points_too(campaign):
    X = campaign.ask(2)
    campaign.tell_failure(printed(X), "diverged")
    assert campaign.n_failed == 2


def test_results_by_name_are_filed_by_name(campaign):
    X = campaign.ask(4)
    campaign.tell(X[:2], {"a": [1.0, 2.0], "b": [3.0, 4.0]})
    campaign.tell(X[2:3], {"b": 6.0, "a": 5.0})
    campaign.tell(X[3:], pd.DataFrame({"b": [8.0], "a": [7.0]}))
    assert campaign.outputs == ("a", "b")
    assert campaign.y.tolist() == [[1.0, 3.0], [2.0, 4.0], [5.0, 6.0], [7.0, 8.0]]
    with pytest.raises(InputError, match=r"outputs are \['a'\], expected \['a', 'b'\]"):
        campaign.tell([[0.1, 0.1]], {"a": 1.0})


SWAPPED = [
    pd.DataFrame({"t": [3.0, 4.0], "u0": [0.1, 0.2]}),
    pl.DataFrame({"t": [3.0, 4.0], "u0": [0.1, 0.2]}),
    pd.DataFrame({"t": [3, 4], "u0": [0.1, 0.2]}, index=[7, 8]),
    {"t": [3.0, 4.0], "u0": [0.1, 0.2]},
]


@pytest.mark.parametrize("X", SWAPPED)
def test_points_by_name_are_filed_by_name(campaign, X):
    campaign.tell(X, [1.0, 2.0])
    assert campaign.X.tolist() == [[0.1, 3.0], [0.2, 4.0]]
    assert campaign.box.contains(X).all()
    assert campaign.box.unit(X).tolist() == [[0.1, 0.3], [0.2, 0.4]]


@pytest.mark.parametrize("X", SWAPPED)
def test_failed_points_by_name_are_found_by_name(storage, X):
    with Campaign(BOUNDS, storage=storage) as campaign:
        asked = campaign.ask(2)
        table = pd.DataFrame(asked, columns=["u0", "t"])[["t", "u0"]]
        kind = type(X)
        named = {name: list(table[name]) for name in table} if kind is dict else kind(table.to_dict("list"))
        campaign.tell_failure(named)
        assert campaign.n_failed == 2


def test_categories_of_a_named_point_are_their_values(storage):
    with Campaign(KINDS, storage=storage) as campaign:
        frame = campaign.ask(3, lease="1 h")
        campaign.tell(frame[["m", "n", "k", "u"]], [1.0, 2.0, 3.0])
        assert (campaign.n_done, len(campaign.pending)) == (3, 0)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pd.DataFrame({"t": [1.0], "u": [0.1]}), r"columns \['t', 'u'\]; expected \['u0', 't'\]"),
        (pd.DataFrame({"t": [1.0], "u0": [0.1], "v": [0.1]}), r"columns \['t', 'u0', 'v'\]"),
        (pd.DataFrame([[1.0, 0.1]], columns=["t", "t"]), r"columns \['t', 't'\]"),
        (pl.DataFrame({"t": [1.0]}), r"columns \['t'\]"),
        ({"t": [1.0, 2.0], "u0": [0.1]}, "same length"),
        (pd.DataFrame({"t": [None], "u0": [0.1]}), "value of 't' is None"),
        (pd.DataFrame({"t": [np.nan], "u0": [0.1]}), "NaN"),
        (pd.DataFrame({"t": [pd.NA], "u0": [0.1]}), "value of 't' is <NA>"),
    ],
)
def test_points_whose_names_do_not_match_are_one_clear_line(campaign, X, message):
    for call in (lambda: campaign.tell(X, [1.0]), lambda: campaign.tell_failure(X)):
        with pytest.raises(SteepError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert campaign.n_done == 0


def test_points_without_names_are_taken_in_order(tmp_path, campaign):
    campaign.tell(pd.DataFrame([[0.1, 3.0]]), [1.0])
    assert campaign.X.tolist() == [[0.1, 3.0]]
    with Campaign([(0, 1), (0, 10)], storage=tmp_path / "list.db") as unnamed:
        unnamed.tell(pd.DataFrame({"a": [0.1], "b": [3.0]}), [1.0])
        unnamed.tell(pd.DataFrame({"x1": [4.0], "x0": [0.2]}), [1.0])
        assert unnamed.X.tolist() == [[0.1, 3.0], [0.2, 4.0]]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, dict])
def test_results_of_every_kind_of_table_are_filed_by_name(campaign, kind):
    numbers = campaign.ask(4, lease="1 h").run.tolist()
    campaign.tell(run=numbers[:2], y={"a": [1.0, 2.0], "b": [3.0, 4.0]})
    campaign.tell(run=numbers[2:], y=kind({"b": [3.0, 4.0], "a": [1.0, 2.0]}))
    assert campaign.y.tolist() == [[1.0, 3.0], [2.0, 4.0]] * 2
    campaign.correct(numbers[0], kind({"b": [5.0], "a": [6.0]}))
    assert campaign.to_dataframe().loc[0, ["a", "b"]].tolist() == [6.0, 5.0]


def test_the_outputs_of_one_point_may_be_a_series_with_names(campaign):
    campaign.tell([[0.1, 1.0]], {"a": 1.0, "b": 2.0})
    campaign.tell([[0.2, 1.0]], pd.Series({"b": 2.0, "a": 1.0}))
    assert campaign.y.tolist() == [[1.0, 2.0]] * 2
    with pytest.raises(InputError, match=r"outputs are \['a', 'c'\], expected \['a', 'b'\]"):
        campaign.tell([[0.3, 1.0]], pd.Series({"c": 2.0, "a": 1.0}))


@pytest.mark.parametrize(
    "y",
    [
        np.ma.array([1.0, 9.97e36], mask=[0, 1]),
        np.ma.array([[1.0], [9.97e36]], mask=[[0], [1]]),
        [1.0, np.ma.masked],
        [np.ma.array([1.0]), np.ma.array([2.0], mask=True)],
        {"f": np.ma.array([1.0, 9.97e36], mask=[0, 1])},
        {"f": [1.0, np.ma.masked]},
        {"f": [1.0, None]},
        [1.0, pd.NA],
        pd.Series([1, None], dtype="Int64"),
        pd.DataFrame({"f": pd.Series([1, None], dtype="Int64")}),
        pl.Series([1.0, None]),
        pl.DataFrame({"f": [1.0, None]}),
        pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["f", "f"]),
        pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=[1, "1"]),
        [1.0, 2.0 + 1j],
        {"f": np.array([1.0, 2.0 + 1j])},
    ],
)
def test_masked_missing_or_ambiguous_results_record_nothing(campaign, y):
    with pytest.raises(SteepError) as caught:
        campaign.tell([[0.1, 1.0], [0.2, 2.0]], y)
    assert "\n" not in str(caught.value)
    assert campaign.n_done == 0


def test_masked_points_record_nothing(campaign):
    for X in (
        np.ma.array([[0.1, 1.0]], mask=[[0, 1]]),
        [[0.1, np.ma.masked]],
        {"u0": np.ma.array([0.1], mask=[1]), "t": [1.0]},
    ):
        with pytest.raises(SteepError, match="masked"):
            campaign.tell(X, [1.0])
    assert campaign.n_done == 0


def test_results_told_beforehand_shorten_the_start(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((12, 2)) * [1, 10]
    with Campaign(BOUNDS, storage=tmp_path / "a.db", n_initial=16) as campaign:
        campaign.tell(np.vstack([X, [[5.0, 5.0]]]), [*[wave(*x) for x in X], 0.0])  # one lies outside
        campaign.ask(10)
        assert campaign.to_dataframe().origin.value_counts().to_dict() == {"foreign": 13, "design": 6, "initial": 4}
    with Campaign(BOUNDS, storage=tmp_path / "b.db") as campaign:
        campaign.tell(X, [wave(*x) for x in X])
        campaign.run(wave, 12)
        assert campaign.to_dataframe().origin.value_counts().to_dict() == {"foreign": 12, "design": 12}


ODD = [
    None, True, 0, -1, 1, 2, 10**30, 1.5, np.nan, "", "1", [], [1], [1, 1], [1, "a"], {}, {"a": 1}, {"f": [1.0]},
    {"f": []}, {1: 2.0}, np.array([1, 2]), np.array([[1.0]]), pd.Series([1]), object(), [None], ["1"],
    pd.DataFrame({"run": [1], "f": [1.0]}), pd.DataFrame({"run": ["x"], "f": [1.0]}), pd.DataFrame({"run": [1.5]}),
    pd.DataFrame({"f": [1.0]}), pd.DataFrame({"run": [1], "f": [np.inf]}), pd.DataFrame({"run": [1], "error": ["e"]}),
]  # fmt: skip


def test_odd_results_numbers_and_changes_work_or_raise_a_steep_error(storage):
    rng = np.random.default_rng(0)

    def odd():
        return ODD[rng.integers(len(ODD))]

    doors = [
        lambda c: c.tell(run=odd(), y=odd()),
        lambda c: c.tell(odd(), odd(), run=odd()),
        lambda c: c.tell_failure(odd(), run=odd()),
        lambda c: c.tell_failure(run=odd()),
        lambda c: c.ask(1, lease=odd()),
        lambda c: c.tell_dataframe(odd()),
        lambda c: c.correct(odd(), odd(), reason=odd()),
        lambda c: c.correct(1, odd()),
        lambda c: c.forget(odd()),
        lambda c: c.retry_failures(odd()),
    ]
    for case in range(400):
        with Campaign(BOUNDS, storage=":memory:") as campaign:
            if case % 2:
                campaign.tell(campaign.ask(2)[:1], {"f": 1.0})
            with contextlib.suppress(SteepError):
                doors[case % len(doors)](campaign)
            assert campaign.n_done + len(campaign.pending) >= 0
            campaign.to_dataframe()


def test_tell_needs_points_or_numbers_and_not_both(campaign):
    for call in (
        lambda: campaign.tell(y=[1.0]),
        lambda: campaign.tell([[0.1, 0.1]], [1.0], run=1),
        campaign.tell_failure,
        lambda: campaign.tell_failure([[0.1, 0.1]], run=1),
    ):
        with pytest.raises(InputTypeError, match="one of them"):
            call()
