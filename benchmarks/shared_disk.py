"""A store on a real network file system: GlusterFS on this machine, mounted twice, with kills and server restarts.

    sudo apt install glusterfs-server glusterfs-client
    sudo python benchmarks/shared_disk.py --kills 200       # as root: it starts glusterd and mounts; fifteen minutes

Each campaign runs on one mount; every fourth time another one tries to write through the other mount, which must be
rejected. Then the campaign is killed, and the next one goes on through the other mount. Before every tenth kill the
server of the volume is killed while the campaign runs, and started again a second later.
"""

from __future__ import annotations

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
VOLUME, RUN = f"steep{os.getpid()}", 0.03
# Seconds: for a result to be written, for a server to be away, without a run before a campaign counts as stuck.
SETTLED, AWAY, PATIENCE = 0.5, 1.0, 60.0


def gluster(*words):
    return subprocess.run(["gluster", "--mode=script", "volume", *words], check=False, capture_output=True, text=True)


def play(mount, log, n_runs):
    """A campaign in a process of its own; every start and end of a run is noted on a local disk."""
    if pid := os.fork():
        return pid

    def simulate(u, v):
        for what in ("start", "end"):
            os.write(file, f"{what} {u!r},{v!r} {time.time()}\n".encode())
            time.sleep(RUN if what == "start" else 0)
        return u + 2 * v

    code = 1
    try:
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with Campaign(storage=mount / "c.db") as campaign:
            campaign.run(simulate, n_runs, progress=False)
        code = 0
    except SteepError as error:  # the server is away
        os.write(file, f"error {str(error).split(';')[0].split(': ')[-1].replace(' ', '_')} {time.time()}\n".encode())
    finally:
        os._exit(code)


def notes(log):
    return [(what, key, float(at)) for what, key, at in map(str.split, log.read_text().splitlines())]


def lives(pid):
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def wait_for_runs(log, n, pid):
    """Wait until there are ``n`` more notes; False if none comes for a minute."""
    wanted, last = len(notes(log)) + n, time.monotonic()
    while (found := len(notes(log))) < wanted and lives(pid):
        if time.monotonic() - last > PATIENCE:
            return False
        time.sleep(0.02)
        last = last if found == len(notes(log)) else time.monotonic()
    return True


def writes(mount):
    """Whether a second writer gets in while a campaign runs."""
    try:
        Campaign(storage=mount / "c.db").close()
    except StorageError as error:
        return "is in use by process" not in str(error)
    return True


def kill_server(mounts):
    """Kill the process that serves the volume, start it again, and wait until both mounts have found it."""
    found = re.search(r"^Pid +: (\d+)", gluster("status", VOLUME, "detail").stdout, re.MULTILINE)
    os.kill(int(found[1]), signal.SIGKILL)
    last = time.monotonic() + PATIENCE
    while True:
        time.sleep(AWAY)
        gluster("start", VOLUME, "force")
        if all(os.path.exists(mount / "c.db") for mount in mounts) or time.monotonic() > last:
            return


def game(mounts, log, n_kills, every, rng):
    counts, crashes = Counter(kills=0, servers=0, second_writers=0, second_writers_let_in=0, stuck=0), []
    with Campaign({"u": (0.0, 1.0), "v": (0.0, 1.0)}, storage=mounts[0] / "c.db", strategy=Even()):
        pass
    log.touch()
    while counts["kills"] < n_kills and "malformed" not in log.read_text():
        mount, other = mounts[:: 1 if counts["kills"] % 2 else -1]
        pid = play(mount, log, 30 * n_kills)
        counts["stuck"] += not wait_for_runs(log, int(rng.integers(1, 16)), pid)
        if every and counts["kills"] % every == every - 1:
            counts["servers"], began = counts["servers"] + 1, time.time()
            kill_server(mounts)
            counts["stuck"] += not wait_for_runs(log, 4, pid)
            crashes.append((began - SETTLED, time.time()))
        if counts["kills"] % 4 == 0 and lives(pid):
            counts["second_writers"] += 1
            counts["second_writers_let_in"] += writes(other)
        if lives(pid):  # else it ended while the server was away
            os.kill(pid, signal.SIGKILL)
            crashes.append((time.time() - SETTLED, time.time()))
            os.waitpid(pid, 0)
        counts["kills"] += 1
    return counts, crashes


def count(storage, log, crashes):
    """Results that were returned half a second before a crash: how many are lost, or were made again."""
    every = notes(log)
    errors = dict(Counter(key.replace("_", " ") for what, key, _ in every if what == "error"))
    try:
        campaign = Campaign(storage=storage)
    except StorageError as error:
        return {"errors": errors, "damaged": str(error)}
    with campaign:
        frame = campaign.to_dataframe().query("state == 'done'")
        done = {f"{u!r},{v!r}" for u, v in zip(frame.u.tolist(), frame.v.tolist(), strict=True)}
        assert np.allclose(frame[campaign.outputs[0]], frame.u + 2 * frame.v)
    ended = {key: at for what, key, at in every if what == "end" and not any(a <= at <= b for a, b in crashes)}
    again = Counter(key for what, key, at in every if what == "start" and ended.get(key, np.inf) < at)
    return {
        "errors": errors,
        "finished": len(ended),
        "lost": len(ended.keys() - done),
        "repeated": len(again),
        "done": len(done),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--servers-every", type=int, default=10, help="kills between two kills of the server; 0: none")
    parser.add_argument("--group", default="", help="options of the volume, such as db-workload")
    options = parser.parse_args()
    journal._PATIENCE = 10.0  # a second writer is not meant to get in later
    subprocess.run(["glusterd"], check=False)
    time.sleep(5)
    folder = Path(tempfile.mkdtemp(prefix="steep-shared-"))
    mounts, address = [folder / "a", folder / "b"], subprocess.check_output(["hostname", "-I"], text=True).split()[0]
    gluster("create", VOLUME, f"{address}:{folder}/brick", "force")
    if options.group:
        print(gluster("set", VOLUME, "group", options.group).stdout)
    gluster("start", VOLUME)
    try:
        for mount in mounts:
            mount.mkdir()
            subprocess.run(["mount", "-t", "glusterfs", f"{address}:/{VOLUME}", mount], check=True)
        began = time.time()
        counts, crashes = game(
            mounts, folder / "log.txt", options.kills, options.servers_every, np.random.default_rng(options.seed)
        )
        result = dict(counts) | count(mounts[0] / "c.db", folder / "log.txt", crashes)
        result |= {"seconds": round(time.time() - began), "seed": options.seed, "options": options.group or "defaults"}
        lines = json.loads(RESULT.read_text()) if RESULT.exists() else []
        write_json(RESULT, [*lines, result | {"servers_every": options.servers_every}])
        print(result)
    finally:
        for mount in mounts:
            subprocess.run(["umount", "-l", mount], check=False)
        gluster("stop", VOLUME, "force")
        gluster("delete", VOLUME)


if __name__ == "__main__":
    main()
