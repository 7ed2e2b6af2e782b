"""Processes of a campaign that is worked on for days, none of which lives long. The day is the first argument.

campaign_over_days.py DAY ask STORAGE N TABLE     lease N runs for half a day and write them to a table
campaign_over_days.py DAY tell STORAGE TABLE LOG FIRST STEP HOW   tell every STEP-th run of a table, noting it
campaign_over_days.py DAY run STORAGE N LOG       make runs here, up to N in all, noting what is recorded
"""

import math
import os
import sys
import time

BOUNDS = {"u0": (0.0, 1.0), "t": (0.0, 10.0)}
DAY = 86_400.0


def solve(u0, t):
    return math.tanh(20 * (u0 - 0.7)) * (1 + 0.01 * t)


def note(log, text):
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{text}\n".encode())
    os.close(file)


def ask(campaign, n, table):
    campaign.ask(int(n), lease="12 h").to_csv(table, index=False)


def tell(campaign, table, log, first, step, how):
    import pandas as pd

    for row in pd.read_csv(table).iloc[int(first) :: int(step)].itertuples():
        time.sleep(0.005)
        if how == "failing" and row.t > 9:
            campaign.tell_failure(run=row.run, message="diverged")
            note(log, f"failed {row.run}")
            continue
        if how == "rounded":  # as a solver prints its inputs
            campaign.tell([[float(f"{row.u0:.6g}"), float(f"{row.t:.6g}")]], [solve(row.u0, row.t)])
        else:
            campaign.tell(run=row.run, y=solve(row.u0, row.t))
        note(log, f"told {row.run} {solve(row.u0, row.t)!r}")


def run(campaign, n, log):
    finish = campaign._finish

    def noted(number, values, names):
        finish(number, values, names)
        note(log, f"told {number} {values[0]!r}")

    def slow(u0, t):
        time.sleep(0.02)
        return solve(u0, t)

    campaign._finish = noted
    campaign.run(slow, int(n), executor="threads", n_workers=3)


if __name__ == "__main__":
    day, role, storage = sys.argv[1:4]
    now = time.time
    time.time = lambda: now() + float(day) * DAY
    from steep.campaign import Campaign

    with Campaign(BOUNDS if not os.path.exists(storage) else None, storage=storage, n_initial=20) as campaign:
        globals()[role](campaign, *sys.argv[4:])
