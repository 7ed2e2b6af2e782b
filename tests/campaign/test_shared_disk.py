"""Stores on a network file system, which is found in the list of mounts, here pretended."""

import contextlib
import errno
import fcntl
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from steep.campaign import Campaign, journal
from steep.campaign.campaign import ReadCampaign
from steep.campaign.shared_disk import network_of
from steep.exceptions import StorageError

BOUNDS = {"u": (0.0, 1.0)}
HOLDER = """
import sys, time
from steep.campaign import Campaign, journal
journal.network_of = lambda path: "nfs4"
campaign = Campaign({"u": (0.0, 1.0)}, storage=sys.argv[1])
campaign.ask(3)
print("open", flush=True)
time.sleep(60)
"""


@pytest.fixture
def on_network(monkeypatch):
    monkeypatch.setattr(journal, "network_of", lambda path: "nfs4")
    monkeypatch.setattr(journal, "_PATIENCE", 0.3)


def mode_of(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA journal_mode").fetchone()[0]


def test_the_mount_that_holds_the_file_decides(tmp_path):
    mounts = tmp_path / "mounts"
    lines = f"""\
        /dev/sda / ext4 rw 0 0
        server:/home {tmp_path} nfs4 rw 0 0
        /dev/sdb {tmp_path}/scratch\\040disk ext4 rw 0 0
        host {tmp_path}/ssh fuse.sshfs rw 0 0
        server:/own {tmp_path}/own nfs rw,vers=3,nolock,local_lock=all 0 0
    """
    mounts.write_text(textwrap.dedent(lines))
    assert network_of(str(tmp_path / "c.db"), str(mounts)) == "nfs4"
    assert network_of(str(tmp_path / "deep" / "c.db"), str(mounts)) == "nfs4"
    assert network_of(str(tmp_path / "scratch disk" / "c.db"), str(mounts)) is None
    assert network_of(str(tmp_path / "ssh" / "c.db"), str(mounts)) == "fuse.sshfs"
    assert network_of(str(tmp_path / "own" / "c.db"), str(mounts)) == "nfs,local_lock=all,nolock"
    assert network_of(str(tmp_path.parent / "c.db"), str(mounts)) is None
    assert network_of(str(tmp_path / "c.db"), str(tmp_path / "nowhere")) is None


def test_a_store_there_has_no_log_even_if_it_had_one(tmp_path, on_network, monkeypatch):
    with monkeypatch.context() as local:
        local.setattr(journal, "network_of", lambda path: None)
        with Campaign(BOUNDS, storage=tmp_path / "c.db") as campaign:
            campaign.run(lambda u: u, 8)
            assert mode_of(tmp_path / "c.db") == "wal"
    with Campaign(BOUNDS, storage=tmp_path / "c.db") as campaign:
        assert campaign.run(lambda u: u, 12).n_done == 12
        assert not (tmp_path / "c.db-wal").exists()
        assert mode_of(tmp_path / "c.db") == "delete"
        with ReadCampaign(tmp_path / "c.db") as reader:
            assert reader.n_done == 12


def test_one_process_writes_and_a_killed_one_gives_way(tmp_path, on_network):
    path = tmp_path / "c.db"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as holder:
        try:
            holder.stdout.readline()
            with pytest.raises(StorageError, match=rf"in use by process {holder.pid} on .*one process at a time"):
                Campaign(BOUNDS, storage=path)
            with ReadCampaign(path) as reader:
                assert reader.status().n_running == 3
        finally:
            holder.kill()
    with Campaign(BOUNDS, storage=path) as campaign:
        assert campaign.status().n_waiting == 3
        assert len(campaign.ask(3)) == 3
        assert campaign.n_asked == 3


def test_a_file_system_without_locks_is_refused_with_an_explanation(tmp_path, on_network, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(StorageError, match=r"without locks .*put the file on a local disk"):
        Campaign(BOUNDS, storage=tmp_path / "c.db")


@pytest.mark.parametrize("kind", ["fuse.sshfs", "nfs,nolock"])
def test_a_file_system_whose_locks_do_not_reach_other_machines_is_rejected(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(journal, "network_of", lambda path: kind)
    with pytest.raises(StorageError, match=r"whose locks other machines do not see.* put the file on a local disk"):
        Campaign(BOUNDS, storage=tmp_path / "c.db")
    assert not (tmp_path / "c.db").exists()


def test_a_store_whose_server_is_away_is_not_taken_for_a_new_one(tmp_path, monkeypatch):
    Campaign(BOUNDS, storage=tmp_path / "c.db").close()

    def away(*_, **__):
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    with monkeypatch.context() as broken:
        broken.setattr("os.stat", away)
        broken.setattr(
            journal.sqlite3,
            "connect",
            lambda *_, **__: (_ for _ in ()).throw(sqlite3.OperationalError("disk I/O error")),
        )
        with pytest.raises(StorageError, match="disk I/O error"):
            Campaign(storage=tmp_path / "c.db")


def test_what_a_mount_remembers_is_forgotten_before_the_file_of_another_process_is_read(
    tmp_path, on_network, monkeypatch
):
    waits = []
    monkeypatch.setattr("steep.campaign.shared_disk.time.sleep", waits.append)
    Campaign(BOUNDS, storage=tmp_path / "c.db").close()
    Campaign(storage=tmp_path / "c.db").close()
    assert waits == []  # nobody else has written it
    (tmp_path / "c.db-lock").write_text("process 7 on node3")
    Campaign(storage=tmp_path / "c.db").close()
    assert waits == [2.0]
