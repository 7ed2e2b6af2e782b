"""Simulators that other processes can import, campaigns that tests kill, and what is left of them.

campaign_simulators.py note STORAGE LOG N     run N, noting each start and each committed result
campaign_simulators.py chaos STORAGE N        N runs that return, raise, die, hang, fork and print
campaign_simulators.py linger STORAGE LOG EXECUTOR    runs that start programs and do not end
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

BOUNDS = {"u0": (0.0, 1.0), "t": (0.0, 10.0)}
MARK = "STEEP_TEST_MARK"
LONG = 3600


def wave(u0, t):
    return float(np.tanh(20 * (u0 - 0.7)) * (1 + 0.01 * t))


def nothing(u):
    return u


def exits(u):
    os._exit(3)


def segfaults(u):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)


def total(x):
    return x.sum()


def named(u0, t):
    time.sleep(0.05)
    return {"f": wave(u0, t), "pid": os.getpid()}


def raises(u0, t):
    if t > 8:
        raise ValueError("too late")
    return wave(u0, t)


def dies(u0, t):
    if t > 8:
        os._exit(3)
    return wave(u0, t)


def sleeps(u0, t):
    if t > 8:
        time.sleep(LONG)
    return wave(u0, t)


def spoils(x):
    """Change the inputs, then fail the first time."""
    flag = Path(os.environ["STEEP_TEST_FLAGS"], x.tobytes().hex())
    value = float(x.sum())
    x *= 10
    if not flag.exists():
        flag.touch()
        raise ValueError("the first attempt")
    return value


def dies_afterwards(u0, t):
    """Take the worker down a moment after the answer."""
    _note(os.path.join(os.environ["STEEP_TEST_FLAGS"], "starts.txt"), f"{u0!r} {t!r}")
    threading.Timer(0.1, os._exit, [3]).start()
    return wave(u0, t)


def dies_noted(u0, t):
    """Note every start; die where t is large."""
    _note(os.path.join(os.environ["STEEP_TEST_FLAGS"], "starts.txt"), f"{u0!r} {t!r}")
    return dies(u0, t)


class Unloadable:
    """Can be sent, cannot be loaded."""

    def __reduce__(self):
        return _refuse, ()

    def __call__(self, **inputs):
        return 0.0


def _refuse():
    raise RuntimeError("no licence for this machine")


class SlowToLoad:
    """Takes longer to load than a run may take."""

    def __reduce__(self):
        return _load_slowly, ()

    def __call__(self, **inputs):
        return 1.0


def _load_slowly():
    time.sleep(1.5)
    return SlowToLoad()


# ---------------------------------------------------------------- runs that misbehave

# What a run of each kind leaves in the journal.
CHAOS = {
    "returns": "done",
    "raises": "exception",
    "exits": "worker",
    "aborts": "worker",
    "segfaults": "worker",
    "hangs": "timeout",
    "forks a child that stays": "done",
    "starts a session that stays": "done",
    "prints megabytes": "done",
    "forks and both return": "done",
    "stops itself": "timeout",
    "leaves by sys.exit": "exception",
    "kills itself": "worker",
    "closes every file": "worker",
}


def chaos(what, u):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    name = list(CHAOS)[what]
    if name == "raises":
        raise ValueError("as asked")
    if name == "exits":
        os._exit(3)
    if name == "aborts":
        os.abort()
    if name == "segfaults":
        ctypes.string_at(0)
    if name == "hangs":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", str(LONG)], start_new_session=True)
        time.sleep(LONG)
    if name == "forks a child that stays" and os.fork() == 0:
        time.sleep(LONG)
    if name == "starts a session that stays":
        # A grandchild in a session of its own whose parent is gone.
        subprocess.run(["sh", "-c", f"setsid sleep {LONG} & setsid sleep {LONG} &"], check=True)
    if name == "prints megabytes":
        print("x" * 3_000_000)
        os.write(1, b"y" * 1_000_000)
    if name == "forks and both return":
        os.fork()
    if name == "stops itself":
        os.kill(os.getpid(), signal.SIGSTOP)
    if name == "leaves by sys.exit":
        sys.exit(2)
    if name == "kills itself":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "closes every file":
        os.closerange(3, 256)
    return what + u


def run_chaos(storage, n_runs):
    from steep.campaign import Campaign
    from steep.domain import Integer

    # Imported here: a worker that needs no steep starts in no time.
    bounds = {"what": Integer(0, len(CHAOS) - 1), "u": (0.0, 1.0)}
    with Campaign(bounds, storage=storage) as campaign:
        campaign.run(
            chaos, n_runs, executor="processes", n_workers=8 if n_runs < 100 else 20,
            retries=0, timeout=5.0,
        )  # fmt: skip


def lingers(log, u0, t):
    """Start what outlives a careless campaign, say so, and hang."""
    subprocess.Popen(["sh", "-c", f"setsid sleep {LONG} & sleep {LONG}"])
    subprocess.Popen(["sleep", str(LONG)], start_new_session=True)
    _note(log, "started")
    time.sleep(LONG)


class Lingers:
    def __init__(self, log):
        self.log = log

    def __call__(self, u0, t):
        return lingers(self.log, u0, t)


def run_lingering(storage, log, executor):
    """Two runs at a time that never end: programs in threads, functions in processes."""
    from steep.campaign import Campaign, command_simulator

    code = f"echo started >> {log}; setsid sleep {LONG} & touch here; sleep {LONG}"
    simulator = command_simulator(["sh", "-c", code]) if "program" in executor else Lingers(log)
    where = executor.split("-")[0]
    with Campaign(BOUNDS, storage=storage) as campaign:
        campaign.run(simulator, 8, n_workers=2, executor=None if where == "here" else where)


def marked(mark):
    """Processes that carry a mark in their environment, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{MARK}={mark}".encode() in entry.joinpath("environ").read_bytes():
                    found.append((int(entry.name), entry.joinpath("cmdline").read_bytes()))
            except OSError:
                continue
    return found


