"""Are the claims of ``steep.emulate`` true, and how many runs do they take? Functions and real simulators.

    python benchmarks/surrogates.py claims --half development
    python benchmarks/surrogates.py claims --half unseen --seeds 3
    python benchmarks/surrogates.py course --half unseen --seeds 1
    python benchmarks/surrogates.py rivals --half unseen
    python benchmarks/surrogates.py hybrid --calls 10000 --only operating
    python benchmarks/surrogates.py cost
    python benchmarks/surrogates.py summary

claims: each campaign has at most 500 runs; the tolerances are .2, .1 and .05 of the spread. A claim is true if the RMSE
on 2,048 fresh points (1,024 for simulators) is at most the tolerance for every output. The arm "even" is the same with
Sobol points in place of the adaptive design. course: the true error while designs grow, without certificates. rivals:
RMSE of surrogates trained on the same 200 Sobol points.
hybrid: hydrogen that ignites (Cantera), called along trajectories: 40 times each of reactors whose temperature, mixture
and pressure wander; "adversarial" visits the half where nothing burns first, then only the front. "operating": methane
by GRI-Mech 3.0 near one operating point; it was chosen after the first two. The true share of answers that are off is
measured on 2,000 of them (500 for methane). It ends after --calls, or --seconds of CPU. cost: CPU seconds of a
round of ten runs and of a fit, at 500 runs and five inputs.

The functions of both halves were chosen before the surrogate was tuned, and the unseen half was run once. It needs
``pip install cantera CoolProp pybamm smt openturns``. Finished campaigns are kept in a cache, so the command can be
interrupted; results/surrogates.json is the summary.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import qmc

import steep
from design_functions_unseen import UNSEEN
from problems import PROBLEMS
from reproduction.records import Records, machine, write_json
from simulators import SIMULATORS
from steep.domain import Box
from steep.sampling.design import Growth
from steep.sampling.simulator import Simulator
from steep.surrogate.fit import GROWTH
from stop_rule_functions import burgers_viscous, fitzhugh, front, pendulum

RESULT = Path(__file__).parent / "results" / "surrogates.json"
CACHE = Path("~/.cache/steep/benchmarks/surrogates.jsonl").expanduser()
TOLERANCES = (0.2, 0.1, 0.05)
MAX_RUNS = 500
PACKAGES = ("numpy", "scipy", "scikit-learn", "cantera", "CoolProp", "pybamm", "smt", "openturns")
ARMS = {"steep": None, "even": steep.Even()}


def _of(table, name):
    return table[name].function, table[name].n_features


HALVES = {
    "development": {
        "front": (front, 3), "burgers_viscous": (burgers_viscous, 4), "fitzhugh": (fitzhugh, 3),
        "pendulum": (pendulum, 3), **{name: _of(PROBLEMS, name) for name in ("franke", "otl_circuit")},
    },
    "unseen": {
        **{name: _of(UNSEEN, name) for name in ("currin", "camel", "hartmann_3", "ignition", "park", "piston")},
        **{name: _of(SIMULATORS, name) for name in SIMULATORS},
    },
}  # fmt: skip
ORDERS = {
    "wandering": "ignition_of_hydrogen", "adversarial": "ignition_of_hydrogen", "operating": "ignition_of_methane",
}  # fmt: skip


@cache
def fresh(half, name):
    """Points that no campaign runs, and the function there."""
    function, d = HALVES[half][name]
    points = qmc.Sobol(d, rng=np.random.default_rng(10**6)).random_base2(10 if name in SIMULATORS else 11)
    return points, function(points).reshape(len(points), -1)


def claim(half, name, arm, tolerance, seed):
    """One campaign: what it claims, and what is true."""
    function, d = HALVES[half][name]
    began = time.process_time()
    model = steep.emulate(
        function, [(0, 1)] * d, tolerance, MAX_RUNS, strategy=ARMS[arm], random_state=seed
    )  # fmt: skip
    seconds = time.process_time() - began
    points, truth = fresh(half, name)
    values, halves = model.predict(points, return_error=True)
    wrong, halves = np.abs(values.reshape(truth.shape) - truth), halves.reshape(truth.shape)
    held = wrong <= halves
    widest = np.argsort(-halves, axis=0)[: len(points) // 10]
    return {
        "claimed": model.certificate.reached(tolerance), "bound": model.certificate.worst(),
        "true": float((np.sqrt((wrong**2).mean(axis=0)) / truth.std(axis=0)).max()),
        "runs": model.certificate.n_runs, "checks": model.certificate.n_checks, "look": model.certificate.look,
        "covered": float(held.mean()), "covered in the widest tenth": float(np.take_along_axis(held, widest, 0).mean()),
        "kinds": [max(scores, key=lambda kind: -scores[kind]) if scores else "constant" for scores in model.scores_],
        "seconds": seconds,
    }  # fmt: skip


def course(half, name, arm, seed):
    """Runs and true error while a design grows by a fifth at a time; no check runs. A fit every second time."""
    function, d = HALVES[half][name]
    box, generator = Box([(0, 1)] * d), np.random.default_rng(seed)
    growth = Growth(Simulator(function, box), ARMS[arm] or steep.Adaptive(), generator)
    growth.start(max(16, 4 * (d + 1)))
    points, truth = fresh(half, name)
    found = {}
    while growth.n_asked < MAX_RUNS:
        for _ in range(2):
            growth.add(round(GROWTH * growth.n_asked))
        plan = growth.design()
        model = steep.Surrogate(box)._train(box, plan.X, plan.labels, plan.output_names, np.random.default_rng(seed))
        wrong = model._both(points)[0] - truth
        found[growth.n_asked] = float((np.sqrt((wrong**2).mean(axis=0)) / truth.std(axis=0)).max())
    return found


def runs_for_error(lines, half):
    """Runs of the design over runs of Sobol points for the error that these reach with 100, 200 and 400."""
    courses = {(line["experiment"], line["arm"], line["seed"]): line["result"] for line in lines}
    table = {}
    for (name, arm, seed), even in courses.items():
        ours = courses.get((name, f"{half}-course-steep", seed))
        if arm != f"{half}-course-even" or ours is None:
            continue
        for n in (100, 200, 400):
            log_runs, log_errors = np.log([[float(runs), error] for runs, error in even.items()]).T
            goal = np.interp(np.log(n), log_runs, np.minimum.accumulate(log_errors))
            log_runs, log_errors = np.log([[float(runs), error] for runs, error in ours.items()]).T
            falling = np.minimum.accumulate(log_errors)
            # Not reached: as many runs as there were.
            reached = np.interp(-goal, -falling, log_runs)
            table.setdefault(name, {}).setdefault(str(n), []).append(float(np.exp(reached) / n))
    means = {name: {n: round(float(np.mean(ratios)), 2) for n, ratios in row.items()} for name, row in table.items()}
    every = [ratio for row in table.values() for ratios in row.values() for ratio in ratios]
    return {
        "functions": means, "ratios": len(every), "median": round(float(np.median(every)), 3) if every else None,
        "above 1.1": sum(ratio > 1.1 for ratio in every),
    }  # fmt: skip


def compare(half, name, n=200):
    """RMSE over the spread, and CPU seconds, of each surrogate on the same Sobol points; the worst output counts."""
    function, d = HALVES[half][name]
    X = qmc.Sobol(d, rng=np.random.default_rng(0)).random_base2(8)[:n]
    y = function(X).reshape(n, -1)
    points, truth = fresh(half, name)
    found = {}
    for rival, fit in RIVALS.items():
        began = time.process_time()
        errors = [
            np.sqrt(((fit(X, column) (points) - true) ** 2).mean()) / true.std()
            for column, true in zip(y.T, truth.T, strict=True)
        ]  # fmt: skip
        found[rival] = {"rmse": float(max(errors)), "seconds": time.process_time() - began}
    return found


def _ours(X, y):
    points = np.vstack([X, X[:1]])
    model = steep.Surrogate([(0, 1)] * X.shape[1], random_state=0)
    return model.fit(points, np.append(y, y[0]), check=np.arange(len(points)) == len(X)).predict


def _smt(X, y):
    from smt.surrogate_models import KRG

    model = KRG(print_global=False, hyper_opt="TNC", n_start=5, seed=0)
    model.set_training_values(X, y[:, None])
    model.train()
    return lambda at: model.predict_values(at)[:, 0]


def _openturns(X, y):
    import openturns as ot

    basis = ot.ConstantBasisFactory(X.shape[1]).build()
    fit = ot.GaussianProcessFitter(ot.Sample(X), ot.Sample(y[:, None]), ot.MaternModel([1.0] * X.shape[1], 2.5), basis)
    fit.run()
    regression = ot.GaussianProcessRegression(fit.getResult())
    regression.run()
    predict = regression.getResult().getMetaModel()
    return lambda at: np.array(predict(at))[:, 0]


def _sklearn(X, y):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * Matern([0.5] * X.shape[1], (0.02, 20), nu=2.5)
    model = GaussianProcessRegressor(kernel, alpha=1e-8, normalize_y=True, n_restarts_optimizer=1, random_state=0)
    return model.fit(X, y).predict


RIVALS = {"steep": _ours, "SMT KRG": _smt, "OpenTURNS": _openturns, "scikit-learn GP": _sklearn}


def trajectories(n_calls, order, seed=0):
    """Batches of 40 calls: one reactor at 40 times; its start wanders through the domain, or around one point."""
    rng, at = np.random.default_rng(seed), np.array([0.5, 0.5, 0.5])
    for number in range(n_calls // 40):
        if order == "operating":
            at = 0.5 + 0.9 * (at - 0.5) + 0.01 * rng.standard_normal(3)
        else:  # reflected at the faces
            at = at + 0.03 * rng.standard_normal(3)
            at = 1 - np.abs(1 - np.abs(at))
        low, high = (0.0, 1.0) if order != "adversarial" else (0.0, 0.3) if number < n_calls // 80 else (0.3, 0.9)
        yield np.column_stack([np.tile(at, (40, 1)), np.linspace(low, high, 40)])


def follow(order, n_calls, most_seconds, risk=0.01, check_share=0.02):
    """A hybrid along trajectories: its report, the true share of answers that are off, and the CPU seconds it took."""
    function, d = HALVES["unseen"][ORDERS[order]]
    spread = fresh("unseen", ORDERS[order])[1].std(axis=0)
    seconds = {"simulator": 0.0}

    def timed(U):
        began = time.process_time()
        try:
            return function(U)
        finally:
            seconds["simulator"] += time.process_time() - began

    began = time.process_time()
    model = steep.emulate(timed, [(0, 1)] * d, 0.2, 200, random_state=0)
    seconds["emulate"] = time.process_time() - began
    seconds["simulator"] = 0.0
    fast = steep.hybrid(timed, model, 0.1 * spread, risk, check_share=check_share, random_state=0)
    asked, answered, course = [], [], []
    began = time.process_time()
    for X in trajectories(n_calls, order):
        answered.append(fast(X))
        asked.append(X)
        if len(asked) % (25 if order == "operating" else 250) == 0:
            report = fast.report()
            course.append([report.n_calls, report.n_simulated, time.process_time() - began])
            print(course[-1], report.n_off, report.bound, flush=True)
        if time.process_time() - began > most_seconds:
            break
    seconds["hybrid"] = time.process_time() - began
    X, y = np.vstack(asked), np.vstack(answered)
    rows = np.random.default_rng(1).choice(len(X), 500 if order == "operating" else 2000, replace=False)
    began = time.process_time()
    truth = function(X[rows])
    alone = (time.process_time() - began) / len(rows) * len(X)
    wrong = np.abs(truth - y[rows]) > 0.1 * spread
    report = fast.report()
    return {
        "calls": report.n_calls, "by model": report.n_model, "simulated": report.n_simulated,
        "checked": report.n_checked, "found off": report.n_off, "bound": report.bound, "risk": risk,
        "true share off": float(wrong.any(axis=1).mean()), "seconds": seconds, "seconds of the simulator alone": alone,
        "times faster": alone / seconds["hybrid"], "course": course,
        "seconds per prediction": fast._predicting / report.n_calls,
    }  # fmt: skip


def cost():
    """CPU seconds at 500 runs and five inputs: asking for ten runs, and fitting a surrogate."""
    function = PROBLEMS["friedman"].function
    X = qmc.Sobol(5, rng=np.random.default_rng(0)).random_base2(9)[:500]
    with steep.Campaign([(0, 1)] * 5, storage=":memory:") as campaign:
        campaign.tell(X, function(X))
        campaign.ask(10)
        began = time.process_time()
        campaign.ask(10)
        asking = time.process_time() - began
    began = time.process_time()
    steep.Surrogate([(0, 1)] * 5, random_state=0).fit(X, function(X))
    return {"ask 10 runs": asking, "fit": time.process_time() - began}


def summary(records):
    """What is written and printed: each half, each arm; the hybrid and the cost, if not measured now, as stored."""
    lines = list(records)
    stored = json.loads(RESULT.read_text(encoding="utf-8"))
    cost = [line["result"] for line in lines if line["experiment"] == "cost"][-1:]
    orders = {line["arm"]: line["result"] for line in lines if line["experiment"] == "hybrid"}
    found = stored | {"machine": machine(PACKAGES), "runs": MAX_RUNS, "cost": cost or stored["cost"]}
    if orders:
        found["hybrid"] = {"machine": machine(PACKAGES), "orders": stored["hybrid"]["orders"] | orders}
    for half, functions in HALVES.items():
        if not any(line["arm"].startswith(f"{half}-") for line in lines):
            continue
        part = {}
        for arm in ARMS:
            own = [line for line in lines if line["arm"].startswith(f"{half}-{arm}-")]
            part[arm] = {"all": _counts(own)} | {
                name: _counts([line for line in own if line["experiment"] == name]) for name in functions
            }
        rivals = {line["experiment"]: line["result"] for line in lines if line["arm"] == f"{half}-rivals"}
        rivals = stored[half]["rivals"] | rivals
        found[half] = part | {"rivals": rivals, "runs over even": _runs_over_even(lines, half)}
        found[half]["runs for the same error"] = runs_for_error(lines, half)
        print(json.dumps({"half": half} | found[half], indent=1))
    write_json(RESULT, found)


def _counts(lines):
    results = [line["result"] for line in lines]
    claims = [(line["result"], line["settings"]["tolerance"]) for line in lines if line["result"]["claimed"]]
    tenth = "covered in the widest tenth"
    table = {"campaigns": len(lines), "claims": len(claims), "true": sum(r["true"] <= e for r, e in claims)}
    if lines:
        table |= {
            "covered": round(float(np.mean([r["covered"] for r in results])), 3),
            tenth: round(float(np.mean([r[tenth] for r in results])), 3),
            "median bound over truth": round(float(np.median([r["bound"] / r["true"] for r in results])), 2),
            "median runs": {
                str(e): float(np.median(runs)) if (runs := [r["runs"] for r, t in claims if t == e]) else None
                for e in TOLERANCES
            },
            "seconds": round(float(np.mean([r["seconds"] for r in results])), 1),
        }  # fmt: skip
    return table


def _runs_over_even(lines, half):
    """Runs of an adaptive campaign over those of an even one of the same function and seed, if both claim."""
    table = {}
    for line in lines:
        if line["arm"].startswith((f"{half}-steep-", f"{half}-even-")):
            _, arm, tolerance = line["arm"].split("-")
            table[line["experiment"], tolerance, line["seed"], arm] = line["result"]
    ratios = [
        result["runs"] / table[*key[:3], "even"]["runs"] for key, result in table.items()
        if key[3] == "steep" and result["claimed"] and table.get((*key[:3], "even"), {}).get("claimed")
    ]  # fmt: skip
    only = [
        [table[key]["claimed"], table[*key[:3], "even"]["claimed"]] for key in table
        if key[3] == "steep" and (*key[:3], "even") in table
    ]  # fmt: skip
    return {
        "pairs": len(only), "both claim": len(ratios), "median": round(float(np.median(ratios)), 3) if ratios else None,
        "above 1.1": int(sum(ratio > 1.1 for ratio in ratios)),
        "only steep": sum(a and not b for a, b in only), "only even": sum(b and not a for a, b in only),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=("claims", "course", "rivals", "hybrid", "cost", "summary"))
    parser.add_argument("--half", choices=list(HALVES), default="development")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--tolerances", nargs="+", type=float, choices=TOLERANCES, default=TOLERANCES)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    records = Records(options.cache)
    names = options.only or list(HALVES[options.half])
    if options.job == "claims":
        wanted = [
            (name, f"{options.half}-{arm}-{tolerance}", seed) for seed in range(options.seeds)
            for arm in options.arms for tolerance in options.tolerances for name in names
        ]  # fmt: skip
        for name, label, seed in records.missing(wanted):
            _, arm, tolerance = label.split("-")
            result = claim(options.half, name, arm, float(tolerance), seed)
            records.add(name, label, seed, settings={"tolerance": float(tolerance)}, result=result)
    elif options.job == "course":
        wanted = [
            (name, f"{options.half}-course-{arm}", seed) for seed in range(options.seeds)
            for name in names for arm in options.arms
        ]  # fmt: skip
        for name, label, seed in records.missing(wanted):
            records.add(name, label, seed, result=course(options.half, name, label.split("-")[2], seed))
    elif options.job == "rivals":
        for name, label, seed in records.missing([(name, f"{options.half}-rivals", 0) for name in names]):
            records.add(name, label, seed, result=compare(options.half, name))
    elif options.job == "hybrid":
        for name, label, seed in records.missing([("hybrid", order, 0) for order in options.only or ORDERS]):
            result = follow(label, options.calls, options.seconds)
            records.add(name, label, seed, settings={"calls": options.calls, "seconds": options.seconds}, result=result)
    elif options.job == "cost":
        records.add("cost", "all", int(time.time()), result=cost())
    summary(records)
