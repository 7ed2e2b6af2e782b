"""``steep campaign``: programs and functions run to their budget, are looked after, and resume."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import steep
from steep.cli import main
from steep.cli.campaign.settings import Settings, read_settings
from steep.exceptions import SteepError

MINUTE = 60
TOML = """
store = "kept/campaign.db"
command = "./solver --u0 {u0} --t {t}"
runs = 14
workers = 2

[bounds]
u0 = [0, 0.9]
t = "0.1:10:log"
"""


def campaign(*arguments):
    return main(["campaign", *map(str, arguments)])


def told(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def store(here):
    """A campaign of twelve runs, some of which failed."""
    with steep.Campaign({"u0": (0.0, 1.0)}, storage=here / "campaign.db", random_state=0) as run:
        run.run(half_of_it, 12, retries=0)
    return here / "campaign.db"


def half_of_it(u0):
    if u0 > 0.7:
        raise ValueError(f"diverged at {u0}")
    return {"u": u0 / 2}


def test_status_tells_how_far_it_is(store, capsys):
    assert campaign("status", store, "--json") == 0
    status = told(capsys)
    assert status["n_done"] + status["n_failed"] == status["budget"] == 12
    assert (status["n_running"], status["n_left"], status["state"]) == (0, 0, "finished")
    assert campaign("status") == 0
    text = capsys.readouterr().out
    assert f"{status['n_done']} of 12 runs done, 0 running, {status['n_failed']} failed" in text


def test_failures_that_differ_in_numbers_alone_are_shown_together(store, capsys):
    assert campaign("failures", store, "--json") == 0
    failures = told(capsys)
    assert failures["given_up"] == failures["attempts"] == len(failures["failures"]) > 1
    assert all("Traceback" in failure["traceback"] for failure in failures["failures"])
    assert campaign("failures", store, "--traceback") == 0
    text = capsys.readouterr().out
    assert text.count("diverged at") == 3  # once in the table, twice in the traceback shown


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_runs_are_exported(store, capsys, suffix):
    assert campaign("export", store, "-o", f"runs{suffix}", "--state", "done", "--json") == 0
    figures = told(capsys)
    assert figures["columns"][:3] == ["u0", "u", "state"]
    if suffix == ".csv":
        runs = pd.read_csv("runs.csv")
        assert len(runs) == figures["runs"]
        np.testing.assert_allclose(runs["u"], runs["u0"] / 2, rtol=1e-14)  # pandas 2 may err in the last digit


def test_existing_files_are_replaced_only_by_force(store, capsys):
    (store.parent / "kept.csv").write_text("kept")
    assert campaign("export", store, "-o", "kept.csv") == 2
    assert "exists already" in capsys.readouterr().err
    assert (store.parent / "kept.csv").read_text() == "kept"
    assert campaign("export", store, "-o", store) == 2
    assert campaign("export", store, "-o", "kept.csv", "--force") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status", "none.db"], "none.db does not exist; expected the file of a campaign"),
        (["status", "simulator.py"], "file is not a database"),
        (["status", "."], "is a folder"),
        (["run"], "does not exist yet; a new campaign needs bounds"),
        (["run", "--bounds", "u0=0:1"], "the number of runs is missing"),
        (["run", "--bounds", "u0=0:1", "-n", "8"], "need either a program or a function"),
        (["run", "c.db", "simulator:run", "--command", "x", "--bounds", "x=0:1", "-n", "8"], "need either"),
        (["run", "--bounds", "u0=0:1", "-n", "8", "--command", "./solver --u0 {u}"], "the command has {u} and"),
        (
            ["run", "--bounds", "u0=0:1,t=0:1", "-n", "8", "--command", "./solver --u0 {u0}"],
            "the command has {u0} and the bounds have u0, t;",
        ),
        (["run", "--bounds", "u0=0:1", "-n", "8", "--command", "./solver '{u0}"], "cannot be split"),
        (["run", "--bounds", "x=0:1", "-n", "8", "c.db", "simulator:run"], "takes (x, t) and is given one array"),
        (["run", "--bounds", "u0=0:1", "-n", "8", "--initial", "9", "--command", "./solver {u0}"], "--initial 9"),
        (["run", "none.toml"], "none.toml cannot be read"),
        (["page", "-o", "c.txt"], "must end in .html"),
        (["page"], "campaign.db does not exist"),
    ],
)
def test_bad_input_ends_with_one_line(here, capsys, arguments, message):
    assert campaign(*arguments) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line not in ("loading", "running")]
    assert len(lines) == 1
    assert message in lines[0]
    assert not list(here.glob("*.db"))  # bounds that were wrong would be kept in it


def test_a_file_beside_the_solver_says_it_all(here):
    folder = here / "case"
    folder.mkdir()
    (folder / "case.toml").write_text(TOML)
    settings = read_settings(folder / "case.toml")
    assert settings.store == folder / "kept" / "campaign.db"
    assert settings.folder == folder
    assert list(settings.bounds) == ["u0", "t"]
    assert settings.overridden(runs=3, workers=None) == Settings(**(vars(settings) | {"runs": 3}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs = ", "is not valid TOML"),
        ("rnus = 3", "unknown entry 'rnus'; it may have store, command"),
        ('runs = "3"', "runs = '3'; expected a whole number"),
        ("runs = true", "expected a whole number"),
        ("bounds = 3", "expected a table"),
        ("[bounds]\nu = 3", "bounds of axis 'u'"),
        ("[bounds]\n", "the bounds are empty"),
        ("timeout = 'a'", "expected a number"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(here, text, message):
    (here / "case.toml").write_text(text)
    with pytest.raises(SteepError, match=message) as caught:
        read_settings(here / "case.toml")
    assert "\n" not in str(caught.value)


CONSTRAINED = """
constraint = "limits:allowed"
function = "limits:solve"
runs = 10

