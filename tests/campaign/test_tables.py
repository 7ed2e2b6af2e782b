import numpy as np
import pandas as pd
import pytest

from campaign_simulators import BOUNDS
from steep import SteepError, SteepWarning
from steep.campaign import Campaign
from steep.domain.axes import Category, Integer, Log
from steep.exceptions import InputError


def test_a_frame_goes_out_and_comes_back(tmp_path):
    bounds = {"k": Log(1e-3, 1e3), "n": Integer(1, 5), "material": Category("steel", "copper")}

    def f(k, n, material):
        assert isinstance(n, int)
        return {"a": np.log(k) * n, "b": float(material == "steel")}

    with Campaign(bounds, storage=tmp_path / "a.db") as first, Campaign(bounds, storage=tmp_path / "b.db") as second:
        frame = first.run(f, 32).to_dataframe()
        assert set(frame.material) == {"steel", "copper"}
        assert set(frame.n) == {1, 2, 3, 4, 5}
        second.load_dataframe(frame)
        np.testing.assert_array_equal(second.X, first.X)
        np.testing.assert_array_equal(second.y, first.y)
        assert second.outputs == ("a", "b")


@pytest.mark.parametrize(
    ("frame", "message"),
    [({"u0": [0.1], "f": [1.0]}, r"lacks \['t'\]"), ({"u0": [0.1], "t": [1.0]}, "no output columns")],
)
def test_a_frame_with_wrong_names_is_refused(campaign, frame, message):
    with pytest.raises(InputError, match=message):
        campaign.load_dataframe(pd.DataFrame(frame))
    assert campaign.n_done == 0


def test_columns_that_are_neither_inputs_nor_outputs_are_left_out_with_a_line(storage):
    frame = pd.DataFrame({"u0": [0.1], "t": [1.0], "f": [1.0], "g": [2.0], "comment": ["slow"]})
    with Campaign(BOUNDS, outputs=["f"], storage=storage) as campaign:
        with pytest.warns(SteepWarning, match=r"columns \['g', 'comment'\] are neither inputs nor outputs"):
            campaign.load_dataframe(frame)
        assert campaign.y.tolist() == [1.0]


def test_text_is_not_taken_for_an_output(campaign):
    frame = pd.DataFrame({"u0": [0.1], "t": [1.0], "f": [1.0], "comment": ["slow"]})
    with pytest.raises(InputError, match=r"column 'comment' .*Campaign\(outputs=\[…\]\)"):
        campaign.load_dataframe(frame)
    assert campaign.n_done == 0


def test_rows_without_a_result_are_left_out_with_a_line(campaign):
    frame = pd.DataFrame(
        {"u0": [0.1, 0.2, 0.3, 0.4], "t": [1.0] * 4, "f": [1, np.nan, 3, np.nan], "g": [1.0, 2.0, 3.0, np.nan]},
        index=list("abcd"),
    )  # fmt: skip
    with pytest.warns(SteepWarning, match=r"2 of 4 rows lack an output and were left out: 'b', 'd'"):
        campaign.load_dataframe(frame)
    assert campaign.y.tolist() == [[1.0, 1.0], [3.0, 3.0]]


def test_runs_of_another_campaign_that_have_no_result_are_left_out_as_they_are_marked(tmp_path, campaign):
    with Campaign(BOUNDS, storage=tmp_path / "other.db") as other:
        X = other.ask(5)
        other.tell(X[:3], [1.0, 2.0, 3.0])
        other.tell_failure(X[3:4])
        other.forget(2)
        campaign.load_dataframe(other.to_dataframe())
    assert campaign.y.tolist() == [1.0, 3.0]


