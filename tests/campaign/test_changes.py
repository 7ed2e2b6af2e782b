import numpy as np
import pytest

from campaign_functions import BOUNDS, raises, wave
from steep.campaign import Campaign
from steep.domain import Category, Integer, Log
from steep.exceptions import InputError, InputTypeError


def run_done(campaign, n=10):
    return campaign.run(wave, n_initial=n, n_samples=0)


def test_a_corrected_result_counts_from_then_on_everywhere_and_the_old_one_is_kept(storage):
    with Campaign(BOUNDS, storage=storage) as campaign, Campaign(storage=storage) as other:
        run_done(campaign)
        before, place = campaign.y, other.y  # both have read it
        campaign.correct(3, 7.5, reason="unit")
        for reader in (campaign, other):
            assert reader.y[2] == 7.5
            np.testing.assert_array_equal(np.delete(reader.y, 2), np.delete(before, 2))
        (event,) = other.events().to_dict("records")
        assert (event["kind"], event["run"]) == ("corrected", 3)
        assert event["detail"] == {"from": [place[2]], "to": [7.5], "reason": "unit"}
        with pytest.raises(InputError, match="run 99 is not in"):
            campaign.correct([3, 99], [1.0, 2.0])
        assert campaign.y[2] == 7.5
        number = campaign.ask_jobs(1)[0][0]
        with pytest.raises(InputError, match="is pending and has no result to correct"):
            campaign.correct(number, 1.0)


def test_failures_are_tried_again_all_or_some(campaign):
    campaign.run(raises, n_initial=20, n_samples=0, retries=1)
    n_failed = campaign.n_failed
    n_late = (campaign.failures().groupby("run").t.last() > 9).sum()
    assert 0 < n_late < n_failed
    assert campaign.retry_failures(where={"kind": "timeout"}) == 0
    assert campaign.retry_failures(where=lambda frame: frame.t > 9) == n_late
    assert campaign.retry_failures() == n_failed - n_late
    assert (campaign.n_failed, len(campaign.pending)) == (0, n_failed)
    assert (campaign.events().kind == "retried").sum() == n_failed
    campaign.run(wave, n_initial=20, n_samples=0)
    assert (campaign.n_done, campaign.n_failed) == (20, 0)


def test_a_run_tried_again_has_all_its_retries(campaign):
    campaign.run(raises, n_initial=20, n_samples=0, retries=1)
    before = len(campaign.failures())
    campaign.retry_failures()
    campaign.run(raises, n_initial=20, n_samples=0, retries=1)
    assert len(campaign.failures()) == 2 * before


def test_what_is_forgotten_counts_nowhere_and_is_not_erased(storage):
    with Campaign(BOUNDS, storage=storage) as campaign, Campaign(storage=storage) as other:
        campaign.run(raises, n_initial=20, n_samples=0, retries=0)
        n_done, n_failed = other.n_done, other.n_failed
        first, number = other.X[0], int(campaign.to_dataframe().query("state == 'done'").run.iloc[0])
        assert campaign.forget(where={"state": "failed"}, reason="the mesh was wrong") == n_failed
        assert campaign.forget(number) == 1
        for reader in (campaign, other):
            assert (reader.n_done, reader.n_failed, reader.n_asked) == (n_done - 1, 0, n_done - 1)
            assert len(reader.X) == len(reader.y) == n_done - 1
            assert first.tolist() not in reader.X.tolist()
        assert (campaign.to_dataframe().state == "forgotten").sum() == n_failed + 1
        assert campaign.events().detail[0] == {"state": "failed", "reason": "the mesh was wrong"}
        with pytest.raises(InputError, match=f"run {number} was forgotten"):
            campaign.tell(run=number, y=2.0)
        with pytest.raises(InputError, match=f"run {number} was forgotten"):
            campaign.forget(number)
        campaign.tell([first], [2.0])  # the point itself may come back
        assert campaign.n_done == n_done
        campaign.run(wave, n_initial=20, n_samples=0)
        assert campaign.n_asked == 20


def test_a_forgotten_point_of_a_small_domain_is_asked_again(storage):
    with Campaign({"a": Integer(1, 4)}, storage=storage) as campaign:
        campaign.tell(campaign.ask(4), [1.0, 2.0, 3.0, 4.0])
        campaign.forget(2)
        assert campaign.ask(1).tolist() == [campaign.box.every_point()[int(campaign.to_dataframe().a[1]) - 1].tolist()]


