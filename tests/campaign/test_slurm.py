"""Campaigns on SLURM: the tasks by themselves, and a real slurmctld with two nodes where it is installed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import slurm_cluster
from steep.campaign import Campaign, Slurm, _guard, slurm
from steep.campaign.simulate import unpack
from steep.exceptions import CampaignError, InputError, InputTypeError, RejectedError

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "cluster.md"
BOUNDS = {"u": (0.0, 1.0), "t": (0.0, 1.0)}
SOLVER = """
import os, signal, time
from steep.exceptions import RejectedError

def solve(u, t):
    with open(os.environ["SOLVER_LOG"], "a") as file:
        file.write(f"{u!r}\\n")
    if u == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if u == 3:
        raise RejectedError("too steep")
    if u == 4:
        raise ValueError("no root")
    if u == 5:
        time.sleep(100)
    return {"y": u + t}
"""


def solve(u, t):
    return u + t


@pytest.fixture
def batch(tmp_path, monkeypatch):
    """A batch of one task with the runs 1 to 5, each with its own number as ``u``."""
    (tmp_path / "solver_of_tasks.py").write_text(SOLVER)
    folder = tmp_path / "b1"
    for name in ("todo", "running", "done", "taken"):
        (folder / name).mkdir(parents=True)
    for number in range(1, 6):
        (folder / "todo" / str(number)).write_text(json.dumps({"u": number, "t": 0.5}))
    (folder / "tasks.json").write_text("[[1, 2, 3, 4, 5]]")
    task = {"module": "solver_of_tasks", "name": "solve", "script": None, "path": [str(tmp_path)], "cwd": str(tmp_path)}
    (folder / "task.json").write_text(json.dumps(task | {"style": "keywords", "timeout": 1.0}))
    monkeypatch.setenv("SOLVER_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    return folder


def start(folder, **env):
    return subprocess.Popen([sys.executable, _guard.__file__, "task", str(folder)], env=os.environ | env)


def answers(folder):
    return {int(path.name): unpack(path.read_bytes()) for path in (folder / "done").iterdir()}


def test_a_task_answers_each_of_its_runs_whatever_becomes_of_it(batch):
    assert start(batch).wait(60) == 0
    found = answers(batch)
    assert found[1].values == [1.5]
    assert found[1].names == ("y",)
    assert {number: answer.failure.kind for number, answer in found.items() if answer.failure} == {
        2: "worker", 3: "rejected", 4: "exception", 5: "timeout",
    }  # fmt: skip
    assert "SIGSEGV" in found[2].failure.message
    assert not [*(batch / "todo").iterdir(), *(batch / "running").iterdir()]


def test_a_run_is_made_once_by_any_number_of_tasks(batch):
    tasks = [start(batch) for _ in range(4)]
    assert [task.wait(60) for task in tasks] == [0] * 4
    assert sorted((batch.parent / "log").read_text().split()) == ["1", "2", "3", "4", "5"]


def test_a_run_that_was_taken_back_is_not_begun(batch):
    assert slurm._moved(batch / "todo" / "1", batch / "taken")
    assert start(batch).wait(60) == 0
    assert 1 not in answers(batch)
    assert "1" not in (batch.parent / "log").read_text().split()


def test_a_task_that_is_terminated_leaves_its_run_unanswered_and_begins_no_other(batch):
    (batch / "tasks.json").write_text("[[5, 1]]")
    task = start(batch)
    while not (batch.parent / "log").exists():
        time.sleep(0.02)
    task.send_signal(signal.SIGTERM)
    for pid in _children(task.pid):
        os.kill(pid, signal.SIGTERM)  # as SLURM does
    assert task.wait(60) == 1
    assert answers(batch) == {}
    assert [path.name for path in (batch / "running").iterdir()] == ["5"]
    assert (batch / "todo" / "1").exists()


def _children(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def test_a_requeued_task_makes_again_what_it_did_not_finish(batch):
    os.rename(batch / "todo" / "1", batch / "running" / "1")
    assert start(batch).wait(60) == 0
    assert 1 not in answers(batch)  # another task is at it
    assert start(batch, SLURM_RESTART_COUNT="1").wait(60) == 0
    assert answers(batch)[1].values == [1.5]


# ------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "1 && rm"}, "time is '1 && rm'"),
        ({"partition": "a\nb"}, "partition is"),
        ({"options": "--mem=4G"}, "expected a list"),
        ({"options": ["mem"]}, "expected options of sbatch"),
        ({"options": ["--mem=4G\n--wrap=x"]}, "expected options of sbatch"),
        ({"options": ["--array=1-9"]}, "which steep sets itself"),
        ({"in_flight": 0}, "in_flight"),
        ({"runs_per_task": 1.5}, "runs_per_task"),
    ],
)
def test_options_that_are_not_of_sbatch_are_rejected(options, message):
    with pytest.raises((InputError, InputTypeError), match=re.escape(message)):
        Slurm(**options)


def test_without_slurm_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with Campaign(BOUNDS, storage=tmp_path / "c.db") as campaign:
        with pytest.raises(CampaignError, match="sbatch was not found"):
            campaign.run(solve, 10, executor="slurm")
        assert campaign.n_asked == 0


def test_what_a_node_cannot_find_is_rejected(tmp_path):
    for function in (lambda u, t: u, print, Slurm()._arguments):
        with pytest.raises(InputTypeError, match="a node cannot find"):
            slurm.task_of(function, "keywords", None)


def test_one_process_submits_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "_PATIENCE", 0.2)
    with Campaign(BOUNDS, storage=tmp_path / "c.db") as campaign, slurm._locked(campaign.journal, wait=True):
        with (
            pytest.raises(CampaignError, match="another process has been submitting"),
            slurm._locked(campaign.journal, wait=True),
        ):
            pass
        with slurm._locked(campaign.journal, wait=False) as lock:
            assert lock is None


def test_a_rejected_run_is_neither_tried_again_nor_taken_for_a_mistake(tmp_path):
    def outside(u, t):
        if u > 0.5:
            raise RejectedError("u is too large")
        return u

    with Campaign(BOUNDS, storage=tmp_path / "c.db") as campaign:
        campaign.run(outside, 24, retries=3, max_failures=2)
        failures = campaign.failures()
        assert set(failures.kind) == {"rejected"}
        assert failures.run.is_unique
        assert campaign.n_done + campaign.n_failed == 24


# ------------------------------------------------------------------------------------------- a real SLURM


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if missing := slurm_cluster.missing():
        assert not os.environ.get("STEEP_NEEDS_SLURM"), f"{missing} not found"
        pytest.skip(f"needs {', '.join(missing)}; install slurm-wlm and munge")
    cluster = slurm_cluster.Slurm(tmp_path_factory.mktemp("slurm"), cpus=8)
    try:
        try:
            cluster.start()
        except RuntimeError as error:
            if os.environ.get("STEEP_NEEDS_SLURM"):
                raise
            pytest.skip(str(error))
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def on_cluster(cluster, tmp_path, monkeypatch):
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_commands_of_the_tutorial_run_on_slurm(on_cluster):
    text = TUTORIAL.read_text(encoding="utf-8")
    files = {"python": "solver.py", "ini": "deck.template", "toml": "case.toml"}
    for kind, name in files.items():
        (on_cluster / name).write_text(re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1])
    (on_cluster / "steep").write_text(f'#!/bin/sh\nexec {sys.executable} -m steep "$@"\n')
    (on_cluster / "steep").chmod(0o755)
    environment = os.environ | {"PATH": f"{on_cluster}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    commands = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    done = subprocess.run(["bash", "-eu", "-c", commands], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout
    with Campaign(storage="campaign.db") as campaign:
        frame = campaign.to_dataframe()
        assert frame.state.isin(["done", "failed"]).sum() == 24
        assert (frame.u0 * frame.t <= 8).all()
        assert "CL" in frame.columns
        assert (frame[frame.state == "failed"].u0 > 0.98).all()
    assert (on_cluster / "runs.html").exists()


@pytest.mark.slow
def test_a_queue_that_rejects_the_job_leaves_nothing_behind(on_cluster):
    with Campaign(BOUNDS, storage="c.db") as campaign:
        with pytest.raises(CampaignError, match=r"SLURM rejected sbatch .*partition"):
            campaign.run(solve, 10, executor=Slurm(partition="nowhere"))
        assert [path.name for path in Path("c.slurm").iterdir()] == ["lock"]
        assert campaign.run(solve, 10).n_done == 10


@pytest.mark.slow
def test_runs_go_on_after_cancelled_tasks_and_a_killed_submitter(cluster, on_cluster):
    (on_cluster / "slow.py").write_text("import time\ndef solve(u, t):\n    time.sleep(0.5)\n    return u + t\n")
    command = [sys.executable, "-m", "steep", "campaign", "submit", "c.db", "slow:solve", "--bounds", "u=0:1,t=0:1"]
    for life in range(3):
        submitter = subprocess.Popen([*command, "-n", "20", "--watch", "--interval", "0.5"])
        time.sleep(4)
        cluster.call("scancel", "--state=RUNNING", "-u", str(os.getuid()), check=False)
        submitter.kill() if life < 2 else submitter.wait(120)
        submitter.wait(120)
    with Campaign(storage="c.db") as campaign:
        frame = campaign.to_dataframe()
        assert (frame.state == "done").sum() == 20
        assert len(frame) == 20
        assert not len(campaign.failures())
        assert (frame.y0 - frame.u - frame.t).abs().max() < 1e-12


@pytest.mark.slow
def test_answers_of_another_campaign_are_not_taken(on_cluster):
    stray = Path("c.slurm") / "bdeadbeef" / "done"
    stray.mkdir(parents=True)
    (stray / "1").write_bytes(b"not an answer")
    with Campaign(BOUNDS, storage="c.db") as campaign:
        campaign.run(solve, 4, executor=Slurm(in_flight=4))
        frame = campaign.to_dataframe()
        assert (frame.y0 - frame.u - frame.t).abs().max() < 1e-12
    assert not stray.exists()


@pytest.mark.slow
def test_tasks_that_cannot_begin_stop_the_submitting_with_what_they_wrote(on_cluster, monkeypatch):
    (on_cluster / "gone").mkdir()
    monkeypatch.chdir("gone")
    with Campaign(BOUNDS, storage=on_cluster / "c.db") as campaign:
        progress = slurm.submit(campaign, solve, 4, Slurm(in_flight=4), style="keywords")
        (on_cluster / "gone").rmdir()
        with pytest.raises(CampaignError, match=r"failed before they began a run .*No such file or directory.*gone"):
            slurm.run(campaign, progress, pace=0.5)
        assert (campaign.n_asked, campaign.n_failed, len(campaign.pending)) == (4, 0, 4)
