"""The file of a campaign goes away, or cannot be written, while results come in: none of them is lost."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from campaign_simulators import BOUNDS, wait_until, wave
from steep.campaign import Campaign
from steep.campaign.workers import Threads
from steep.exceptions import StorageError


def remove(path):
    path.unlink()


def move(path):
    path.rename(path.parent / "moved.db")


def replace(path):
    other = path.parent / "other.db"
    Campaign({"a": (0.0, 1.0)}, storage=other).close()
    os.replace(other, path)


def remove_folder(path):
    shutil.rmtree(path.parent)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


@pytest.mark.parametrize("executor", [None, "threads"])
@pytest.mark.parametrize("harm", [remove, move, replace, remove_folder])
def test_a_store_that_goes_away_stops_the_run_and_keeps_every_result(folder, harm, executor):
    storage, calls = folder / "campaign.db", []

    def solve(u0, t):
        calls.append(u0)
        if len(calls) == 5:
            harm(storage)
        return wave(u0, t)

    campaign = Campaign(BOUNDS, storage=storage)
    with pytest.raises(StorageError, match="was deleted or replaced while it was in use") as caught:
        campaign.run(solve, 12, executor=executor, n_workers=1)
    assert "\n" not in str(caught.value)
    assert len(calls) == 5
    copy = campaign.journal.path
    assert repr(copy) in str(caught.value)
    campaign.close()
    with Campaign(storage=copy) as again:
        assert again.X[:, 0].tolist() == calls
        np.testing.assert_array_equal(again.y, [wave(*x) for x in again.X])
        assert again.run(wave, 12).n_done == 12


def test_results_told_to_a_store_that_went_away_are_kept(storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        X = campaign.ask(2)
        storage.unlink()
        with pytest.raises(StorageError, match="deleted or replaced"):
            campaign.tell(X, [1.0, 2.0])
        assert campaign.y.tolist() == [1.0, 2.0]
        campaign.tell([[0.1, 0.1]], [3.0])  # the campaign goes on with the copy
    with Campaign(storage=storage.parent / "campaign.rescued.db") as again:
        assert again.y.tolist() == [1.0, 2.0, 3.0]


def test_a_store_that_went_away_before_it_is_closed_is_reported(storage):
    campaign = Campaign(BOUNDS, storage=storage)
    campaign.tell([[0.1, 0.1]], [3.0])
    storage.unlink()
    with pytest.raises(StorageError, match="deleted or replaced"):
        campaign.close()
    campaign.close()
    with Campaign(storage=storage.parent / "campaign.rescued.db") as again:
        assert again.y.tolist() == [3.0]


def test_a_copy_never_takes_the_place_of_another_file(storage):
    other = storage.parent / "campaign.rescued.db"
    other.write_text("something else")
    with Campaign(BOUNDS, storage=storage) as campaign:
        storage.unlink()
        with pytest.raises(StorageError, match=r"campaign\.rescued-2\.db"):
            campaign.tell([[0.1, 0.1]], [3.0])
    assert other.read_text() == "something else"


def test_a_process_may_change_its_folder(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Campaign(BOUNDS, storage="campaign.db") as campaign:
        monkeypatch.chdir("elsewhere")
        campaign.run(wave, 3)
    assert os.listdir() == []
    with Campaign(storage=tmp_path / "campaign.db") as again:
        assert again.n_done == 3


@pytest.mark.parametrize("name", ["file:x", "file:x?mode=memory", "a%41b?.db", "file::memory:"])
def test_a_name_that_looks_like_an_address_is_a_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with Campaign(BOUNDS, storage=name) as campaign:
        campaign.tell([[0.1, 0.1]], [3.0])
    assert os.listdir() == [name]
    with Campaign(storage=name) as again:
        assert again.n_done == 1


# ---------------------------------------------------------------- a store that cannot be written

LOCKED = """
import sys
from steep.campaign import Campaign


def solve(u0, t):
    print("running", flush=True)
    sys.stdin.readline()
    return {"f": u0 + t}


with Campaign(storage=sys.argv[1]) as campaign:
    campaign.run(solve, 1)
"""


def test_an_interrupt_while_the_store_is_locked_ends_the_run_and_keeps_its_result(storage):
    Campaign(BOUNDS, storage=storage).close()
    other = subprocess.Popen(
        [sys.executable, "-c", LOCKED, str(storage)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert other.stdout.readline() == "running\n"
    with contextlib.closing(sqlite3.connect(storage, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        other.stdin.write("\n")
        other.stdin.flush()
        wait_until(lambda: False, 0.7)  # it is most likely waiting for the file by now
        other.send_signal(signal.SIGINT)
        _, errors = other.communicate(timeout=60)  # it used to wait for minutes
    assert other.returncode != 0
    assert "KeyboardInterrupt" in errors
    (table,) = storage.parent.glob("campaign.unsaved-*.csv")
    assert "1 results are not in the file yet" in errors
    assert str(table) in errors
    with Campaign(storage=storage) as again:
        assert again.n_done == 0
        again.tell_dataframe(pd.read_csv(table))
        assert (again.n_done, len(again.pending)) == (1, 0)
        assert again.y[0] == again.X[0].sum()


def test_a_result_is_written_elsewhere_when_neither_the_store_nor_its_folder_can_be_written(folder, monkeypatch):
    to_csv = pd.DataFrame.to_csv

    def away(frame, path, **options):
        if os.path.dirname(path) == str(folder):
            raise OSError("Transport endpoint is not connected")
        return to_csv(frame, path, **options)

    def full(*_):
        raise StorageError("disk I/O error")

    monkeypatch.setattr(pd.DataFrame, "to_csv", away)
    with Campaign(BOUNDS, storage=folder / "campaign.db") as campaign:
        with monkeypatch.context() as broken:
            broken.setattr(campaign.journal, "finish", full)
            with pytest.raises(StorageError, match="disk I/O error"):
                campaign.run(wave, 1)
            with pytest.raises(StorageError, match=r"they are in .*campaign\.unsaved-"):
                campaign.close()
        (table,) = folder.parent.glob("campaign.unsaved-*.csv")
        assert len(pd.read_csv(table)) == 1


def test_results_that_land_together_are_kept_when_the_first_cannot_be_written(storage, monkeypatch):
    landed = Threads.landed

    def landed_together(crew, seconds):
        monkeypatch.setattr(Threads, "landed", landed)
        assert wait_until(lambda: crew._answers.qsize() == 3)
        return landed(crew, seconds)

    monkeypatch.setattr(Threads, "landed", landed_together)
    with Campaign(BOUNDS, storage=storage) as campaign:
        db, calls = campaign.journal._db, []
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages + 1}")

        def solve(u0, t):
            calls.append(u0)
            return np.arange(20_000.0)  # more than the file has room for

        with pytest.raises(StorageError, match="disk is full"):
            campaign.run(solve, 3, executor="threads", n_workers=3)
        db.execute("PRAGMA max_page_count = 100000")
        campaign.run(solve, 3)
        assert (campaign.n_done, len(calls)) == (3, 3)