def test_wider_bounds_keep_all_runs_and_are_followed_by_every_process(storage):
    bounds = {"u": (0.0, 1.0), "k": Log(1.0, 10.0), "n": Integer(1, 3), "m": Category("a", "b")}
    with Campaign(bounds, storage=storage) as campaign, Campaign(storage=storage) as other:
        campaign.run(lambda u, k, n, m: u, n_initial=20, n_samples=0)
        X, y = other.X, other.y
        campaign.tell([[1.5, 1.0, 1, 0]], [9.0])
        assert len(other.X) == 20
        campaign.widen({"u": (0.0, 2.0), "n": Integer(1, 9), "m": Category("a", "b", "c")})
        for reader in (campaign, other):
            np.testing.assert_array_equal(reader.X[:20], X)
            np.testing.assert_array_equal(reader.y[:20], y)
            assert len(reader.X) == 21  # what lay outside is inside now
        asked = other.ask(200)
        assert other.box.contains(asked).all()
        assert asked[:, 0].max() > 1
        assert set(asked[:, 3]) == {0, 1, 2}
        (event,) = other.events().to_dict("records")
        assert event["kind"] == "widened"
        assert event["detail"]["from"][0] == ["linear", 0.0, 1.0]
    with Campaign(storage=storage) as again:
        assert again.box.axes[3] == Category("a", "b", "c")
        with pytest.raises(InputError, match=r"bounds are .* but storage .* has"):
            Campaign(bounds, storage=storage)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"u": (0.1, 2.0)}, "cannot become"),
        ({"u": Log(0.1, 2.0)}, "cannot become"),
        ({"m": ["b", "a", "c"]}, "cannot become"),
        ({"m": Category("a", "c")}, "cannot become"),
        ({"v": (0, 1)}, r"unknown inputs \['v'\]"),
        ([(0, 1)], "have the inputs"),
        ({"u": (1.0, 0.0)}, "reversed"),
        ({}, "empty"),
        (3, "bounds is 3"),
    ],
)
def test_bounds_that_would_lose_points_are_refused(storage, bounds, message):
    with Campaign({"u": (0.0, 1.0), "m": ["a", "b"]}, storage=storage) as campaign:
        with pytest.raises((InputError, InputTypeError), match=message):
            campaign.widen(bounds)
        assert campaign.box.upper[0] == 1.0
        assert len(campaign.events()) == 0


def test_every_table_follows_bounds_that_another_process_widened(storage):
    with Campaign({"m": Category("a", "b"), "u": (0.0, 1.0)}, storage=storage) as one:
        other = Campaign(storage=storage)
        one.widen({"m": Category("a", "b", "c")})
        one.tell([[2, 0.5]], [1.0])
        one.tell_failure([x for x in one.ask(30) if x[0] == 2])
        assert other.to_dataframe().m[0] == "c"
        assert set(other.failures().m) == {"c"}
        assert other.to_dataframe().inside.all()
        assert other.state_of(1) == "done"
        other.close()


def test_a_list_of_bounds_is_widened_as_a_list(storage):
    with Campaign([(0, 1), (0, 1)], storage=storage) as campaign:
        campaign.widen([(0, 1), (-1, 1)])
        campaign.widen([(0, 1), (-1, 1)])  # nothing changes
        assert campaign.box.lower.tolist() == [0, -1]
        assert len(campaign.events()) == 1


def test_outputs_are_added_and_old_runs_completed(storage):
    with Campaign(BOUNDS, outputs=["f"], storage=storage) as campaign, Campaign(storage=storage) as other:
        run_done(campaign)
        before = other.y
        campaign.add_outputs(["g"])
        for reader in (campaign, other):
            assert reader.outputs == ("f", "g")
            np.testing.assert_array_equal(reader.y[:, 0], before)
            assert np.isnan(reader.y[:, 1]).all()
            assert len(reader.ask(2)) == 2
        campaign.run(lambda u0, t: {"g": t, "f": wave(u0, t)}, n_initial=10, n_samples=20)
        assert campaign.n_failed == 0
        assert np.isfinite(campaign.y).all(axis=1).sum() == campaign.n_done - 10
        assert np.isfinite(campaign.estimated_error())
        other.tell(run=list(range(1, 11)), y={"g": np.arange(10.0), "f": before})
        assert campaign.y[:10].tolist() == np.column_stack([before, np.arange(10.0)]).tolist()
        assert np.isfinite(campaign.to_dataframe().query("state == 'done'").g).all()
        with pytest.raises(InputError, match=r"run 1 at .* has another result already"):
            campaign.tell(run=1, y=[before[0], 5.0])
        with pytest.raises(InputError, match=r"outputs \['g'\] are there already"):
            campaign.add_outputs("g")
        assert list(campaign.events().kind) == ["outputs added"] + ["completed"] * 10


def test_results_without_the_added_output_still_lead_the_plan(campaign):
    campaign.run(wave, n_initial=40, n_samples=0)
    campaign.add_outputs("g")
    X = campaign.ask(30)
    assert np.mean(np.abs(X[:, 0] - 0.7) < 0.2) > 0.5  # 0.4 by chance


def test_outputs_cannot_be_added_before_the_first_result(campaign):
    with pytest.raises(InputError, match="has no outputs yet"):
        campaign.add_outputs("g")


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ({"colour": "red"}, r"unknown columns \['colour'\]"),
        (lambda frame: [True], "need one boolean for each"),
        (lambda frame: frame.t, "need one boolean for each"),
        ("kind == 'timeout'", "where is a str"),
    ],
)
def test_a_choice_of_runs_that_makes_no_sense_is_refused(campaign, where, error):
    campaign.run(raises, n_initial=20, n_samples=0, retries=0)
    for call in (campaign.retry_failures, lambda where: campaign.forget(where=where)):
        with pytest.raises((InputError, InputTypeError), match=error):
            call(where)
    assert len(campaign.events()) == 0
