"""What Python can do with a campaign, the shell can do: every operation next to its command, or why it has none."""

import json
import re
import tomllib

import pandas as pd
import pytest
import typer.main

from steep.campaign import Campaign
from steep.cli import app, main
from steep.cli.campaign.settings import read_settings

# Each public name of a campaign: its command, or the reason why there is none.
COMMANDS = {
    "run": "run", "ask": "ask", "tell": "tell", "tell_failure": "tell", "tell_dataframe": "tell",
    "load_dataframe": "import", "correct": "correct", "retry_failures": "retry", "forget": "forget", "events": "events",
    "failures": "failures", "to_dataframe": "export", "status": "status", "plot": "page",
    "X": "export", "y": "export", "pending": "export", "outputs": "export", "n_done": "status", "n_failed": "status",
    "n_asked": "status",
}  # fmt: skip
WITHOUT = {
    "close": "every command closes its campaign",
    "to_design": "an object for Python; export writes its runs, page draws it",
}
# Commands for which Python has something else.
OTHERS = {"init": "a file for the shell", "submit": "run(executor='slurm')"}


def test_every_operation_has_its_command_or_a_reason():
    public = {name for name in vars(Campaign) if not name.startswith("_")}
    assert public == COMMANDS.keys() | WITHOUT.keys()
    inner = typer.main.get_command(app).commands["campaign"].commands
    assert inner.keys() == {*COMMANDS.values(), *OTHERS}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Campaign({"u": (0.0, 1.0)}, storage="c.db", outputs=["y"]) as campaign:
        campaign.run(lambda u: u**2 if u < 0.9 else 1 / 0, 16, retries=0, max_failures=None)
    return tmp_path


def campaign(*arguments):
    return main(["campaign", *map(str, arguments)])


def opened():
    return Campaign(storage="c.db")


def test_a_result_is_corrected_and_the_old_one_is_an_event(here, capsys):
    assert campaign("correct", "c.db", "--run", 1, "--value", "y=7.5", "--reason", "wrong mesh") == 0
    with opened() as store:
        assert store.to_dataframe().y[0] == 7.5
    capsys.readouterr()
    assert campaign("events", "c.db") == 0
    shown = capsys.readouterr().out
    assert "wrong mesh" in shown
    assert "7.5" in shown


def test_failed_runs_are_asked_again_some_or_all(here):
    with opened() as store:
        n, first = store.n_failed, int(store.failures().run.iloc[0])
    assert n > 1
    assert campaign("retry", "c.db", "--run", first) == 0
    with opened() as store:
        assert store.n_failed == n - 1
    assert campaign("retry", "c.db") == 0
    with opened() as store:
        assert store.n_failed == 0
        assert len(store.pending) == n


def test_runs_are_forgotten_by_number(here):
    assert campaign("forget", "c.db", "--run", 1, "--run", 2) == 0
    with opened() as store:
        assert (store.to_dataframe().state[:2] == "forgotten").all()


def test_earlier_runs_come_in_without_their_other_columns_and_with_their_failures(here):
    rows = {
        "u": [0.111, 0.222, 0.987],
        "y": [0.1, 0.2, None],
        "who": ["A", "B", "A"],
        "error": [None, None, "diverged"],
    }
    pd.DataFrame(rows).to_csv("earlier.csv", index=False)
    for _ in range(2):  # a second time does no harm
        assert campaign("import", "c.db", "earlier.csv", "--outputs", "y") == 0
        with opened() as store:
            frame = store.to_dataframe()
            assert len(frame) == 19
            assert (frame.origin == "foreign").sum() == 3
            assert set(frame.columns) & {"who", "error"} == set()
            assert store.failures().message.iloc[-1] == "diverged"


def test_a_campaign_starts_from_a_table_of_earlier_runs(here):
    (here / "new.toml").write_text('store = "new.db"\n[bounds]\nu = [0, 1]\n')
    pd.DataFrame({"u": [0.1, 0.2], "lift": [1.0, 2.0], "note": ["a", "b"]}).to_csv("earlier.csv", index=False)
    assert campaign("import", "new.toml", "earlier.csv", "--outputs", "lift") == 0
    with Campaign(storage="new.db") as store:
        assert store.outputs == ("lift",)
        assert store.n_done == 2


def test_init_writes_a_file_that_runs(here, capsys):
    (here / "solver").write_text('#!/bin/sh\necho "$2"\n')
    (here / "solver").chmod(0o755)
    assert campaign("init", "case.toml") == 0
    text = (here / "case.toml").read_text()
    assert tomllib.loads(text)["bounds"] == {"u0": "0:1", "t": "0.1:10:log"}
    everything = "\n".join(line.removeprefix("# ") for line in text.splitlines()[1:])
    (here / "all.toml").write_text(everything)
    assert read_settings(here / "all.toml").templates == {"case.in": "case.template"}
    assert campaign("init", "case.toml") == 2  # not replaced without --force
    assert campaign("run", "case.toml", "-n", 12) == 0
    with Campaign(storage="campaign.db") as store:
        assert store.n_done == 12


