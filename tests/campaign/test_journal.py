import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from campaign_simulators import BOUNDS, check_nothing_lost, kill_often, start_noted, wait_until, wave
from steep import Adaptive, SteepError
from steep.campaign import Campaign
from steep.campaign.campaign import ReadCampaign
from steep.campaign.journal import FREQUENT, is_alive
from steep.campaign.schema import VERSION
from steep.campaign.shared_disk import process_start
from steep.exceptions import InputError, StorageError


def test_a_storage_that_followed_a_removed_measure_opens_and_follows_the_variance(storage):
    Campaign(BOUNDS, storage=storage, strategy=Adaptive("contradiction")).close()
    with contextlib.closing(sqlite3.connect(storage)) as db:
        db.execute("UPDATE meta SET value = replace(value, 'contradiction', 'slope') WHERE key = 'strategy'")
        db.commit()
    with Campaign(storage=storage) as campaign:
        assert campaign.strategy.measure == "variance"


def test_a_storage_of_a_newer_version_is_refused_and_left_alone(storage):
    Campaign(BOUNDS, storage=storage).close()
    db = sqlite3.connect(storage)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    before = storage.read_bytes()
    with pytest.raises(StorageError, match=f"schema version {VERSION + 1}, this steep reads up to {VERSION}"):
        Campaign(storage=storage)
    assert storage.read_bytes() == before
    assert [path.name for path in storage.parent.iterdir()] == [storage.name]


