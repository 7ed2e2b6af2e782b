"""One game of the crash league: a player, crashed a number of times and started again; then its runs are counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil

from crash_players import PLAYERS, value

CRASHES = 10
RUNS_PER_CRASH = 10  # for each run that it makes at the same time
# Seconds: for a result to be written down, without a run before it counts as stuck, for a kill to take all with it,
# and how long a disk stays full.
SETTLED, PATIENCE, FAREWELL, FULL = 0.5, 60.0, 5.0, 1.0
# Runs that have begun since a result was returned, for each at the same time: a machine that stalls has not settled it.
BEGUN_SINCE = 2
# Seconds in which a run that a dead player left to a cluster ends.
_LEFT_TO_ITSELF = 0.3
# Seconds between two looks at a player.
_PACE = 0.02


class Game:
    """One player, one way to crash it."""

    def __init__(self, stage, discipline, seed, folder, *, crashes=CRASHES):
        self.stage, self.player, self.discipline, self.folder = stage, PLAYERS[stage.name], discipline, folder
        self.rng = np.random.default_rng([seed, *(stage.name + discipline).encode()])
        self.crashes, self.n_runs = crashes, RUNS_PER_CRASH * self.player.at_once * crashes + 40
        self.log, self.store = folder / "log.txt", folder / "store"
        self.store.mkdir()
        self.log.touch()
        # From when to when a crash kept results from being written: until all is dead, or as long as the disk was full.
        self.crashed: list[tuple[float, float]] = []
        self.hangs = self.left = self.lives = 0

    def play(self):
        """Crash it as often as asked, then let it finish; what came of its runs."""
        with ExitStack() as stack:
            if self.discipline == "disk":
                stack.enter_context(small_disk(self.store))
            stack.callback(self.stage.sweep)
            self._start()
            while len(self.crashed) < self.crashes and self._is_playing():
                self._wait()
                if self.stage.is_alive():
                    getattr(self, f"_by_{self.discipline}")()
            self._finish()
            return self._count()

    def _is_playing(self):
        """Whether it runs, if need be after another start."""
        if self.stage.is_alive():
            return True
        if self.stage.code == 0 or self.lives > 3 * self.crashes:
            return False  # it made its runs before it could be crashed as often, or it never will
        self._start()
        return True

    # ---------------------------------------------------------------- crashes

    def _start(self):
        self.lives += 1
        self.stage.start(self.folder, self.n_runs)

    def _wait(self):
        """To a random moment: one kill in four falls anywhere in the start-up, the others while it makes runs."""
        if self.discipline == "kill" and self.rng.random() < 0.25:
            return self._pause(self.rng.uniform(0, self.player.startup))
        self._wait_for_a_run()
        return self._pause(self.rng.uniform(0, 1.0))

    def _pause(self, seconds):
        wait_for(lambda: not self.stage.is_alive(), seconds)

    def _wait_for_a_run(self):
        """Until another run begins; a minute without one, and it is stuck and killed."""
        size = self.log.stat().st_size
        if not wait_for(lambda: self.log.stat().st_size > size or not self.stage.is_alive(), PATIENCE):
            self.hangs += 1
            self.stage.kill()
            self.stage.sweep()

    def _by_kill(self):
        began = time.time()
        self.stage.kill()
        wait_for(lambda: not self.stage.processes(), FAREWELL)
        self.left += len(self.stage.processes())
        self.stage.sweep()
        time.sleep(_LEFT_TO_ITSELF)
        # What a worker finished after its player's death no one could write down.
        self.crashed.append((began, time.time()))

    def _by_workers(self):
        workers = self.stage.workers()
        if workers:
            now = time.time()
            with suppress(psutil.NoSuchProcess):
                workers[self.rng.integers(len(workers))].kill()
            self.crashed.append((now, now))

    def _by_disk(self):
        ballast = self.store / "ballast"
        began = time.time()
        file = os.open(ballast, os.O_WRONLY | os.O_CREAT)
        with suppress(OSError):  # until there is no room left
            while True:
                os.write(file, bytes(4096))
        os.close(file)
        self._pause(FULL)
        ballast.unlink()
        self.crashed.append((began, time.time()))

    def _finish(self):
        """Let it end by itself; it may fail and be started again a few times, it may not hang."""
        for _ in range(5):
            if not self.stage.is_alive() and self.stage.code != 0:
                self._start()
            while self.stage.is_alive():
                self._wait_for_a_run()
            if self.stage.code == 0:
                return
        self.hangs += 1

    # ---------------------------------------------------------------- what came of it

    def _count(self):
        try:
            results, unfinished, unreadable = *self.player.found(self.store), 0
        except Exception as error:  # a store that its own library cannot read
            print(f"{self.stage.name}, {self.discipline}: {type(error).__name__}: {error}", file=sys.stderr)
            results, unfinished, unreadable = {}, 0, 1
        starts, ends = defaultdict(list), defaultdict(list)
        for what, run, at in (line.split() for line in self.log.read_text().splitlines()):
            (starts if what == "start" else ends)[run].append(float(at))
        finished = {}
        begun = np.sort([at for times in starts.values() for at in times])
        for run, times in ends.items():
            if settled := [at for at in times if self._is_settled(at, begun)]:
                finished[run] = min(settled)
        right = {run for run, y in results.items() if y == value(*map(float, run.split(",")))}
        return {
            "lost": len(set(finished) - right),
            "repeated": sum(at > finished[run] for run in finished for at in starts[run]),
            "stuck": unfinished + self.hangs,
            "left": self.left,
            "unreadable": unreadable,
            "crashes": len(self.crashed),
            "finished": len(finished),
            "started": sum(map(len, starts.values())),
            "lives": self.lives,
        }

    def _is_settled(self, at, begun):
        """Whether a run ended well before the next crash, by the clock and by what began since; not on a full disk."""
        if any(began - SETTLED < at <= ended for began, ended in self.crashed):
            return False
        crash = min((began for began, _ in self.crashed if began > at), default=np.inf)
        if crash == np.inf:
            return True
        return ((begun > at) & (begun < crash)).sum() >= BEGUN_SINCE * self.player.at_once


class Stage:
    """The process that forks the lives of a player (see crash_players.py), and all that comes of them."""

    def __init__(self, name):
        self.name, self.life, self.code = name, None, 0
        self.cluster = Cluster() if PLAYERS[name].on_cluster else None
        address = {"CRASH_CLUSTER": self.cluster.address} if self.cluster else {}
        self.process = _script(name, stdout=subprocess.PIPE, env=address)
        self.process.stdout.readline()

    def _order(self, order):
        self.process.stdin.write(order.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()

    def start(self, folder, n_runs):
        """Begin a life in a folder."""
        self.life = int(self._order(json.dumps({"folder": str(folder), "n_runs": n_runs})))
        self.code = None

    def is_alive(self):
        """Whether the last life goes on."""
        if self.code is None:
            answer = self._order("")
            self.code = None if answer == "running" else int(answer)
        return self.code is None

    def kill(self):
        """End it by SIGKILL."""
        os.kill(self.life, signal.SIGKILL)
        if not wait_for(lambda: not self.is_alive(), 60):
            raise RuntimeError("a killed process does not end")

    def processes(self):
        """All processes of the player, zombies left out."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def workers(self):
        """Processes that make runs: what sits between them and the player has children, and helpers are no workers."""
        if self.cluster is not None:
            return self.cluster.workers()
        found = []
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                helper = "resource_tracker" in " ".join(process.cmdline())
                if process.pid != self.life and not helper and not process.children():
                    found.append(process)
        return found

    def sweep(self):
        """End what a life left behind."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        wait_for(lambda: not self.processes(), 30)
        self.is_alive()

    def close(self):
        """End everything."""
        self.sweep()
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        if self.cluster is not None:
            self.cluster.close()


class Cluster:
    """A Dask cluster that is there all the time."""

    def __init__(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "address")
            self.process = _script("cluster", str(file))
            if not wait_for(file.exists, 600):
                raise RuntimeError("the cluster does not start")
            self.address, scheduler = file.read_text().split()
        self.scheduler = int(scheduler)

    def workers(self):
        """Its workers, as processes."""
        return [p for p in psutil.Process(self.process.pid).children() if p.pid != self.scheduler]

    def close(self):
        """End it."""
        self.process.stdin.close()
        self.process.wait(120)


def _script(*arguments, env=None, **streams):
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("crash_players.py")), *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | (env or {}), start_new_session=True, stdin=subprocess.PIPE,
        **streams,
    )  # fmt: skip


def wait_for(condition, seconds):
    """Wait for a condition, at most so long; whether it came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_PACE)
    return True


@contextmanager
def small_disk(folder):
    """A file system of a few megabytes at a folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "crash-league", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def can_mount():
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder)):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False
