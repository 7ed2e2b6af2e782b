import numpy as np
import pytest

from campaign_simulators import BOUNDS, raises, wave
from steep.campaign import Campaign
from steep.domain import Integer
from steep.exceptions import InputError


def run_done(campaign, n=10):
    return campaign.run(wave, n)


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
        number = campaign._ask(1)[0][0]
        with pytest.raises(InputError, match="is pending and has no result to correct"):
            campaign.correct(number, 1.0)


def test_failures_are_tried_again_all_or_some(campaign):
    campaign.run(raises, 20, retries=1)
    n_failed = campaign.n_failed
    n_late = (campaign.failures().groupby("run").t.last() > 9).sum()
    assert 0 < n_late < n_failed
    failures = campaign.failures()
    assert campaign.retry_failures(failures.run[failures.kind == "timeout"]) == 0
    assert campaign.retry_failures(failures.run[failures.t > 9]) == n_late
    assert campaign.retry_failures() == n_failed - n_late
    assert (campaign.n_failed, len(campaign.pending)) == (0, n_failed)
    assert (campaign.events().kind == "retried").sum() == n_failed
    campaign.run(wave, 20)
    assert (campaign.n_done, campaign.n_failed) == (20, 0)


def test_a_run_tried_again_has_all_its_retries(campaign):
    campaign.run(raises, 20, retries=1)
    before = len(campaign.failures())
    campaign.retry_failures()
    campaign.run(raises, 20, retries=1)
    assert len(campaign.failures()) == 2 * before


def test_what_is_forgotten_counts_nowhere_and_is_not_erased(storage):
    with Campaign(BOUNDS, storage=storage) as campaign, Campaign(storage=storage) as other:
        campaign.run(raises, 20, retries=0)
        n_done, n_failed = other.n_done, other.n_failed
        first, number = other.X[0], int(campaign.to_dataframe().query("state == 'done'").run.iloc[0])
        assert campaign.forget(campaign.failures().run, reason="the mesh was wrong") == n_failed
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
        campaign.run(wave, 20)
        assert campaign.n_asked == 20


def test_a_forgotten_point_of_a_small_domain_is_asked_again(storage):
    with Campaign({"a": Integer(1, 4)}, storage=storage) as campaign:
        campaign.tell(campaign.ask(4), [1.0, 2.0, 3.0, 4.0])
        campaign.forget(2)
        assert campaign.ask(1).tolist() == [campaign.box.every_point()[int(campaign.to_dataframe().a[1]) - 1].tolist()]
