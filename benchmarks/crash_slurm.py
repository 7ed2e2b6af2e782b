"""A campaign on a real SLURM under cancellations, requeues, lost nodes, walltimes, kills and full disks.

    python benchmarks/crash_slurm.py                 1,000 runs; adds to results/crash_slurm.json
    python benchmarks/crash_slurm.py --runs 100 --no-write

It needs Debian's slurm-wlm and munge, and root, to mount a small disk. SLURM itself is started in a folder of its own,
with two nodes of eight processors. ``steep campaign submit --watch`` makes runs of 0.2 to 1.5 s; every fortieth hangs
when it is made for the first time, until its walltime of a minute ends it. Meanwhile, every second or two, one of

    scancel    one to five tasks that run or wait are cancelled
    requeue    a task that runs is requeued
    node       a node is set down, or its daemon and all of its processes are killed; it returns ten seconds later
    kill       the submitting command is killed by SIGKILL and started again
    disk       the disk with the store and the folder of the queue is full for two seconds

A run has *finished* when its function returned, not on a full disk and not in the half second before one of these.
Counted are, as in crash_league.py: ``lost``, finished runs whose result is not in the store in the end, or is wrong;
``repeated``, times that a finished run was begun again; ``stuck``, runs that the store calls unfinished in the end, and
times without any progress for two minutes.
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from crash_game import small_disk
from slurm_cluster import missing, slurm  # a module of the tests
from steep import Campaign

RESULTS = Path(__file__).parent / "results" / "crash_slurm.json"
SETTLED, FULL, OUTAGE, PATIENCE, LONGEST = 0.5, 2.0, 10.0, 120.0, 840.0
KINDS = ("scancel", "requeue", "node", "kill", "disk")
SHARES = (0.3, 0.25, 0.08, 0.25, 0.12)
SOLVER = """
import os, time, zlib

def note(what, u, t):
    line = f"{what} {u!r},{t!r} {time.time()} {os.environ.get('SLURM_JOB_ID')}\\n".encode()
    file = os.open(LOG, os.O_WRONLY | os.O_APPEND)
    os.write(file, line)
    os.close(file)

def solve(u, t):
    code = zlib.crc32(f"{u!r},{t!r}".encode())
    is_first = f"start {u!r},{t!r} " not in open(LOG).read()
    note("start", u, t)
    time.sleep(90 if is_first and code % 40 == 0 else 0.2 + code % 1000 / 770)
    note("end", u, t)
    return u + 2 * t
"""


class Player:
    """The submitting command, which is started again whenever it has ended too early."""

    def __init__(self, folder, env):
        self.folder, self.env, self.lives = folder, env, 0
        self.start()

    def start(self):
        """Begin another life."""
        self.lives += 1
        with (self.folder.parent / "player.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "steep", "campaign", "submit", "case.toml", "--watch", "--interval", "1"],
                cwd=self.folder, env=self.env, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def is_over(self):
        """Whether it ended by itself, with everything done; started again if it ended otherwise."""
        if self.process.poll() is None:
            return False
        if self.process.returncode == 0:
            return True
        self.start()
        return False


def crash(kind, cluster, player, folder, rng):
    """Do one of the things that happen; from when to when results could not be written."""
    began = time.time()
    if kind == "kill":
        player.process.kill()
        player.process.wait()
        player.start()
    elif kind == "disk":
        ballast = folder / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        time.sleep(FULL)
        ballast.unlink()
        return began, time.time()
    elif kind == "node":
        name = f"node{rng.integers(1, 3)}"
        if rng.random() < 0.5:
            cluster.kill_node(name)
            time.sleep(OUTAGE)
            cluster.start_node(name)
        else:
            cluster.call("scontrol", "update", f"nodename={name}", "state=down", "reason=benchmark", check=False)
            time.sleep(OUTAGE)
        time.sleep(1)
        cluster.call("scontrol", "update", f"nodename={name}", "state=resume", check=False)
    else:
        running = [
            line.split() for line in cluster.call("squeue", "-h", "-r", "-t", "R,PD", "-o", "%i %T").splitlines()
        ]
        if kind == "requeue":
            tasks = [task for task, state in running if state == "RUNNING"][:1]
            for task in tasks:
                cluster.call("scontrol", "requeue", task, check=False)
        else:
            chosen = rng.permutation(len(running))[: rng.integers(1, 6)]
            tasks = [running[i][0] for i in chosen]
            if tasks:
                cluster.call("scancel", *tasks, check=False)
        if not tasks:
            return None
    return began, began


def play(n_runs, seed):
    """One game; what came of its runs."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix="crash-slurm-") as place:
        place = Path(place)
        folder, home, log = place / "disk", place / "slurm", place / "log.txt"
        folder.mkdir(), home.mkdir(), log.touch()
        with small_disk(folder), slurm(home, cpus=8) as cluster:
            (folder / "solver.py").write_text(f"LOG = {str(log)!r}\n{SOLVER}")
            (folder / "case.toml").write_text(
                f'function = "solver:solve"\nruns = {n_runs}\n[bounds]\nu = [0, 1]\nt = [0, 1]\n'
                "[slurm]\nin_flight = 64\ntime = '1'\n"
            )
            began, player, crashes = time.time(), Player(folder, cluster.env), []
            stuck, seen, last = 0, 0, time.time()
            while not player.is_over() and time.time() - began < LONGEST:
                time.sleep(rng.uniform(0.5, 2.0))
                kind = KINDS[rng.choice(len(KINDS), p=SHARES)]
                window = crash(kind, cluster, player, folder, rng)
                crashes += [(kind, *window)] if window else []
                if log.stat().st_size > seen:
                    seen, last = log.stat().st_size, time.time()
                elif time.time() - last > PATIENCE:
                    stuck, last = stuck + 1, time.time()
            seconds = time.time() - began
            if player.process.poll() is None:
                player.process.send_signal(signal.SIGKILL)
                player.process.wait()
            found = count(folder / "campaign.db", log, crashes)
        kinds = Counter(kind for kind, *_ in crashes)
        return found | {
            "stuck": found["stuck"] + stuck,
            "seconds": round(seconds),
            "lives": player.lives,
            "crashes": kinds,
        }


