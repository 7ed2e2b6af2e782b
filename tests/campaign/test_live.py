"""A picture of a running campaign, in a file where there is no notebook."""

import numpy as np
import pytest

from steep import Campaign
from steep.exceptions import InputError, StorageError


def square(x):
    return float(x[0]) ** 2


@pytest.fixture
def campaign():
    with Campaign([(0, 1)], storage=":memory:") as opened:
        yield opened


def test_a_picture_is_drawn_as_results_come_in(campaign, tmp_path):
    path = tmp_path / "now.svg"
    live = campaign.watch(path=path, interval=0)
    titles = set()

    def look(running):
        live(running)
        if path.exists():
            titles.update(
                part.split(" runs done")[0][-2:] for part in path.read_text().splitlines() if "runs done" in part
            )

    campaign.run(square, n_initial=4, n_samples=1, live=look)
    assert live.n_drawn == 4  # none of the first result, which has no spread yet
    assert len(titles) == 4


def test_pictures_keep_their_distance(campaign, tmp_path):
    live = campaign.watch(path=tmp_path / "now.svg", interval=3600)
    campaign.run(square, n_initial=8, n_samples=4, live=live)
    assert live.n_drawn == 1


@pytest.mark.slow
def test_following_ends_when_nothing_is_in_flight_or_time_is_over(campaign, tmp_path):
    campaign.run(square, n_initial=8, n_samples=4)
    live = campaign.watch(path=tmp_path / "now.svg", interval=0)
    live.follow(seconds=60)
    assert live.n_drawn == 2
    campaign.ask(1)
    live.follow(seconds=0.2)
    assert "1 in flight" in (tmp_path / "now.svg").read_text()


def test_without_a_notebook_a_file_is_asked_for(campaign):
    with pytest.raises(InputError, match="there is no notebook to draw in; need one, or a file"):
        campaign.watch()


def test_bad_times_and_files_are_refused(campaign, tmp_path):
    with pytest.raises(InputError, match="interval=-1 is out of range"):
        campaign.watch(path=tmp_path / "a.svg", interval=-1)
    campaign.run(square, n_initial=4, n_samples=0)
    live = campaign.watch(path=tmp_path / "no" / "a.svg")
    with pytest.raises(StorageError, match="cannot be written"):
        live()
    with pytest.raises(InputError, match="seconds=inf is out of range"):
        live.follow(float("inf"))


def test_a_design_of_a_campaign_has_the_outputs_that_its_runs_have():
    with Campaign({"u": (0, 1), "t": (0, 1)}, storage=":memory:", outputs=["a"]) as campaign:
        campaign.run(lambda u, t: u * t, n_initial=12, n_samples=4)
        campaign.add_outputs(["b"])
        assert campaign.to_design().outputs == ("a",)
        campaign.run(lambda u, t: {"a": u * t, "b": u - t}, n_initial=12, n_samples=28)
        plan = campaign.to_design()
        assert plan.outputs == ("a", "b")
        assert plan.y.shape == (24, 2)
        assert len(plan.X) == 24


@pytest.mark.parametrize("call", [Campaign.to_design, Campaign.plot, lambda campaign: campaign.plot("points")])
def test_a_campaign_without_results_has_one_clear_line_to_look_at(campaign, call):
    campaign.ask(2)
    with pytest.raises(InputError, match=r"has no result inside its bounds yet; run it first"):
        call(campaign)
    assert np.isnan(campaign.estimated_error())
    assert "0 results are too few" in str(campaign.hedge())
    assert "not known yet" in campaign._repr_html_()
