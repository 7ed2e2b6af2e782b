"""Runs asked by one process and told by another: no process lives in between."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from campaign_simulators import BOUNDS, wave
from steep.campaign import Campaign
from steep.exceptions import InputError, SteepWarning


@pytest.fixture
def clock(monkeypatch):
    """The time of day, to be turned on by hand."""

    class Clock:
        now = 1.8e9

        def __call__(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr("time.time", clock)
    return clock


def test_a_lease_is_a_frame_of_numbers_inputs_and_an_end(storage, clock):
    bounds = {"k": (0.0, 1.0), "material": ["steel", "copper"]}
    with Campaign(bounds, storage=storage) as campaign:
        frame = campaign.ask(3, lease="12 h")
        assert list(frame.columns) == ["run", "k", "material", "expires"]
        assert frame.run.tolist() == [1, 2, 3]
        assert set(frame.material) <= {"steel", "copper"}
        assert (frame.expires == pd.Timestamp(clock.now + 12 * 3600, unit="s", tz="UTC")).all()
        np.testing.assert_array_equal(
            campaign.box.encode(frame[["k", "material"]].to_dict("records")), campaign.pending
        )


def test_a_lease_outlives_its_process_and_ends_with_its_time(storage, clock):
    with Campaign(BOUNDS, storage=storage) as campaign:
        frame = campaign.ask(4, lease="12 h")
    with Campaign(storage=storage) as other:
        others = other.ask(4)
        assert not {*map(tuple, others)} & {*zip(frame.u0, frame.t, strict=True)}
        other.tell(others, [wave(*x) for x in others])
        clock.now += 11 * 3600
        assert other.ask(2, lease=60).run.tolist() == [9, 10]
        clock.now += 2 * 3600
        again = other.ask(6, lease="1 h")
        assert again.run.tolist() == [1, 2, 3, 4, 9, 10]
        np.testing.assert_array_equal(again.u0[:4], frame.u0)
    with Campaign(storage=storage) as third:
        assert third.ask(1, lease=60).run.tolist() == [11]


def test_results_are_told_by_number_from_another_process_even_after_the_lease(storage, clock):
    with Campaign(BOUNDS, storage=storage) as campaign:
        frame = campaign.ask(4, lease="1 h")
    clock.now += 7200
    with Campaign(storage=storage) as other:
        other.tell(run=frame.run[:2], y=[1.0, 2.0])
        other.tell_failure(run=3, message="diverged")
        assert (other.n_done, other.n_failed) == (2, 1)
        np.testing.assert_array_equal(other.X, frame[["u0", "t"]][:2])
        with pytest.raises(InputError, match=r"run 1 at .* has another result already"):
            other.tell(run=[4, 1], y=[4.0, 9.0])
        assert other.n_done == 2
        other.tell(run=3, y=3.0)  # it worked after all
        assert (other.n_done, other.n_failed) == (3, 0)
        with pytest.raises(InputError, match="run 99 is not in"):
            other.tell(run=99, y=1.0)


def test_a_run_let_go_of_is_asked_again_at_once(campaign):
    frame = campaign.ask(2, lease="12 h")
    campaign._release([int(frame.run[1])])
    assert campaign.ask(1, lease="1 h").run.tolist() == [2]


def test_a_campaign_leaves_leased_runs_to_who_has_them(storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        frame = campaign.ask(3, lease="12 h")
        campaign.run(wave, 10)
        assert (campaign.n_done, len(campaign.pending)) == (7, 3)
        campaign.tell_dataframe(frame.assign(y0=[1.0, 2.0, 3.0]))
        assert campaign.n_done == 10


def test_a_table_tells_results_and_failures_and_leaves_out_the_rest(tmp_path, storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        campaign.ask(4, lease="12 h").to_csv(tmp_path / "points.csv", index=False)
    table = pd.read_csv(tmp_path / "points.csv")
    table["f"] = [1.0, np.nan, np.nan, 4.0]
    table["error"] = [None, "mesh tangled", None, None]
    table.to_csv(tmp_path / "results.csv", index=False)
    with Campaign(storage=storage) as other:
        other.tell_dataframe(pd.read_csv(tmp_path / "results.csv"))
        other.tell_dataframe(pd.read_csv(tmp_path / "results.csv"))  # a script that runs twice
        assert (other.outputs, other.y.tolist(), other.n_failed, len(other.pending)) == (("f",), [1.0, 4.0], 1, 1)
        assert other.failures().message.tolist() == ["mesh tangled"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"f": [1.0]}, r"lacks \['run'\]"),
        ({"run": [1], "t": [3.0], "u0": [0.9], "f": [1.0]}, "inputs of run 1 are not those it was asked with"),
        ({"run": ["a"], "f": [1.0]}, "must contain run numbers"),
        ({"run": [1], "f": ["a"]}, "outputs of the frame are not numbers"),
        ({"run": [7], "f": [1.0]}, "run 7 is not in"),
        ({"run": [1, 1], "f": [1.0, 2.0]}, "same run twice"),
    ],
)
def test_a_table_that_is_not_of_these_runs_is_refused(storage, columns, message):
    with Campaign(BOUNDS, outputs=["f"], storage=storage) as campaign:
        campaign.ask(2, lease="1 h")
        with pytest.raises(InputError, match=message):
            campaign.tell_dataframe(pd.DataFrame(columns))
        assert campaign.n_done == 0


@pytest.mark.parametrize("lease", ["12", "12 parsecs", 0, -1, "-3 h", "NaT", np.nan, True, [1]])
def test_a_lease_that_is_no_time_is_refused_before_anything_is_asked(campaign, lease):
    with pytest.raises((InputError, TypeError), match="lease"):
        campaign.ask(1, lease=lease)
    assert len(campaign.to_dataframe()) == 0


def test_a_campaign_asks_only_with_the_constraint_it_was_started_with(storage):
    def allowed(X):
        return X[:, 0] < 0.5

    Campaign(BOUNDS, storage=storage, constraint=allowed).close()
    with pytest.warns(SteepWarning, match=r"has a constraint that is a function, .* pass constraint= again"):
        campaign = Campaign(storage=storage)
    with campaign:
        with pytest.raises(InputError, match=r"has a constraint .* pass constraint= again.* to ask for points"):
            campaign.ask(1)
        campaign.tell([[0.1, 0.1]], [1.0])
    with Campaign(storage=storage, constraint=allowed) as campaign:
        assert (campaign.ask(20)[:, 0] < 0.5).all()


def test_the_length_of_the_start_is_that_of_the_file(storage):
    Campaign(BOUNDS, storage=storage, n_initial=3).close()
    with Campaign(storage=storage) as campaign:
        campaign.ask(5)
        assert campaign.to_dataframe().origin.tolist() == ["initial"] * 3 + ["design"] * 2


ASK = """
import sys
from steep.campaign import Campaign
Campaign(storage=sys.argv[1]).ask(6, lease="1 h").to_csv(sys.argv[2], index=False)
"""


@pytest.mark.slow
def test_no_process_need_live_between_ask_and_tell(tmp_path, storage):
    Campaign(BOUNDS, storage=storage).close()
    for day in range(2):
        subprocess.run([sys.executable, "-c", ASK, str(storage), str(tmp_path / "points.csv")], check=True, timeout=180)
        table = pd.read_csv(tmp_path / "points.csv")
        with Campaign(storage=storage) as campaign:
            campaign.tell_dataframe(table.assign(f=[wave(*x) for x in table[["u0", "t"]].to_numpy()]))
            assert campaign.n_done == 6 * (day + 1)