def count(store, log, crashes):
    """Lost, repeated and stuck runs."""
    with Campaign(storage=store) as campaign:
        frame, n_done, n_failed = campaign.to_dataframe(), campaign.n_done, campaign.n_failed
        kinds = Counter(campaign.failures().kind)
    done = frame[frame.state == "done"]
    output = next(name for name in done.columns if name.startswith("y"))
    results = {f"{u!r},{t!r}": y for u, t, y in zip(*(done[name].tolist() for name in ("u", "t", output)), strict=True)}
    starts, ends = defaultdict(list), defaultdict(list)
    for what, run, at, _ in map(str.split, log.read_text().splitlines()):
        (starts if what == "start" else ends)[run].append(float(at))
    finished = {}
    for run, times in ends.items():
        settled = [at for at in times if not any(a - SETTLED < at <= b + SETTLED * (b > a) for _, a, b in crashes)]
        if settled:
            finished[run] = min(settled)
    right = {
        run for run, y in results.items() if y == sum(c * float(v) for c, v in zip((1, 2), run.split(","), strict=True))
    }
    repeated = [run for run in finished for at in starts[run] if at > finished[run]]
    for run in {*repeated, *(set(finished) - right)}:  # what a reader wants to know first
        near = [(kind, round(a - finished[run], 2), round(b - finished[run], 2)) for kind, a, b in crashes]
        near = [crash for crash in near if -5 < crash[1] < 60]
        print(
            run, [round(at - finished[run], 2) for at in starts[run]], "crashes after it ended:", near, file=sys.stderr
        )
    return {
        "runs": len(frame), "done": n_done, "failed": n_failed, "failures": kinds,
        "lost": len(set(finished) - right), "repeated": len(repeated),
        "stuck": int((frame.state == "pending").sum()),
        "walltimes": sum(later - first > 50 for times in starts.values() for first, later in pairwise(sorted(times))),
        "finished": len(finished), "started": sum(map(len, starts.values())), "ended": sum(map(len, ends.values())),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-write", action="store_true")
    chosen = parser.parse_args()
    if programs := missing():
        sys.exit(f"{', '.join(programs)} not found; install slurm-wlm and munge")
    found = play(chosen.runs, chosen.seed)
    about = {
        "command": f"python benchmarks/crash_slurm.py --runs {chosen.runs} --seed {chosen.seed}",
        "versions": {
            "steep": version("steep"), "python": platform.python_version(),
            "slurm": subprocess.run(["/usr/sbin/slurmd", "-V"], capture_output=True, text=True).stdout.split()[-1],
        },
        "nodes": 2, "processors_per_node": 8,
    }  # fmt: skip
    print(json.dumps(about | found, indent=1))
    if not chosen.no_write:
        games = json.loads(RESULTS.read_text())["games"] if RESULTS.exists() else []
        games = [game for game in games if game["command"] != about["command"]]
        RESULTS.write_text(json.dumps({"games": [*games, about | found]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
