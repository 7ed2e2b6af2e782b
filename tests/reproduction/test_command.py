"""The command ``python -m reproduction``."""

import pytest
from typer.testing import CliRunner

from reproduction.__main__ import app
from steep.exceptions import SteepError


@pytest.fixture
def call(tmp_path):
    def run(*arguments):
        folders = ["--results", tmp_path / "results", "--cache", tmp_path / "cache", "--docs", tmp_path / "docs"]
        return CliRunner().invoke(app, [str(part) for part in [*arguments, *folders]])

    return run


def test_the_command_runs_what_is_missing_and_writes_the_page(call, tmp_path):
    first = call("lemma1", "figure1")
    assert first.exit_code == 0
    assert "7 lines written" in first.output
    assert "0 lines written" in call("lemma1", "figure1").output
    assert "page written" in call("--report").output  # and its folder is created
    assert "not run" in (tmp_path / "docs" / "reproduction.md").read_text()


def test_the_command_refuses_an_unknown_table(call):
    result = call("table9")
    assert isinstance(result.exception, SteepError)


def test_the_command_refuses_an_unknown_scale(call):
    assert call("lemma1", "--scale", "huge").exit_code == 2
