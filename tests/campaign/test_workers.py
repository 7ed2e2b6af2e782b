import os
import signal
import subprocess
import sys
import uuid

import numpy as np
import pytest

from campaign_simulators import (
    CHAOS,
    MARK,
    SlowToLoad,
    Unloadable,
    dies,
    marked,
    named,
    sleeps,
    total,
    wait_until,
    wave,
)
from steep.campaign import Campaign
from steep.exceptions import CampaignError, InputTypeError

HERE = os.path.dirname(os.path.dirname(__file__))
SCRIPT = os.path.join(HERE, "campaign_simulators.py")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def launch(tmp_path, *arguments, script=SCRIPT):
    """A script in a process of its own, all of whose descendants carry a mark; its folders are ours to see."""
    (tmp_path / "folders").mkdir(exist_ok=True)
    mark = uuid.uuid4().hex
    environment = os.environ | {MARK: mark, "TMPDIR": str(tmp_path / "folders")}
    with open(tmp_path / "out.txt", "ab") as out:
        process = subprocess.Popen(
            [sys.executable, str(script), *map(str, arguments)], env=environment, stdout=out, stderr=out
        )
    return process, mark


def nothing_left(tmp_path, mark):
    assert wait_until(lambda: not marked(mark)), f"still running: {marked(mark)}"
    assert wait_until(lambda: not os.listdir(tmp_path / "folders")), os.listdir(tmp_path / "folders")


@LINUX
@pytest.mark.parametrize("n_runs", [14, pytest.param(300, marks=pytest.mark.slow)])
def test_runs_that_die_hang_fork_or_print_touch_no_other_and_leave_nothing(tmp_path, storage, n_runs):
    process, mark = launch(tmp_path, "chaos", storage, n_runs)
    assert process.wait(timeout=300) == 0, (tmp_path / "out.txt").read_bytes()[-3000:]
    nothing_left(tmp_path, mark)
    with Campaign(storage=storage) as campaign:
        frame, failures = campaign.to_dataframe(), campaign.failures()
    assert len(frame) == n_runs
    assert failures.run.is_unique
    wanted = list(CHAOS.values())
    found = frame.state.where(frame.state == "done", frame.run.map(failures.set_index("run").kind))
    assert found.tolist() == [wanted[what] for what in frame.what]
    done = frame[frame.state == "done"]
    assert (done.y0 == done.what + done.u).all()


@LINUX
@pytest.mark.parametrize(
    ("where", "n_kills"),
    [
        ("processes", 1),
        *(
            pytest.param(where, 10, marks=pytest.mark.slow)
            for where in ("processes", "processes-program", "threads-program")
        ),
    ],
)
def test_nothing_outlives_a_campaign_that_is_killed(tmp_path, storage, where, n_kills):
    log = tmp_path / "log.txt"
    for kill in range(n_kills):
        log.write_text("")
        process, mark = launch(tmp_path, "linger", storage, log, where)
        wanted = "started\n" * (2 - kill % 2)
        assert wait_until(lambda wanted=wanted: wanted in log.read_text()), log.read_text()
        process.kill()
        process.wait(180)
        nothing_left(tmp_path, mark)


