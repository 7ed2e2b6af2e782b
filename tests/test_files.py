import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from steep._files import write_whole
from steep.exceptions import SteepError, StorageError


def put(path, text="new"):
    return write_whole(path, lambda temporary: temporary.write_text(text))


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    assert put(path) == path
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failing_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(temporary):
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(
        StorageError, match=r"a\.txt cannot be written \(disk full\); expected a folder .*; choose another file"
    ):
        write_whole(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_other_errors_of_the_writer_pass_unchanged(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_whole(tmp_path / "a", lambda temporary: 1 / 0)
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_is_readable_like_any_other(tmp_path):
    (tmp_path / "plain").write_text("")
    whole = put(tmp_path / "whole")
    assert stat.S_IMODE(whole.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755, 0o200])
def test_a_replaced_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(mode)
    seen = []
    write_whole(path, lambda temporary: seen.append(stat.S_IMODE(temporary.stat().st_mode)))
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert seen[0] & 0o077 & ~mode == 0, "while it is written no one may read more than before"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_replaced_file_keeps_its_owner(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    os.chown(path, 1234, 2345)
    put(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


def test_a_read_only_file_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(StorageError, match="a is read-only; choose another file, or make it writable"):
        put(path)
    assert path.read_text() == "old"


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path, exists):
    target, link = tmp_path / "there" / "target.txt", tmp_path / "link.txt"
    target.parent.mkdir()
    if exists:
        target.write_text("old")
    link.symlink_to(Path("there") / "target.txt")
    put(link)
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(tmp_path.rglob("*")) == sorted([link, target.parent, target])


def make_folder(path):
    path.mkdir()


def make_device_link(path):
    path.symlink_to("/dev/null")


def make_loop(path):
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "kind"),
    [(make_folder, "a folder"), (os.mkfifo, "a pipe"), (make_device_link, "a device"), (make_loop, "symbolic links")],
)
def test_what_is_no_ordinary_file_is_refused(tmp_path, make, kind):
    path = tmp_path / "odd"
    make(path)
    before = os.lstat(path)
    with pytest.raises(StorageError, match=kind):
        put(path)
    assert os.lstat(path) == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["missing/a", "file/a", "x" * 300, "a\0b", ".", ""])
def test_a_path_that_cannot_be_is_one_line(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(SteepError) as caught:
        put(f"{tmp_path}/{name}" if name else "")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


STOPPED = """
import signal, sys, time
from steep._files import write_whole
def stop(number, frame):
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
def slow(path):
    path.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
write_whole(sys.argv[1], slow)
"""


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, *(pytest.param(how, marks=pytest.mark.slow) for how in (signal.SIGTERM, signal.SIGINT))]
)
def test_a_process_that_is_stopped_leaves_the_old_file(tmp_path, how):
    path = tmp_path / "a.txt"
    path.write_text("old")
    command = [sys.executable, "-c", STOPPED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        assert run.stdout.readline() == b"writing\n"
        run.send_signal(how)
        run.wait(60)
    assert path.read_text() == "old"
    if how is not signal.SIGKILL:  # which no one can handle
        assert list(tmp_path.iterdir()) == [path]