def test_tables_without_a_row_have_the_same_kinds_of_columns(storage):
    bounds = {"u": (0.0, 1.0), "n": Integer(1, 3), "m": Category("a", "b")}
    with Campaign(bounds, storage=storage) as campaign:
        tables = (campaign.failures, campaign.to_dataframe, campaign.events)
        empty = [table().dtypes for table in tables]
        asked = campaign.ask(2)
        campaign.tell_failure(asked[:1])
        campaign.tell(asked[1:], [1.0])
        campaign.forget(2)
        for before, table in zip(empty, tables, strict=True):
            after = table().dtypes
            common = [name for name in after.index if name in before.index]
            assert before[common].to_dict() == after[common].to_dict()


def test_inputs_outputs_and_marks_of_the_same_name_keep_columns_of_their_own(tmp_path):
    bounds = {"u": (0.0, 1.0), "state": (2.0, 3.0), "run": (4.0, 5.0), "message": (6.0, 7.0)}
    with (
        Campaign(bounds, storage=tmp_path / "a.db") as first,
        Campaign(bounds, outputs=["u", "v"], storage=tmp_path / "b.db") as second,
    ):
        first.run(
            lambda u, state, run, message: {"u": -u, "v": state} if u < 0.7 else 1 / 0,
            n_runs=16, retries=0,
        )  # fmt: skip
        frame = first.to_dataframe()
        done = frame[frame.state_ == "done"]
        assert (done.u_ == -done.u).all()
        assert (done.v == done.state).all()
        assert frame.run_.tolist() == list(range(1, 17))
        assert frame.columns.is_unique
        failures = first.failures()
        assert failures.message.between(6, 7).all()
        assert failures.message_.str.contains("ZeroDivisionError").all()
        second.load_dataframe(frame)
        np.testing.assert_array_equal(second.X, first.X)
        np.testing.assert_array_equal(second.y, first.y)


def test_a_frame_is_read_by_the_names_of_its_columns(tmp_path):
    frame = pd.DataFrame({"v": [2.0], "t": [1.0], "u": [1.0], "u0": [0.1]})
    with Campaign(BOUNDS, storage=tmp_path / "a.db") as first, Campaign(storage=tmp_path / "a.db") as second:
        first._tell_named(np.array([[0.5, 0.5]]), np.array([[1.0, 2.0]]), ("u", "v"))
        second.load_dataframe(frame)
        assert second.y.tolist() == [[1.0, 2.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    "columns",
    [
        {"u0": ["a"], "t": [1.0], "f": [1.0]},
        {"u0": [None], "t": [1.0], "f": [1.0]},
        {"u0": [0.1], "t": [np.inf], "f": [1.0]},
        {"u0": [0.1], "t": [1.0], "f": ["a"]},
        {"u0": [0.1], "t": [1.0], "f": pd.Series([10**400], dtype=object)},
        {"u0": pd.Series([10**400], dtype=object), "t": [1.0], "f": [1.0]},
        {"u0": [0.1], "t": [1.0], "f": [np.inf]},
        {"u0": [0.1], "t": [1.0], "f": [1.0 + 2.0j]},
        {"u0": [0.1], "t": [1.0], "f": pd.to_datetime(["2020-01-01"])},
        {"u0": [0.1], "t": [1.0], "f": pd.to_timedelta(["3 s"])},
        {"u0": [0.1], "t": pd.to_timedelta(["3 s"]), "f": [1.0]},
        {"u0": [0.1 + 1j], "t": [1.0], "f": [1.0]},
    ],
)
def test_a_frame_of_what_are_no_numbers_is_refused(campaign, columns):
    with pytest.raises(SteepError):
        campaign.load_dataframe(pd.DataFrame(columns))
    assert campaign.n_done == 0


def test_numbers_that_a_file_keeps_as_text_are_numbers(campaign):
    campaign.load_dataframe(pd.DataFrame({"u0": [0.1], "t": [1.0], "f": ["2.5"]}))
    assert campaign.y.tolist() == [2.5]


def test_a_frame_with_a_name_twice_is_refused(campaign):
    frame = pd.DataFrame([[0.1, 1.0, 1.0, 2.0]], columns=["u0", "t", "f", "f"])
    with pytest.raises(InputError, match="expected each name once"):
        campaign.load_dataframe(frame)
