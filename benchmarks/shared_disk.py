"""A store on a real network file system: GlusterFS on this machine, mounted twice, with kills and server restarts.

    sudo apt install glusterfs-server glusterfs-client
    sudo python benchmarks/shared_disk.py --kills 200        # as root, some fifteen minutes; adds to its result

Each campaign runs on one mount; every fourth time another one tries to write through the other mount, which must be
rejected. Then the campaign is killed, and the next one goes on through the other mount. Before every nth kill the
server of the volume is killed while the campaign runs, and started again a second later.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from reproduction.records import write_json
from steep import Campaign, Even
from steep.campaign import journal
from steep.exceptions import SteepError, StorageError

RESULT = Path(__file__).parent / "results" / "shared_disk.json"
VOLUME, RUN, BOUNDS = f"steep{os.getpid()}", 0.03, {"u": (0.0, 1.0), "v": (0.0, 1.0)}
# Seconds: for a result to be written, for a server to be away, without a run before a campaign counts as stuck.
SETTLED, AWAY, PATIENCE = 0.5, 1.0, 60.0


def gluster(*words):
    return subprocess.run(["gluster", "--mode=script", "volume", *words], check=False, capture_output=True, text=True)


def play(store, log, n_runs):
    """A campaign in a process of its own; every start and end of a run is noted on a local disk."""
    if pid := os.fork():
        return pid
    file = os.open(log, os.O_WRONLY | os.O_APPEND)

    def simulate(u, v):
        os.write(file, f"start {u!r},{v!r} {time.time()}\n".encode())
        time.sleep(RUN)
        os.write(file, f"end {u!r},{v!r} {time.time()}\n".encode())
        return u + 2 * v

    try:
        with Campaign(storage=store) as campaign:
            campaign.run(simulate, n_runs, progress=False)
    except SteepError as error:  # the server is away
        os.write(file, f"error {str(error).split(';')[0].split(': ')[-1].replace(' ', '_')} {time.time()}\n".encode())
    finally:
        os._exit(0)


def notes(log):
    return [(what, key, float(at)) for what, key, at in map(str.split, log.read_text().splitlines())]


def lives(pid):
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def is_stuck(log, n, pid):
    """Wait until there are ``n`` more notes; whether none comes for a minute."""
    wanted, found, last = len(notes(log)) + n, 0, time.monotonic()
    while (now := len(notes(log))) < wanted and lives(pid) and time.monotonic() - last < PATIENCE:
        found, last = now, last if now == found else time.monotonic()
        time.sleep(0.02)
    return time.monotonic() - last >= PATIENCE


def lets_in(store):
    """Whether a second writer gets in while a campaign runs."""
    try:
        Campaign(storage=store).close()
    except StorageError as error:
        return "is in use by process" not in str(error)
    return True


def kill_server(stores):
    """Kill the process that serves the volume, start it again, and wait until both mounts have found it."""
    found = re.search(r"^Pid +: (\d+)", gluster("status", VOLUME, "detail").stdout, re.MULTILINE)
    os.kill(int(found[1]), signal.SIGKILL)
    last = time.monotonic() + PATIENCE
    while True:
        time.sleep(AWAY)
        gluster("start", VOLUME, "force")
        if all(map(os.path.exists, stores)) or time.monotonic() > last:
            return


def game(stores, log, n_kills, every, rng):
    counts, crashes = Counter(kills=0, servers=0, second_writers=0, second_writers_let_in=0, stuck=0), []
    Campaign(BOUNDS, storage=stores[0], strategy=Even()).close()
    log.touch()
    for kill in range(n_kills):
        store, other = stores[:: 1 if kill % 2 else -1]
        pid = play(store, log, 30 * n_kills)
        counts["stuck"] += is_stuck(log, int(rng.integers(1, 16)), pid)
        if every and kill % every == every - 1:
            counts["servers"], began = counts["servers"] + 1, time.time()
            kill_server(stores)
            counts["stuck"] += is_stuck(log, 4, pid)
            crashes.append((began - SETTLED, time.time()))
        if kill % 4 == 0 and lives(pid):
            counts.update(second_writers=1, second_writers_let_in=lets_in(other))
        if lives(pid):  # else it ended while the server was away
            os.kill(pid, signal.SIGKILL)
            crashes.append((time.time() - SETTLED, time.time()))
            os.waitpid(pid, 0)
            counts["kills"] += 1
    return counts, crashes


def count(store, log, crashes):
    """Results that were returned half a second before a crash: how many are lost, or were made again."""
    every = notes(log)
    errors = Counter(key.replace("_", " ") for what, key, _ in every if what == "error")
    with Campaign(storage=store) as campaign:
        frame = campaign.to_dataframe().query("state == 'done'")
        assert np.allclose(campaign.y, campaign.X @ [1, 2])
    done = {f"{u!r},{v!r}" for u, v in zip(frame.u.tolist(), frame.v.tolist(), strict=True)}
    ended = {key: at for what, key, at in every if what == "end" and not any(a <= at <= b for a, b in crashes)}
    again = {key for what, key, at in every if what == "start" and ended.get(key, np.inf) < at}
    return {"errors": errors, "finished": len(ended), "lost": len(ended.keys() - done), "repeated": len(again)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("--kills", 200), ("--seed", 0), ("--servers-every", 10)):
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    journal._PATIENCE = 10.0  # a second writer is not meant to get in later
    subprocess.run(["glusterd"], check=False)
    time.sleep(5)
    folder = Path(tempfile.mkdtemp(prefix="steep-shared-"))
    mounts, address = [folder / "a", folder / "b"], subprocess.check_output(["hostname", "-I"], text=True).split()[0]
    gluster("create", VOLUME, f"{address}:{folder}/brick", "force")
    gluster("start", VOLUME)
    try:
        for mount in mounts:
            mount.mkdir()
            subprocess.run(["mount", "-t", "glusterfs", f"{address}:/{VOLUME}", mount], check=True)
        stores, rng = [mount / "c.db" for mount in mounts], np.random.default_rng(options.seed)
        found = game(stores, folder / "log.txt", options.kills, options.servers_every, rng)
        result = vars(options) | found[0] | count(stores[0], folder / "log.txt", found[1])
        write_json(RESULT, [*(json.loads(RESULT.read_text()) if RESULT.exists() else []), result])
        print(result)
    finally:
        for mount in mounts:
            subprocess.run(["umount", "-l", mount], check=False)
        gluster("stop", VOLUME, "force")
        gluster("delete", VOLUME)


if __name__ == "__main__":
    main()
