import stat

import pytest

from steep._files import write_whole


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    assert write_whole(path, lambda p: p.write_text("new")) == path
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failing_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(temporary):
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_readable_like_any_other(tmp_path):
    (tmp_path / "plain").write_text("")
    whole = write_whole(tmp_path / "whole", lambda p: p.write_text(""))
    assert stat.S_IMODE(whole.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
