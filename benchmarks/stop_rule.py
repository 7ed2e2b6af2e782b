"""How often a campaign that stopped at an error goal was right: ``stop_when={"error": goal}`` on ten functions.

    python benchmarks/stop_rule.py --seeds 20
    python benchmarks/stop_rule.py --seeds 20 --start quarter
    python benchmarks/stop_rule.py --summary

Each campaign makes 240 runs and looks at the estimated error after each, as ``stop_when`` does. From the looks follows
where each goal would have stopped it, by the rule (``steep.expected_error.ErrorGoal``) and by the first estimate that
is at most the goal. The truth is the root mean square error of the interpolant through the runs up to there, on 2,048
fresh points, in standard deviations of the output; the worst output counts. A stop is true where that is at most the
goal. Campaigns begin with 4 (d + 1) initial runs, or with a quarter of the runs, the default.
Finished campaigns are kept in a cache, so the command can be interrupted;
results/stop_rule.json is the summary.

The ranges of viscosity and of FitzHugh and Nagumo's time were made easier once, after a first campaign of each, seed 0,
reached no goal; nothing else was changed after a look at results.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import logsumexp
from scipy.stats import qmc

from design_functions_unseen import UNSEEN
from problems import PROBLEMS, scaled
from reproduction.records import Records, write_json
from steep import Campaign
from steep.expected_error import ErrorEstimate, ErrorGoal, interpolant

RESULT = Path(__file__).parent / "results" / "stop_rule.json"
CACHE = Path("~/.cache/steep/benchmarks/stop-rule.jsonl").expanduser()
GOALS = (0.3, 0.2, 0.1)
N_RUNS = 240
# How many runs are initial, by arm, for a number of inputs.
STARTS = {"campaign": lambda d: 4 * (d + 1), "quarter": lambda d: N_RUNS // 4}


def front(U):
    """A front in the plane of two inputs, whose height follows the third."""
    return np.tanh(10 * (U[:, 0] - 0.3 - 0.4 * U[:, 1])) * (1 + U[:, 2])


def burgers_viscous(U):
    """Viscous Burgers, u(x, 0) = −A sin πx, by the transform of Cole and Hopf: ν from 0.02 to 0.2, A, x and t."""
    log_nu, height, x, t = scaled(U, [(-1.7, -0.7), (0.5, 1.5), (-1, 1), (0.02, 1)])
    nu = 10**log_nu
    nodes, weights = np.polynomial.hermite.hermgauss(120)
    at = x[:, None] - nodes * np.sqrt(4 * nu * t)[:, None]
    logs = -(height / (2 * np.pi * nu))[:, None] * np.cos(np.pi * at) + np.log(np.maximum(weights, 1e-300))
    shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    return -height * (shares * np.sin(np.pi * at)).sum(axis=1)


def fitzhugh(U):
    """FitzHugh and Nagumo's neuron: its voltage and recovery at a time, for a current and a rate."""
    current, rate, time = scaled(U, [(0.2, 0.8), (0.04, 0.12), (2, 20)])
    state, n_steps = np.array([np.full(len(U), -1.0), np.full(len(U), -0.5)]), 400
    step = time / n_steps

    def slope(s):
        v, w = s
        return np.array([v - v**3 / 3 - w + current, rate * (v + 0.7 - 0.8 * w)])

    for _ in range(n_steps):
        a = slope(state)
        b = slope(state + step / 2 * a)
        c = slope(state + step / 2 * b)
        state = state + step / 6 * (a + 2 * b + 2 * c + slope(state + step * c))
    return state.T


def pendulum(U):
    """The angle of a damped pendulum after a time, from rest at an angle up to nearly upright."""
    found = []
    for angle, damping, time in scaled(U, [(0.2, 3.1), (0.05, 0.6), (1, 8)]).T:
        swing = lambda t, s, k=damping: (s[1], -np.sin(s[0]) - k * s[1])  # noqa: E731
        found.append(solve_ivp(swing, (0, time), (angle, 0.0), rtol=1e-8, atol=1e-10).y[0, -1])
    return np.array(found)


FUNCTIONS = {
    "front": (front, 3), "burgers_viscous": (burgers_viscous, 4), "fitzhugh": (fitzhugh, 3), "pendulum": (pendulum, 3),
    **{name: ((PROBLEMS | UNSEEN)[name].function, (PROBLEMS | UNSEEN)[name].n_features)
       for name in ("franke", "circular_front", "ishigami", "ridge_4", "bateman_3", "piston")},
}  # fmt: skip


