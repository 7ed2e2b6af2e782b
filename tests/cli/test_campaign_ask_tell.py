"""``steep campaign ask`` and ``tell``: runs made by a batch system, no process of ours alive in between."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import steep
from steep.cli import main
from steep.cli.campaign.tell import read_results
from steep.exceptions import SteepError

BOUNDS = "u0=0:1,k=0.1:10:log,n=1:8:int,c={steel|copper}"


def campaign(*arguments):
    return main(["campaign", *map(str, arguments)])


def told(capsys):
    return json.loads(capsys.readouterr().out)


def results(frame):
    return frame.u0 * frame.n + (frame.c == "steel")


@pytest.fixture
def asked(here, capsys):
    """Six points of a new campaign, as they were written."""
    assert campaign("ask", "-n", 6, "--bounds", BOUNDS, "--lease", "2 h", "-o", "points.csv") == 0
    assert "points.csv: 6 points, yours until" in capsys.readouterr().out
    return pd.read_csv(here / "points.csv")


@pytest.mark.parametrize("name", ["points.csv", "points.feather", "points.parquet"])
def test_points_are_written_with_all_their_digits(name, here):
    assert campaign("ask", "-n", 5, "--bounds", BOUNDS, "-o", name) == 0
    written = read_results(here / name)
    assert list(written.columns) == ["run", "u0", "k", "n", "c", "expires"]
    with steep.Campaign(storage="campaign.db") as opened:
        np.testing.assert_allclose(  # pandas 2 may err in the last digit when it reads
            opened.box.encode(written[["u0", "k", "n", "c"]].to_dict("records")), opened.pending, rtol=1e-14
        )


def test_without_a_file_the_points_are_csv_on_stdout(here, capsys):
    assert campaign("ask", "-n", 3, "--bounds", "u=0:1") == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(frame.columns) == ["run", "u", "expires"]
    assert frame.run.tolist() == [1, 2, 3]
    assert campaign("ask", "-n", 2, "--json") == 0
    assert [row["run"] for row in told(capsys)["runs"]] == [4, 5]


def test_a_campaign_is_asked_and_told_to_its_end_by_files_alone(here, capsys):
    assert campaign("ask", "-n", 20, "--bounds", BOUNDS, "-o", "points.csv") == 0
    for _ in range(3):
        frame = pd.read_csv("points.csv")
        frame["y"] = results(frame)
        frame.to_csv("results.csv", index=False)
        assert campaign("tell", "results.csv") == 0
        assert campaign("ask", "-n", 10, "-o", "points.csv", "--force") == 0
    capsys.readouterr()
    assert campaign("status", "--json") == 0
    status = told(capsys)
    assert (status["n_done"], status["n_leased"], status["n_waiting"], status["n_failed"]) == (40, 10, 0, 0)
    with steep.Campaign(storage="campaign.db") as opened:
        assert set(opened.to_dataframe().origin) == {"initial", "design"}


def test_a_table_tells_results_and_failures_and_leaves_out_empty_rows(asked, here, capsys):
    asked["y"] = results(asked)
    asked["error"] = [None, "diverged", None, None, None, None]
    asked.loc[[1, 4], "y"] = np.nan
    asked.to_csv("results.csv", index=False)
    assert campaign("tell", "campaign.db", "results.csv", "--json") == 0
    figures = told(capsys)
    counts = [figures[name] for name in ("new_results", "new_failures", "n_pending")]
    assert counts == [4, 1, 1]
    with steep.Campaign(storage="campaign.db") as opened:
        assert opened.failures().message.tolist() == ["diverged"]


@pytest.mark.parametrize("known", [False, True])
def test_a_table_of_failures_alone_needs_no_outputs(asked, known, capsys):
    if known:
        assert campaign("tell", "--run", 1, "--value", "u=1") == 0
    Path("failed.csv").write_text("run,error\n2,exit code 3\n3,exit code 4\n")
    assert campaign("tell", "failed.csv") == 0
    with steep.Campaign(storage="campaign.db") as opened:
        assert opened.failures().message.tolist() == ["exit code 3", "exit code 4"]


def test_telling_the_same_table_twice_does_no_harm(asked, capsys):
    asked.assign(y=results(asked)).to_csv("results.csv", index=False)
    assert campaign("tell", "results.csv") == 0
    assert campaign("tell", "results.csv") == 0
    assert "0 results and 0 failures recorded; 6 runs done, 0 pending" in capsys.readouterr().out


def test_one_run_is_told_by_its_number(asked, capsys):
    assert campaign("tell", "--run", 2, "--value", "u=3.5", "--value", "v=-1e-3") == 0
    assert campaign("tell", "--run", 3, "--error", "out of memory") == 0
    with steep.Campaign(storage="campaign.db") as opened:
        assert (opened.outputs, opened.y.tolist()) == (("u", "v"), [[3.5, -0.001]])
        assert opened.failures().run.tolist() == [3]


@pytest.mark.parametrize("by_table", [True, False])
def test_a_failure_with_retries_left_is_asked_again_at_once(asked, by_table, capsys):
    if by_table:
        pd.DataFrame({"run": [2], "y": [None], "error": ["node lost"]}).to_csv("results.csv", index=False)
        assert campaign("tell", "results.csv", "--retries", 1) == 0
    else:
        assert campaign("tell", "--run", 2, "--error", "node lost", "--retries", 1) == 0
    capsys.readouterr()
    assert campaign("ask", "--json") == 0
    assert told(capsys)["runs"][0]["run"] == 2


def test_one_bad_table_of_many_does_not_keep_back_the_others(asked, here, capsys):
    for number in asked.run:
        (here / f"{number}.json").write_text(json.dumps({"run": int(number), "y": 0.5}))
    (here / "4.json").write_text('{"run": 4, "y"')
    assert campaign("tell", "campaign.db", *(f"{number}.json" for number in asked.run), "--json") == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["new_results"] == 5
    assert list(json.loads(out)["rejected"]) == ["4.json"]
    assert "1 of 6 tables were not recorded: 4.json" in err.splitlines()[-1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_points_that_nobody_saw_are_asked_again(asked, monkeypatch, capsys):
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        assert campaign("ask", "-n", 3) == 2
        with contextlib.suppress(OSError):
            full.close()
    assert campaign("ask", "-n", 3) == 0
    assert pd.read_csv(io.StringIO(capsys.readouterr().out)).run.tolist() == [7, 8, 9]


def test_a_lease_that_is_over_is_asked_again(here, capsys):
    assert campaign("ask", "-n", 2, "--bounds", "u=0:1", "--lease", "1 ms") == 0
    capsys.readouterr()
    assert campaign("ask", "-n", 3, "--json") == 0
    assert [row["run"] for row in told(capsys)["runs"]] == [1, 2, 3]


def test_status_counts_leased_runs_apart(asked, capsys):
    assert campaign("status") == 0
    shown = capsys.readouterr().out
    assert "0 runs done, 0 running, 6 leased, 0 failed" in shown
    assert "runs are made outside steep (ask/tell)" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ask", "none.db"], "none.db does not exist yet; a new campaign needs bounds"),
        (["ask", "--lease", "soon"], "lease='soon' is not a length of time"),
        (["ask", "--lease", "3600"], "lease='3600' has no unit"),
        (["ask", "-n", 0], "n=0 is too small"),
        (["ask", "-o", "points.xyz"], "expected one of .csv, .parquet"),
        (["ask", "-o", "points.csv"], "points.csv exists already"),
        (["ask", "--bounds", "v=0:1"], "bounds"),
        (["tell"], "neither a table nor a run"),
        (["tell", "none.csv"], "none.csv"),
        (["tell", "none.db", "--run", 1, "--value", 2], "none.db does not exist"),
        (["tell", "points.csv", "--run", 1, "--value", 2], "a run and tables"),
        (["tell", "--run", 1], "needs its values or an error"),
        (["tell", "--run", 1, "--value", 2, "--error", "no"], "needs its values or an error"),
        (["tell", "--run", 1, "--value", "u=three"], "--value u=three is not a number"),
        (["tell", "--run", 1, "--value", "u=nan"], "NaN"),
        (["tell", "--run", 1, "--value", "u=1", "--value", 2], "--value 2 has no name"),
        (["tell", "--run", 1, "--value", "u=1", "--value", "u=2"], "names an output twice"),
        (["tell", "--run", 99, "--value", 2], "run 99 is not in 'campaign.db'"),
        (["tell", "--run", -1, "--value", 2], "run is -1"),
    ],
)  # fmt: skip
def test_bad_input_ends_with_one_line_and_records_nothing(asked, arguments, message, capsys):
    assert campaign(*arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1
    with steep.Campaign(storage="campaign.db") as opened:
        assert (opened.n_done, opened.n_failed, len(opened.pending)) == (0, 0, 6)


def damaged(text, rng):
    """A file with some of its bytes changed, cut or doubled."""
    content = bytearray(text)
    for _ in range(rng.integers(1, 6)):
        at, n = rng.integers(len(content) + 1), rng.integers(1, 12)
        kind = rng.integers(3)
        if kind == 0:
            del content[at : at + n]
        elif kind == 1:
            content[at:at] = rng.choice(
                [b",", b"\n", b'"', b"\0", b"nan", b"inf", b"1e999", b"[", b"{", b"\xff", b"=", b"-"]
            )
        else:
            content[at : at + n] = rng.bytes(n)
    return bytes(content)


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl", ".parquet"])
def test_damaged_tables_are_told_or_refused_and_never_crash(asked, here, suffix, capsys):
    rng = np.random.default_rng(0)
    frame = asked.assign(y=results(asked), error=[None, None, "diverged", None, None, None])
    frame.loc[2, "y"] = np.nan
    path = here / f"results{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        rows = json.loads(frame.to_json(orient="records"))
        text = frame.to_csv(index=False) if suffix == ".csv" else json.dumps(rows)
        path.write_text("\n".join(map(json.dumps, rows)) if suffix == ".jsonl" else text)
    whole = path.read_bytes()
    with steep.Campaign(storage="campaign.db") as opened:
        for _ in range(60):
            path.write_bytes(damaged(whole, rng))
            with contextlib.suppress(SteepError):
                opened.tell_dataframe(read_results(path))
        opened.to_dataframe()
        assert np.isfinite(opened.y).all()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.csv", "", "r.csv is not a CSV table ("),
        ("r.csv", "run,u,u\n1,2,3\n", "r.csv has the columns 'run', 'u', 'u', some of them twice"),
        ("r.jsonl", '{"run": 1, "u": 2', "expected one object per run"),
        ("r.json", "{", "r.json is not valid JSON"),
        ("r.json", "3", "has no list of objects; expected one object per run"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line_with_options_of_this_command(asked, here, capsys, name, text, message):
    (here / name).write_text(text)
    assert campaign("tell", "campaign.db", name) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert "--separator" not in line
    with steep.Campaign(storage="campaign.db") as opened:
        assert opened.n_done == 0


def test_another_result_of_a_run_is_rejected_in_words_of_the_shell(asked, capsys):
    assert campaign("tell", "--run", 1, "--value", "u=1") == 0
    assert campaign("tell", "--run", 1, "--value", "u=2") == 2
    assert "or replace the result with Campaign.correct in Python" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
def test_columns_of_the_batch_system_are_left_out_with_a_line(asked, here, capsys):
    assert campaign("tell", "--run", 1, "--value", "u=1") == 0
    asked[1:].assign(u=2.0, node="n7", seconds=3.5).to_csv("r.csv", index=False)
    assert campaign("tell", "r.csv") == 0
    told = capsys.readouterr()
    assert (
        "steep: warning: columns ['node', 'seconds'] are neither inputs nor outputs (u) and were left out" in told.err
    )
    assert "5 results and 0 failures recorded" in told.out
