import numpy as np
import pytest

from campaign_functions import BOUNDS, wave
from steep.campaign import Campaign, planner


def test_points_asked_are_inside_and_all_different(campaign):
    X = np.vstack([campaign.ask(7) for _ in range(6)])
    assert campaign.box.contains(X).all()
    assert len(np.unique(X, axis=0)) == 42


def test_a_campaign_goes_on_with_the_same_stream_after_a_restart(tmp_path):
    def points(path, restart):
        campaign = Campaign(BOUNDS, storage=path, n_initial=8, random_state=3)
        for _ in range(4):
            X = campaign.ask(6)
            campaign.tell(X, [wave(*x) for x in X])
            if restart:
                campaign.close()
                campaign = Campaign(storage=path, n_initial=8)
        X = campaign.X
        campaign.close()
        return X

    np.testing.assert_array_equal(points(tmp_path / "a.db", False), points(tmp_path / "b.db", True))


def test_a_point_that_another_process_just_asked_is_not_asked_twice(storage, monkeypatch):
    plan, stolen = planner.next_points, []
    with Campaign(BOUNDS, storage=storage, n_initial=1) as first, Campaign(storage=storage) as second:
        first.ask(1)

        def overtaken(*args, **kwargs):
            """Another process commits the first of the points while this one plans."""
            points = plan(*args, **kwargs)
            if not stolen:
                stolen.append(points[:1])
                with second.journal.transaction():
                    second.journal.add(points[:1], origin="design", owner=second._owner)
            return points

        monkeypatch.setattr(planner, "next_points", overtaken)
        asked = first.ask(3)
        assert len(asked) == 3
        assert stolen[0][0].tolist() not in asked.tolist()


@pytest.mark.slow
def test_asking_reads_and_measures_a_bounded_part_of_a_hundred_thousand_results(campaign, monkeypatch):
    measured = []
    variation = campaign._planner.variation
    monkeypatch.setattr(
        campaign._planner, "variation", lambda X, y: measured.append(len(X)) or variation(X, y)
    )
    rng = np.random.default_rng(0)
    X = rng.random((100_000, 2)) * [1, 10]
    campaign.tell(X, [wave(*x) for x in X])
    campaign.ask(20)  # the start
    assert len(campaign.ask(1)) == 1
    assert max(measured) <= 2048
