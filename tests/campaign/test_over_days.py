"""Two hundred runs over three days: asked by one process, told by others, killed. Nothing is lost."""

import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import campaign_over_days
from campaign_simulators import wait_until
from steep.campaign import Campaign


def start(day, *arguments):
    return subprocess.Popen([sys.executable, campaign_over_days.__file__, str(day), *map(str, arguments)])


def finish(*processes):
    assert [process.wait(300) for process in processes] == [0] * len(processes)


def lines(log):
    return log.read_text().splitlines() if log.exists() else []


def kill_at_work(process, log, n_more):
    """Kill a process once it has recorded some more."""
    begun = len(lines(log))
    assert wait_until(lambda: len(lines(log)) >= begun + n_more or process.poll() is not None)
    process.kill()
    process.wait(60)


@pytest.mark.slow
def test_two_hundred_runs_over_three_days_lose_nothing(tmp_path):
    storage, log = tmp_path / "campaign.db", tmp_path / "log.txt"
    monday, tuesday, wednesday = (tmp_path / f"{day}.csv" for day in ("monday", "tuesday", "wednesday"))

    # Monday: 90 runs are leased. Four array jobs tell them; two of them are killed, and one is started again.
    finish(start(0, "ask", storage, 90, monday))
    killed = start(0, "tell", storage, monday, log, 0, 4, "by number")
    others = [start(0, "tell", storage, monday, log, i, 4, how) for i, how in ((1, "rounded"), (2, "failing"))]
    kill_at_work(killed, log, 3)
    lost = start(0, "tell", storage, monday, log, 3, 4, "by number")
    kill_at_work(lost, log, 2)
    finish(*others, start(0, "tell", storage, monday, log, 0, 4, "by number"))
    with Campaign(storage=storage) as campaign:
        assert 0 < len(campaign.pending) <= 23
        assert campaign.n_asked == 90
        assert campaign.n_failed > 0

    # Tuesday: what no one told is leased again with new runs; another process makes runs and is killed.
    finish(start(1, "ask", storage, 60, tuesday))
    again = set(pd.read_csv(tuesday).run) & set(pd.read_csv(monday).run)
    running = start(1, "run", storage, 180, log)
    told = start(1, "tell", storage, tuesday, log, 0, 1, "rounded")
    kill_at_work(running, log, 12)
    finish(told, start(1, "run", storage, 180, log))

    # Wednesday: failures are tried again, the rest is leased and told.
    with Campaign(storage=storage) as campaign:
        assert again == set(again) - set(campaign.to_dataframe().query("state != 'done'").run)
        n_failed = campaign.retry_failures()
    finish(start(2, "ask", storage, 20 + n_failed, wednesday))
    finish(start(2, "tell", storage, wednesday, log, 0, 1, "by number"))
    check(storage, log)
    with Campaign(storage=storage) as campaign:
        assert n_failed > 0
        assert campaign.events().kind.value_counts().to_dict() == {"retried": n_failed}


def check(storage, log):
    """Every run is done once, with the result that was recorded, and what was recorded is there."""
    with Campaign(storage=storage) as campaign:
        frame = campaign.to_dataframe()
        assert (campaign.n_done, campaign.n_failed, len(campaign.pending)) == (200, 0, 0)
        assert len(np.unique(campaign.X, axis=0)) == 200
        assert set(frame.origin) == {"initial", "design"}
        np.testing.assert_allclose(
            frame.y0, [campaign_over_days.solve(u0, t) for u0, t in zip(frame.u0, frame.t, strict=True)], rtol=1e-4
        )
        noted = [line.split() for line in lines(log) if line.startswith("told")]
        results = frame.set_index("run").y0
        assert all(results[int(number)] == pytest.approx(float(value), rel=1e-4) for _, number, value in noted)
        assert set(results.index) >= {int(number) for _, number, _ in noted}
        # Only what a killed job had told and its twin told again comes twice.
        assert sum(count - 1 for count in Counter(number for _, number, _ in noted).values()) <= 23
        assert time.time() > frame.told.max() - 3 * campaign_over_days.DAY
