"""Simulators that other processes can import, and a campaign that tests kill."""

import os
import sys
import time

import numpy as np

BOUNDS = {"u0": (0.0, 1.0), "t": (0.0, 10.0)}


def wave(u0, t):
    return float(np.tanh(20 * (u0 - 0.7)) * (1 + 0.01 * t))


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
        time.sleep(60)
    return wave(u0, t)


def main(storage, log, n_runs=60):
    """Run a campaign, noting in ``log`` each run that starts and each result once it is committed."""
    from steep.campaign import Campaign

    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def run(x):
        os.write(file, f"start {x.tobytes().hex()}\n".encode())
        time.sleep(0.01)
        return x.sum()

    with Campaign(BOUNDS, storage=storage) as campaign:
        finish = campaign.finish_job

        def noted(number, label, names):
            x = campaign.journal.rows("SELECT x FROM runs WHERE id = ?", (number,))[0][0]
            finish(number, label, names)
            os.write(file, f"told {x.hex()}\n".encode())

        campaign.finish_job = noted
        campaign.run(run, n_initial=20, n_samples=n_runs - 20, batch_size=4, pass_as="array")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