def fresh_points(name):
    """Points of the domain that no campaign runs, and the function there."""
    function, d = FUNCTIONS[name]
    points = qmc.Sobol(d, rng=np.random.default_rng(10**6)).random_base2(11)
    return points, function(points).reshape(len(points), -1)


def follow(name, arm, seed):
    """One campaign: its points, results, and the estimate after each."""
    function, d = FUNCTIONS[name]
    looks = []

    def look(campaign):
        error = campaign.estimated_error()
        if not looks or looks[-1]["n_runs"] != error.n_runs:
            looks.append({"value": float(error), "low": error.low, "high": error.high, "n_runs": error.n_runs,
                          "n_judged": error.n_judged, "rate": error.rate})  # fmt: skip
        return False

    n_initial = STARTS[arm](d)
    with Campaign([(0, 1)] * d, storage=":memory:", n_initial=n_initial, random_state=seed) as campaign:
        campaign.run(
            lambda x: np.ravel(function(x[None])), N_RUNS, stop_when=look
        )  # fmt: skip
        return campaign.X, campaign.y.reshape(len(campaign.X), -1), looks, n_initial


def stops(name, arm, seed, fresh, truth):
    """Where each goal stops the campaign, by the rule and by the first estimate, and the true error there."""
    X, labels, looks, n_initial = follow(name, arm, seed)
    estimates = [ErrorEstimate(look.pop("value"), **look) for look in looks]
    true_at = {}

    def true_error(n):
        if n not in true_at:
            wrong = (interpolant(X[:n], labels[:n])(fresh) - truth) / truth.std(axis=0)
            true_at[n] = float(np.sqrt((wrong**2).mean(axis=0)).max())
        return true_at[n]

    found = {}
    for goal in GOALS:
        rule = ErrorGoal(goal, n_initial)
        by_rule = next((error.n_runs for error in estimates if rule.look(error)), None)
        first = next((error.n_runs for error in estimates if error <= goal), None)
        found[str(goal)] = {
            name: None if n is None else {"runs": n, "true": true_error(n)}
            for name, n in (("rule", by_rule), ("first", first))
        }
    return {"goals": found, "initial": n_initial, "end": true_error(N_RUNS)}


def summary(records):
    """Print and write the figures of each arm."""
    arms = {arm: _summary([line for line in records if line["arm"] == arm]) for arm in STARTS}
    write_json(RESULT, {"runs": N_RUNS, "goals": list(GOALS), "starts": arms})


def _summary(lines):
    """Stops, and how many of them were true, by function and goal."""
    table = {}
    for line in lines:
        for goal, found in line["result"]["goals"].items():
            for by, stop in found.items():
                cell = table.setdefault(line["experiment"], {}).setdefault(goal, {}).setdefault(
                    by, {"campaigns": 0, "stops": 0, "true": 0, "runs": [], "over": []}
                )  # fmt: skip
                cell["campaigns"] += 1
                if stop is not None:
                    cell["stops"] += 1
                    cell["true"] += stop["true"] <= float(goal)
                    cell["runs"].append(stop["runs"])
                    cell["over"].append(stop["true"] / float(goal))
    for cell in (cell for goals in table.values() for cells in goals.values() for cell in cells.values()):
        runs, over = cell.pop("runs"), cell.pop("over")
        cell["median runs"] = float(np.median(runs)) if runs else None
        cell["median true error over the goal"] = round(float(np.median(over)), 3) if over else None
        cell["largest true error over the goal"] = round(max(over), 3) if over else None
    total = {
        by: {key: sum(cells[by][key] for goals in table.values() for cells in goals.values())
             for key in ("campaigns", "stops", "true")}
        for by in ("rule", "first")
    }  # fmt: skip
    for name, goals in table.items():
        parts = [
            f"{goal}: {cells['rule']['true']} of {cells['rule']['stops']} true (first estimate: "
            f"{cells['first']['true']} of {cells['first']['stops']})" for goal, cells in goals.items()
        ]  # fmt: skip
        print(f"{name}: {'; '.join(parts)}")
    print(total)
    return {"total": total, "functions": table}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    parser.add_argument("--start", choices=list(STARTS), default="campaign")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    records = Records(options.cache)
    known = {}
    wanted = [(name, options.start, seed) for seed in range(options.seeds) for name in options.only]
    for name, arm, seed in [] if options.summary else records.missing(wanted):
        if name not in known:
            known[name] = fresh_points(name)
        records.add(name, arm, seed, settings={"runs": N_RUNS}, result=stops(name, arm, seed, *known[name]))
    summary(records)