@LINUX
@pytest.mark.parametrize(
    ("where", "signal_"),
    [
        ("processes-program", signal.SIGINT),
        pytest.param("threads-program", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("here-program", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_campaign_leaves_neither_processes_nor_folders(tmp_path, storage, where, signal_):
    log = tmp_path / "log.txt"
    log.write_text("")
    process, mark = launch(tmp_path, "linger", storage, log, where)
    assert wait_until(lambda: "started" in log.read_text())
    process.send_signal(signal_)
    assert process.wait(180) != 0
    nothing_left(tmp_path, mark)


def test_a_worker_that_dies_fails_its_own_run_only(campaign):
    campaign.run(dies, 12, executor="processes", n_workers=2, retries=0)
    failures = campaign.failures()
    assert len(failures) == campaign.n_failed > 0
    assert (failures.t > 8).all()
    assert (failures.message == "the worker process died: it ended with code 3").all()
    assert campaign.n_done + campaign.n_failed == 12


def test_a_run_over_time_is_stopped_and_the_others_finish(campaign):
    campaign.run(sleeps, 8, executor="processes", n_workers=2, retries=0, timeout=3.0)
    assert set(campaign.failures().kind) == {"timeout"}
    assert (campaign.failures().t > 8).all()
    assert campaign.n_done + campaign.n_failed == 8


@pytest.mark.slow
def test_the_time_of_a_run_does_not_count_the_loading_of_its_worker(campaign):
    campaign.run(SlowToLoad(), 4, executor="processes", n_workers=2, timeout=0.5)
    assert (campaign.n_done, len(campaign.failures())) == (4, 0)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda u0, t: 0.0, InputTypeError, "function cannot be sent to a process .*executor='threads'"),
        (Unloadable(), CampaignError, "cannot load the function .*no licence for this machine"),
    ],
)
def test_a_function_that_cannot_be_sent_is_one_error_before_any_run(campaign, function, error, message):
    with pytest.raises(error, match=message):
        campaign.run(function, 12, executor="processes", n_workers=2)
    assert len(campaign.to_dataframe()) == len(campaign.failures()) == 0


SCRIPT_OF_A_USER = """
import sys
from steep.campaign import Campaign

def mine(u0, t):
    print("a run prints")
    return u0 + t

{guard}campaign = Campaign({{"u0": (0.0, 1.0), "t": (0.0, 1.0)}}, storage=sys.argv[1])
{guard}campaign.run(mine, 6, executor="processes", n_workers=2)
"""


@pytest.mark.slow
def test_a_function_of_the_script_itself_is_found_by_its_workers(tmp_path, storage):
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT_OF_A_USER.format(guard="if __name__ == '__main__': "))
    process, _ = launch(tmp_path, storage, script=script)
    assert process.wait(180) == 0, (tmp_path / "out.txt").read_text()
    with Campaign(storage=storage) as campaign:
        assert campaign.n_done == 6
    assert (tmp_path / "out.txt").read_text().count("a run prints") == 6


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_so(tmp_path, storage):
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT_OF_A_USER.format(guard=""))
    process, _ = launch(tmp_path, storage, script=script)
    assert process.wait(180) == 1
    last = (tmp_path / "out.txt").read_text().splitlines()[-1]
    assert "cannot load the function" in last
    assert "if __name__ == '__main__':" in last


def test_a_guard_killed_from_outside_fails_its_run_only(campaign):
    seen = []

    def kill_guards(campaign):
        if not seen and campaign.n_done:
            children = subprocess.run(
                ["pgrep", "-P", str(os.getpid()), "-f", "_guard.py worker"], capture_output=True, check=True
            )
            seen.extend(map(int, children.stdout.split()))
            for pid in seen:
                os.kill(pid, signal.SIGKILL)

    campaign.run(named, 8, executor="processes", n_workers=2, stop_when=kill_guards)
    assert seen
    assert campaign.n_done == 8
    assert (campaign.failures().message == "the worker process died: it was killed from outside").all()


def test_arrays_reach_processes(storage):
    with Campaign([(0, 1), (0, 1)], storage=storage) as campaign:
        campaign.run(total, 4, executor="processes", n_workers=1)
        np.testing.assert_array_equal(campaign.y, campaign.X.sum(axis=1))


# ---------------------------------------------------------------- threads


def test_a_hanging_thread_does_not_keep_the_interpreter(tmp_path, storage):
    script = tmp_path / "hangs.py"
    script.write_text(
        "import sys, threading\n"
        "from steep.campaign import Campaign\n"
        "begun = threading.Event()\n"
        "def hangs(a):\n"
        "    begun.set()\n"
        "    threading.Event().wait()\n"
        "def end(campaign):\n"
        "    if begun.is_set():\n"
        "        sys.exit()\n"
        "campaign = Campaign({'a': (0.0, 1.0)}, storage=sys.argv[1])\n"
        "campaign.run(hangs, 2, executor='threads', n_workers=2, stop_when=end)\n"
    )
    process, _ = launch(tmp_path, storage, script=script)
    assert process.wait(180) == 0, (tmp_path / "out.txt").read_text()


def test_an_executor_of_another_library_is_one_error_that_says_what_there_is(campaign):
    class Pool:
        def submit(self, function, /, *args):
            raise AssertionError

    with pytest.raises(InputTypeError, match=r"expected None, 'threads', .* a Dask client; elsewhere use ask"):
        campaign.run(wave, 4, executor=Pool())
    assert campaign.n_asked == 0
