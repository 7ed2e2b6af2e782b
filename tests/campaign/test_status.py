"""The status of a campaign is read from its journal, and reading changes nothing."""

import json
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from steep import Campaign, SteepError
from steep.campaign.campaign import ReadCampaign

STORES = Path(__file__).parent / "stores"


@pytest.fixture
def storage(tmp_path):
    return tmp_path / "campaign.db"


def read(storage):
    with ReadCampaign(storage) as reader:
        return reader.status()


def test_before_the_first_run_nothing_is_known(storage):
    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign:
        campaign.ask(3)
        status = read(storage)
    assert (status.n_done, status.n_running, status.budget, status.outcome) == (0, 3, None, None)
    assert not status.is_running  # it was asked, and no run() is under way
    assert np.isnan([status.rate, status.seconds_left]).all()
    assert read(storage).n_waiting == 3


def test_figures_are_those_of_the_campaign(storage):
    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign:
        campaign.run(lambda u: np.sin(9 * u) if u < 0.9 else 1 / 0, 40, retries=0)
        status = read(storage)
        assert (status.n_done, status.n_failed) == (campaign.n_done, campaign.n_failed)
    assert status.budget == 40
    assert status.n_left == 0
    assert status.outcome == "finished"
    assert status.rate > 0


def test_leased_runs_are_neither_running_nor_waiting(storage):
    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign:
        campaign.ask(2, lease="1 h")
        campaign.ask(1)
        status = read(storage)
        assert (status.n_leased, status.n_running, status.n_waiting) == (2, 1, 0)
    assert (read(storage).n_leased, read(storage).n_waiting) == (2, 1)


def test_a_reader_follows_corrections(storage):
    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign, ReadCampaign(storage) as reader:
        campaign.run(lambda u: np.sin(9 * u), 40)
        assert reader.y[-1] < 5
        campaign.correct(40, 5.0)
        assert reader.y[-1] == 5


@pytest.mark.parametrize("path", sorted(STORES.glob("format-*.db")), ids=lambda path: path.stem)
def test_a_store_of_any_format_is_read_and_left_as_it_is(path, tmp_path):
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    assert read(copy).n_done == json.loads(path.with_suffix(".json").read_text())["n_done"]
    assert copy.read_bytes() == path.read_bytes()


def test_how_it_ended_is_kept(storage):
    def interrupted(u):
        raise KeyboardInterrupt

    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign:
        campaign.run(lambda u: u, 16, stop_when={"runs": 5})
        assert read(storage).outcome == "stopped"
        with pytest.raises(KeyboardInterrupt):
            campaign.run(interrupted, 16)
        status = read(storage)
        assert (status.outcome, status.n_done, status.n_left) == ("interrupted", 5, 11)
        campaign.run(lambda u: u, 16)
        assert read(storage).outcome == "finished"


def test_a_pause_between_sessions_does_not_count_for_the_rate(storage, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])

    def tick(u):
        now[0] += 2.0
        return u

    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign:
        campaign.run(tick, 10)
        assert read(storage).rate == pytest.approx(0.5)
        now[0] += 100_000
        campaign.run(tick, 20)
        assert read(storage).rate == pytest.approx(0.5)
        now[0] += 100_000
        campaign.run(tick, 88)
        assert read(storage).rate == pytest.approx(0.5)


def test_time_left_follows_from_the_rate_while_it_runs(storage, monkeypatch):
    now, seen = [1000.0], []
    monkeypatch.setattr("time.time", lambda: now[0])

    def tick(u):
        seen.append(read(storage))
        now[0] += 2.0
        return u

    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign:
        campaign.run(tick, 10)
    assert [status.n_done for status in seen] == list(range(10))
    assert all(status.is_running for status in seen)
    assert seen[4].rate == pytest.approx(0.5)
    assert seen[4].seconds_left == pytest.approx(12.0)


def test_reading_writes_nothing(storage):
    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign:
        campaign.run(lambda u: u, 10)
    before = storage.read_bytes()
    with ReadCampaign(storage) as reader:
        reader.status()
        with pytest.raises(SteepError, match=r"readonly|read-only"):
            reader.journal.next_plan()
    assert storage.read_bytes() == before


def test_a_copy_in_a_read_only_folder_can_be_read(storage, tmp_path):
    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign:
        campaign.run(lambda u: u, 10)
    folder = tmp_path / "readonly"
    folder.mkdir()
    (folder / "c.db").write_bytes(storage.read_bytes())
    folder.chmod(0o555)
    try:
        assert read(folder / "c.db").n_done == 10
        if os.getuid():
            assert [path.name for path in folder.iterdir()] == ["c.db"]
    finally:
        folder.chmod(0o755)


def test_what_is_no_campaign_is_refused(storage, tmp_path):
    with pytest.raises(SteepError, match="holds no campaign yet"):
        ReadCampaign(storage)
    storage.write_text("text")
    with pytest.raises(SteepError, match="file is not a database"):
        ReadCampaign(storage)
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(SteepError):
        ReadCampaign(tmp_path / "other.db")


def test_damaged_sessions_are_refused(storage):
    with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign, campaign.journal.transaction():
        campaign.journal.set_meta("sessions", [{"owner": 3}])
    with pytest.raises(SteepError, match="is damaged: its sessions is"):
        read(storage)