def test_the_page_is_written_until_nothing_runs(here):
    assert campaign("page", "c.db", "--watch", "--force") == 0
    assert "<html" in (here / "c.html").read_text()
    assert "left for" not in (here / "c.html").read_text()


def test_the_page_of_a_running_campaign_says_how_long_it_will_take(here):
    with opened() as store:
        store.run(lambda u: u, 24, stop_when=lambda _: main(["campaign", "page", "c.db", "--force"]) and None)
    assert "left for" in (here / "c.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["correct", "c.db"], "pass --run 7 --value"),
        (["correct", "c.db", "--run", 99, "--value", "y=1"], "run 99 is not in"),
        (["forget", "c.db"], "pass --run 7"),
        (["import", "c.db", "nowhere.csv"], "nowhere.csv"),
        (["submit", "c.db", "--cancel"], "has nothing in SLURM"),
    ],
)
def test_bad_input_ends_with_one_line(here, capsys, arguments, message):
    with opened() as store:
        before = store.to_dataframe()
    assert campaign(*arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    with opened() as store:
        pd.testing.assert_frame_equal(store.to_dataframe(), before)


CONSTRAINT = "u0 * t <= 5 and (t > 1 or m == 'steel')"
BOUNDS = {"u0": (0.0, 1.0), "t": (0.1, 10.0), "m": ["steel", "copper"]}


def test_a_constraint_as_text_is_kept_by_the_store(tmp_path):
    with Campaign(BOUNDS, storage=tmp_path / "c.db", constraint=CONSTRAINT) as store:
        store.run(lambda u0, t, m: u0 * t, 24)
    with Campaign(storage=tmp_path / "c.db") as store:
        frame = store.run(lambda u0, t, m: u0 * t, 32).to_dataframe()
    assert len(frame) == 32
    assert (frame.u0 * frame.t <= 5).all()
    assert ((frame.t > 1) | (frame.m == "steel")).all()


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').abort()", "u0.__class__", "(lambda: 1)()", "[u for u in u0]", "u0 + 1", "v < 1", "u0 <",
        "u0 < 1; import os", "f'{u0}' == ''", "(" * 900, "-" * 990 + "u0 < 1", "u0 < 'a'", "m < 3", "abs() < 1",
        "u0 in t",
    ],
)  # fmt: skip
def test_a_hostile_or_senseless_constraint_is_rejected_before_anything_is_written(tmp_path, text):
    with pytest.raises(ValueError, match=r"(?s)cannot be read .*expected a comparison of inputs"):
        Campaign(BOUNDS, storage=tmp_path / "c.db", constraint=text)
    assert not (tmp_path / "c.db").exists()


def test_templates_kept_folders_and_named_outputs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deck.template").write_text("u = {u:8.4f}\nmaterial = {m}\n")
    text = (
        'command = "cat deck.in"\noutputs = \'u = *(?P<CL>[0-9.]+)\'\nruns = 8\nkeep = "kept"\n'
        '[bounds]\nu = [0, 1]\nm = ["steel", "copper"]\n[templates]\n"deck.in" = "deck.template"\n'
    )
    (tmp_path / "case.toml").write_text(text)
    assert campaign("run", "case.toml") == 0
    with Campaign(storage="campaign.db") as store:
        frame = store.to_dataframe()
        assert (frame.CL - frame.u).abs().max() <= 5.1e-5
    kept = [*(tmp_path / "kept").iterdir()]
    assert len(kept) == 8
    for folder in kept:
        inputs = json.loads((folder / "steep-inputs.json").read_text())
        assert re.search(f"material = {inputs['m']}", (folder / "deck.in").read_text())
        assert (folder / "steep-stdout.txt").read_text() == (folder / "deck.in").read_text()
    capsys.readouterr()
    for template, message in (
        ("{speed}", "expected the same inputs"),
        ("{u:{m}}", "by another field"),
        ("{u", "template"),
    ):
        (tmp_path / "deck.template").write_text(template)
        assert campaign("run", "case.toml", "-n", 9) == 2
        assert message in capsys.readouterr().err


def test_a_template_stays_in_the_folder_of_its_run(tmp_path):
    from steep import command_simulator

    for name in ("../deck.in", "/tmp/deck.in", ""):
        with pytest.raises(ValueError, match="inside the folder"):
            command_simulator(["true"], templates={name: "x"})