[bounds]
x = [0, 1]
t = [0, 1]
"""
LIMITS = """
print("loading")


def allowed(X):
    return X[:, 0] + X[:, 1] <= 1


def solve(x, t):
    return x - t
"""


@pytest.fixture
def constrained(here):
    (here / "limits.py").write_text(LIMITS)
    (here / "case.toml").write_text(CONSTRAINED)
    return here / "case.toml"


@pytest.mark.filterwarnings("default")
def test_a_constraint_is_named_in_the_file_and_kept_by_every_command(constrained, here, capsys):
    assert campaign("ask", constrained, "-n", 6, "-o", "points.csv") == 0
    points = pd.read_csv("points.csv")
    assert (points.x + points.t <= 1).all()
    points.assign(f=points.x).to_csv("results.csv", index=False)
    assert campaign("tell", constrained, "results.csv") == 0
    assert campaign("export", constrained, "-o", "runs.csv") == 0
    assert pd.read_csv("runs.csv").inside.all()
    capsys.readouterr()
    assert campaign("ask", "campaign.db") == 2
    warning, line = capsys.readouterr().err.splitlines()
    assert (
        "steep: warning: storage 'campaign.db' has a constraint that is a function, which a file cannot keep" in warning
    )
    assert 'constraint = "module:function", to ask for points' in line


def test_a_constraint_that_is_not_there_is_one_line(constrained, here, capsys):
    constrained.write_text(CONSTRAINED.replace("allowed", "alowed"))
    assert campaign("ask", constrained) == 2
    assert "limits has no 'alowed'" in capsys.readouterr().err
    assert not (here / "campaign.db").exists()


@pytest.mark.slow
def test_a_constrained_campaign_is_run_from_its_file(constrained, capsys):
    assert campaign("run", constrained, "--json") == 0
    with steep.Campaign(storage="campaign.db", constraint=lambda X: X.sum(axis=1) <= 1) as opened:
        assert opened.n_done == 10
        assert opened.box.contains(opened.X).all()


@pytest.mark.parametrize("command", [["export", "-o", "r.csv"], ["failures"], ["page", "-o", "p.html"], ["status"]])
def test_a_command_that_looks_writes_nothing_to_the_store(store, capsys, command):
    before = store.read_bytes(), store.stat().st_mtime_ns
    assert campaign(command[0], store, *command[1:]) == 0
    assert (store.read_bytes(), store.stat().st_mtime_ns) == before
    shutil.copy(Path(steep.__file__).parents[2] / "tests/campaign/stores/format-1a.db", "old.db")
    old = Path("old.db").read_bytes()
    assert campaign(command[0], "old.db", *command[1:], *(["--force"] if command[1:] else [])) == 0
    assert Path("old.db").read_bytes() == old


@pytest.mark.slow
def test_a_mistake_is_reported_with_the_options_of_the_shell(here, capsys):
    assert campaign("run", "--command", "false {u0}", "--bounds", "u0=0:1", "-n", "8") != 0
    assert "--max-failures 0" in capsys.readouterr().err


# ------------------------------------------------------------------------------------- real processes


@pytest.mark.slow
def test_a_program_is_run_from_a_file_and_the_same_command_resumes(here, capsys):
    folder = here / "case"
    folder.mkdir()
    (folder / "kept").mkdir()
    (here / "solver").rename(folder / "solver")
    (folder / "case.toml").write_text(TOML)
    assert campaign("run", folder / "case.toml", "-n", "9", "--json") == 0
    first = told(capsys)
    assert (first["n_done"], first["state"]) == (9, "finished")
    assert campaign("run", "case/case.toml", "--json") == 0
    assert told(capsys)["n_done"] == 14
    assert campaign("status", "case/case.toml", "--json") == 0
    assert told(capsys)["n_done"] == 14


@pytest.mark.slow
def test_a_script_beside_the_store_is_found_from_the_folder_of_each_run(here, capsys):
    command = f"{os.sys.executable} solver --u0 {{u0}}"
    assert campaign("run", "--command", command, "--bounds", "u0=0:0.9", "-n", "8", "--json") == 0
    assert told(capsys)["n_done"] == 8


@pytest.mark.slow
def test_a_function_is_run_in_processes_and_its_words_stay_off_stdout(here, start):
    run = start("campaign", "run", "c.db", "simulator:run", "--bounds", "x=0:1,t=0:1", "-n", "8", "--json", cwd=here)
    out, err = run.communicate(timeout=MINUTE)
    assert run.returncode == 0, err.decode()
    assert json.loads(out)["n_done"] == 8
    assert b"running" in err


@pytest.mark.slow
def test_a_simulator_that_never_works_stops_early_and_says_why(here, capsys):
    (here / "solver").write_text("#!/bin/sh\necho 'no licence' >&2; exit 3\n")
    assert campaign("run", "--command", "./solver {u0}", "--bounds", "u0=0:1", "-n", "50") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "5 runs in a row failed in the same way" in error
    assert "no licence" in error


def wait_for(condition):
    end = time.monotonic() + MINUTE
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def status_of(store):
    from steep.campaign.campaign import ReadCampaign

    if not store.exists() or store.stat().st_size == 0:
        return None
    try:
        with ReadCampaign(store) as reader:
            return reader.status()
    except SteepError:
        return None


HELD = """#!/bin/sh
# Runs above 0.8 leave a mark, and wait for as long as the file exists.
case "$1" in 0.[89]*|1.0) touch "{hold}.$$"; while [ -e "{hold}" ]; do sleep 0.05; done ;; esac
echo "{{\\"u\\": $1}}"
"""


@pytest.fixture
def held(here, start):
    """A campaign that another process runs, with both of its workers waiting for the file ``hold`` to go."""
    (here / "solver").write_text(HELD.format(hold=here / "hold"))
    (here / "hold").touch()
    options = ["--bounds", "u0=0:1", "-n", "30", "--workers", "2"]
    run = start("campaign", "run", "c.db", "--command", "./solver {u0}", *options, cwd=here)
    wait_for(lambda: len(list(here.glob("hold.*"))) == 2 and (s := status_of(here / "c.db")) and s.n_done)
    yield run
    (here / "hold").unlink(missing_ok=True)


@pytest.mark.slow
def test_status_follows_a_campaign_that_another_process_runs_until_it_ends(here, held, start):
    running = status_of(here / "c.db")
    assert running.is_running
    assert running.outcome is None
    assert running.rate > 0
    assert running.seconds_left > 0
    watch = start("campaign", "status", "c.db", "--watch", "--json", "--interval", "0.1", cwd=here)
    first = json.loads(watch.stdout.readline())
    assert (first["state"], first["n_left"]) == ("running", 30 - first["n_done"] - first["n_failed"])
    (here / "hold").unlink()
    out, err = watch.communicate(timeout=MINUTE)
    assert (watch.returncode, err) == (0, b"")
    lines = [first, *map(json.loads, out.splitlines())]
    assert (lines[-1]["state"], lines[-1]["n_done"]) == ("finished", 30)
    assert [line["n_done"] for line in lines] == sorted(line["n_done"] for line in lines)
    held.communicate(timeout=MINUTE)
    assert held.returncode == 0


@pytest.mark.slow
def test_an_interrupt_ends_the_watching_cleanly_and_the_campaign_resumably(here, held, start, capsys):
    watch = start("campaign", "status", "c.db", "--watch", cwd=here)
    assert watch.stdout.readline() == b"c.db: running\n"
    watch.send_signal(signal.SIGINT)
    _, err = watch.communicate(timeout=MINUTE)
    assert (watch.returncode, err) == (0, b"")
    assert held.poll() is None
    held.send_signal(signal.SIGINT)
    _, err = held.communicate(timeout=MINUTE)
    assert held.returncode == 130
    assert err == b"steep: interrupted\n"
    status = status_of(here / "c.db")
    assert (status.outcome, status.n_running) == ("interrupted", 0)
    assert 0 < status.n_done < 30
    (here / "hold").unlink()
    assert campaign("run", "c.db", "--command", "./solver {u0}", "-n", "30", "--json") == 0
    assert told(capsys)["n_done"] == 30


@pytest.mark.slow
def test_a_killed_campaign_is_not_running(here, held, start):
    held.kill()
    held.communicate()
    status = status_of(here / "c.db")
    assert (status.is_running, status.outcome, status.n_running) == (False, "interrupted", 0)
    assert status.n_waiting >= 2
    watch = start("campaign", "status", "c.db", "--watch", cwd=here)
    out, err = watch.communicate(timeout=MINUTE)
    assert (watch.returncode, err) == (0, b"")
    assert b"waiting to be made again" in out
