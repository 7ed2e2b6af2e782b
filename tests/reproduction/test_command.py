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


def test_the_command_runs_what_is_missing_and_prints_the_claims_without_verdicts(call):
    first = call("lemma1", "figure1")
    assert first.exit_code == 0
    assert "13 lines written" in first.output
    assert "Lemma 1" in first.output
    assert "verdict: none" in first.output
    assert "0 lines written" in call("lemma1", "figure1").output


def test_the_command_prints_verdicts_and_makes_the_folder_of_its_pages(call, tmp_path):
    assert "verdict: does not hold" in call("lemma1", "--scale", "laptop").output
    assert "page written" in call("--report").output
    assert "not tested at this scale" in (tmp_path / "docs" / "reproduction.md").read_text()


def test_the_command_refuses_an_unknown_table(call):
    result = call("table9")
    assert isinstance(result.exception, SteepError)


def test_the_command_refuses_an_unknown_scale(call):
    assert call("lemma1", "--scale", "huge").exit_code == 2