def wait_until(condition, seconds=180.0):
    """Wait for something that must happen; the bound only keeps a failing test from hanging."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# ---------------------------------------------------------------- campaigns that are killed


def _note(log, text):
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{text}\n".encode())
    os.close(file)


def run_noted(storage, log, n_runs=60):
    """Run a campaign, noting in ``log`` each run that starts and each result once it is committed."""
    from steep.campaign import Campaign

    def run(x):
        _note(log, f"start {x.tobytes().hex()}")
        time.sleep(0.01)
        return x.sum()

    with Campaign(BOUNDS, storage=storage) as campaign:
        finish = campaign._finish

        def noted(number, values, names):
            x = next(row[0] for row in campaign.journal.all_runs() if row[6] == number)
            finish(number, values, names)
            _note(log, f"told {x.hex()}")

        campaign._finish = noted
        campaign.run(run, n_runs, pass_as="array")


def start_noted(storage, log, n_runs=60):
    return subprocess.Popen([sys.executable, __file__, "note", str(storage), str(log), str(n_runs)])


def kill_often(storage, log, n_kills, seed, n_runs):
    """Start a campaign, kill it at a random moment, start it again."""
    rng = np.random.default_rng(seed)
    for _ in range(n_kills):
        process = start_noted(storage, log, n_runs)
        # Importing takes a while; kills fall anywhere from opening the file to deep in the runs.
        begun = len(log.read_text().splitlines()) if log.exists() else 0
        wait_until(
            lambda process=process, begun=begun: (
                process.poll() is not None or (log.exists() and len(log.read_text().splitlines()) > begun)
            )
        )
        time.sleep(rng.uniform(0, 0.15))
        process.kill()
        process.wait(180)


def check_nothing_lost(storage, log, n_kills):
    """Every run whose result was committed was made once; every run asked is done in the end."""
    from steep.campaign import Campaign

    lines = [line.split() for line in log.read_text().splitlines()]
    done: dict[str, int] = {}
    for i, (what, x) in enumerate(lines):
        assert x not in done, f"a finished run was repeated: {what} in line {i}, told in line {done[x]}"
        if what == "told":
            done[x] = i
    with Campaign(storage=storage) as campaign:
        frame = campaign.to_dataframe()
        assert (frame.state == "done").all()
        kept = {x.tobytes().hex() for x in campaign.X}
        assert set(done) <= kept, "a result was lost"
        started = [x for what, x in lines if what == "start"]
        assert len(started) - len(frame) <= n_kills, "more runs repeated than were in flight"


if __name__ == "__main__":
    role, arguments = sys.argv[1], sys.argv[2:]
    if role == "note":
        run_noted(arguments[0], arguments[1], int(arguments[2]))
    elif role == "chaos":
        run_chaos(arguments[0], int(arguments[1]))
    else:
        run_lingering(*arguments)