def test_a_file_that_is_no_campaign_says_so(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    with pytest.raises(StorageError, match="file is not a database"):
        Campaign(BOUNDS, storage=path)
    with pytest.raises(InputError, match="holds no campaign yet; pass bounds"):
        Campaign(storage=tmp_path / "new.db")
    with pytest.raises(OSError, match="unable to open"):
        Campaign(BOUNDS, storage=tmp_path / "nowhere" / "new.db")


def test_a_full_disk_says_so_and_nothing_is_lost(storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        X = campaign.ask(4)
        db = campaign.journal._db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        long = np.arange(20_000.0)  # outputs that need more pages than are left
        with pytest.raises(StorageError, match=r"disk is full; expected a writable SQLite file with room"):
            campaign.run(lambda u0, t: long, 5)
        assert len(campaign.unsaved) == 1
        db.execute("PRAGMA max_page_count = 100000")
        campaign.tell(X[:1], long[None])
        assert campaign.n_done == 2
        assert campaign.unsaved == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes read-only files")
def test_a_read_only_file_says_so(storage):
    Campaign(BOUNDS, storage=storage).close()
    storage.chmod(0o400)
    with pytest.raises(StorageError, match="readonly"):
        Campaign(storage=storage)


@pytest.mark.parametrize("n_kills", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_any_moment_nothing_is_lost_or_repeated(tmp_path, n_kills):
    storage, log = tmp_path / "campaign.db", tmp_path / "log.txt"
    n_runs = 40 + 20 * n_kills  # enough that every kill finds it at work
    kill_often(storage, log, n_kills, seed=0, n_runs=n_runs)
    assert start_noted(storage, log, n_runs).wait(timeout=900) == 0  # a loaded machine makes two runs a second
    check_nothing_lost(storage, log, n_kills)


def test_two_processes_share_a_campaign(tmp_path):
    storage, log = tmp_path / "campaign.db", tmp_path / "log.txt"
    first, second = start_noted(storage, log), start_noted(storage, log)
    assert first.wait(timeout=120) == second.wait(timeout=120) == 0
    check_nothing_lost(storage, log, 0)


@pytest.mark.parametrize("name", FREQUENT)
def test_no_frequent_statement_reads_all_runs(campaign, name):
    statement = FREQUENT[name]
    plan = campaign.journal._rows(f"EXPLAIN QUERY PLAN {statement}", (0,) * statement.count("?"))
    steps = [row[-1] for row in plan if "runs" in row[-1]]
    assert steps
    assert not [step for step in steps if step.startswith("SCAN") and "INDEX" not in step]


def test_all_sql_is_in_the_journal():
    import steep.campaign as package

    words = ("SELECT ", "INSERT ", "UPDATE ", "DELETE FROM", "PRAGMA ", "sqlite3")
    for name in os.listdir(os.path.dirname(package.__file__)):
        if name.endswith(".py") and name not in ("journal.py", "schema.py"):
            with open(os.path.join(os.path.dirname(package.__file__), name)) as file:
                text = file.read()
            assert not [word for word in words if word in text], name


def test_a_database_of_something_else_is_left_to_the_bit(tmp_path):
    for version in (0, 1):
        path = tmp_path / f"foreign{version}.db"
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE runs (name TEXT)")
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
        db.close()
        before = path.read_bytes()
        with pytest.raises(StorageError, match=r"is a database of something else, with tables \['runs'\]"):
            Campaign(BOUNDS, storage=path)
        assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_a_campaign_without_bounds_makes_no_file(tmp_path):
    with pytest.raises(InputError, match="holds no campaign yet; pass bounds"):
        Campaign(storage=tmp_path / "new.db")
    assert list(tmp_path.iterdir()) == []


DAMAGE = [
    "UPDATE meta SET value = 'not json' WHERE key = 'axes'",
    "UPDATE meta SET value = x'ff00fe' WHERE key = 'names'",
    "UPDATE meta SET value = '[[\"linear\"]]' WHERE key = 'axes'",
    "UPDATE meta SET value = '5' WHERE key = 'outputs'",
    "UPDATE meta SET value = '{}' WHERE key = 'seed'",
    "UPDATE meta SET value = '-1' WHERE key = 'seed'",
    "UPDATE meta SET value = '\"a\"' WHERE key = 'plans'",
    "DELETE FROM meta WHERE key = 'names'",
    "DELETE FROM meta WHERE key = 'plans'",
    "DELETE FROM meta WHERE key = 'outputs'",
    "UPDATE runs SET x = x'00'",
    "UPDATE runs SET x = 'text'",
    "UPDATE runs SET y = x'000000000000f07f' WHERE y IS NOT NULL",
    "UPDATE runs SET y = x'00' WHERE y IS NOT NULL",
    "UPDATE runs SET y = NULL WHERE state = 'done'",
    "DROP TABLE failures",
    "INSERT INTO meta VALUES ('widths', '5')",
    "UPDATE meta SET value = '-1' WHERE key = 'plans'",
    "UPDATE meta SET value = '[{}]' WHERE key = 'sessions'",
    """UPDATE meta SET value = '[{"owner": [], "budget": 1, "began": 0, "ended": 0, "outcome": ""}]'
    WHERE key = 'sessions'""",
    "UPDATE runs SET told = NULL",
    "UPDATE runs SET told = 'noon'",
    "UPDATE runs SET y = 'text' WHERE y IS NOT NULL",
    "UPDATE runs SET x = 5",
    "INSERT INTO events (at, kind, run, detail) VALUES (0, 'corrected', 'first', '{}')",
    "INSERT INTO events (at, kind, run, detail) VALUES (0, 'corrected', 1, 'no JSON')",
]


def use(storage):
    """Every way to look at a campaign and to go on with it."""
    with Campaign(storage=storage) as campaign:
        for call in (
            lambda: campaign.X, lambda: campaign.y, lambda: campaign.pending, campaign.to_dataframe,
            campaign.failures, lambda: campaign.ask(2), lambda: repr(campaign),
            campaign.events, campaign.to_design, lambda: campaign.tell(run=1, y=[wave(*campaign.X[0])]),
            lambda: campaign.run(wave, 14),
        ):  # fmt: skip
            call()
    with ReadCampaign(storage) as reader:
        reader.status()


@pytest.fixture
def sound(storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        campaign.run(wave, 10)
        campaign.tell_failure(campaign.ask(2)[:1])
    return storage


def test_a_sound_journal_goes_through_every_door(sound):
    use(sound)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_journal_is_one_clear_line(sound, damage):
    db = sqlite3.connect(sound)
    db.execute(damage)
    db.commit()
    db.close()
    with pytest.raises(StorageError) as caught:
        use(sound)
    assert "\n" not in str(caught.value)


def test_bytes_changed_anywhere_in_the_file_give_steep_errors_only(sound, tmp_path):
    rng = np.random.default_rng(0)
    content = np.frombuffer(sound.read_bytes(), dtype=np.uint8)
    for case in range(60):
        changed = content.copy()
        at = rng.integers(100, len(content), size=rng.integers(1, 200))
        changed[at] = rng.integers(0, 256, size=len(at))
        path = tmp_path / f"{case}.db"
        path.write_bytes(changed.tobytes())
        with contextlib.suppress(SteepError):
            use(path)


def test_closing_writes_what_was_kept_back_or_says_that_it_cannot(storage, monkeypatch):
    campaign = Campaign(BOUNDS, storage=storage)
    ((number, _),) = campaign._ask(1)

    def full(*args):
        raise StorageError("disk is full")

    monkeypatch.setattr(campaign.journal, "finish", full)
    with pytest.raises(StorageError, match="disk is full"):
        campaign._finish(number, [1.0], None)
    with pytest.raises(StorageError, match="1 results are not in the file yet"):
        campaign.close()
    monkeypatch.undo()
    campaign.close()
    with Campaign(storage=storage) as again:
        assert again.y.tolist() == [1.0]


INTERRUPTED = """
import sys
from steep.campaign import Campaign
campaign = Campaign(storage=sys.argv[1])
try:
    print("open", flush=True)
    sys.stdin.readline()
    campaign.ask(1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.readline()
print(len(campaign.ask(2)), flush=True)
"""


def test_an_interrupt_while_another_process_writes_leaves_no_transaction(campaign, storage):
    other = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(storage)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert other.stdout.readline() == "open\n"
    with campaign.journal.transaction():
        other.stdin.write("\n")
        other.stdin.flush()
        wait_until(lambda: False, 1.0)  # it is most likely waiting for the file by now
        other.send_signal(signal.SIGINT)
        wait_until(lambda: False, 0.5)
    assert other.stdout.readline() == "interrupted\n"
    assert other.communicate("\n", timeout=180)[0] == "2\n"
    assert len(campaign.ask(1)) == 1


def test_a_process_that_ended_is_not_taken_for_alive():
    assert is_alive("somebody", os.getppid(), process_start(os.getppid()))
    ended = subprocess.Popen(["true"])
    ended.wait(60)
    assert not is_alive("somebody", ended.pid, "1")
    assert not is_alive("somebody", os.getpid(), process_start(os.getpid()))


def test_a_file_of_the_first_release_is_read_as_it_was(sound, tmp_path):
    """Keys that came later may be missing."""
    path = tmp_path / "old.db"
    shutil.copy(sound, path)
    db = sqlite3.connect(path)
    db.execute("DELETE FROM meta WHERE key NOT IN ('names', 'axes', 'named', 'outputs', 'seed', 'plans')")
    assert json.loads(db.execute("SELECT value FROM meta WHERE key = 'seed'").fetchone()[0]) == 0
    db.commit()
    db.close()
    with Campaign(storage=path) as old, Campaign(storage=sound) as new:
        np.testing.assert_array_equal(old.ask(3), new.ask(3))
