"""Table 2: Taylor Based Sampling of the Bateman equations, M = 1 as in the paper and M = 10 beyond it.

Half of the points uniform, half drawn ∝ Df; a perceptron of 2 × 32 ReLU units, Adam, full batch. The paper trains on
50,000 points for 40,000 epochs, 50 times. With g_θ(u_0, η_0) = max_t ‖f − f_θ‖² and Z = g_BS − g_TBS,

    AEG = E[Z 1{Z>0}],    AEL = E[−Z 1{Z<0}]

The domain of (u_0, η_0) is not printed; ours is [0, 1]², t in [0, 10].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import steep
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.problems import BATEMAN, BATEMAN_10, Problem
from reproduction.summary import NOT_RUN, Claim, Lines, Section, judge, markdown, show, show_gain
from steep._progress import progress
from steep._validation import FloatArray
from steep.metrics import average_error_gain, average_error_loss, l2_error, linf_error, mean_interval

TITLE = "Table 2: the Bateman equations"
ORDER, EPSILON, N_GMM, LAYERS, LEARNING_RATE = 2, 5e-4, 10, (32, 32), 1e-3
SETTINGS: dict[str, dict[str, dict[str, int]]] = {
    "smoke": {
        "bateman": {"n_points": 60, "epochs": 60, "repeats": 2, "n_test": 500, "n_grid": 8},
        "bateman-10": {"n_points": 60, "epochs": 60, "repeats": 2, "n_test": 300, "n_grid": 8},
    },
    "laptop": {
        "bateman": {"n_points": 1000, "epochs": 10000, "repeats": 10, "n_test": 20000, "n_grid": 30},
        "bateman-10": {"n_points": 1000, "epochs": 5000, "repeats": 6, "n_test": 5000, "n_grid": 20},
    },
    "paper": {
        "bateman": {"n_points": 50000, "epochs": 40000, "repeats": 50, "n_test": 50000, "n_grid": 100},
        "bateman-10": {"n_points": 50000, "epochs": 40000, "repeats": 50, "n_test": 50000, "n_grid": 100},
    },
}
# L2 (×1e-4), L∞ (×1e-1), AEG and AEL (×1e-2) of the paper.
PAPER = {"uniform": ("1.22 ± 0.13", "5.28 ± 0.47"), "TBS": ("1.14 ± 0.15", "2.96 ± 0.37")}
PAPER_AEG, PAPER_AEL = "2.51 ± 0.07", "0.42 ± 0.008"
RUNS = (("bateman", "as in the paper"), ("bateman", "scaled"), ("bateman-10", "scaled"))
PROBLEMS = {"bateman": BATEMAN, "bateman-10": BATEMAN_10}
OTHER_SYSTEM = (
    "**These lines do not test the paper's claims.** They solve the printed signs, under which u − η is constant, with "
    "u_0 and η_0 from 0 to 1. The authors' code solves a system in which u + η is constant, with u_0 up to 4 and η_0 "
    "up to 2. Table 2 and Fig. tbs are to be run again on that system."
)


def jobs(scale: Scale) -> list[Job]:
    """Every problem × input scaling, all arms at once: AEG and AEL compare them member by member."""
    return [
        Job(
            experiment_of(name, inputs), "all arms",
            tuple((arm, seed) for arm in ARMS for seed in range(SETTINGS[scale][name]["repeats"])),
            partial(_run, PROBLEMS[name], inputs, SETTINGS[scale][name]),
            {"problem": name, "inputs": inputs, "layers": LAYERS, "learning_rate": LEARNING_RATE, "init": "glorot",
             **SETTINGS[scale][name]},
        )
        for name, inputs in RUNS
    ]  # fmt: skip


def experiment_of(name: str, inputs: str) -> str:
    """Name of the lines."""
    return f"{name}, inputs {inputs}"


def _run(problem: Problem, inputs: str, numbers: dict[str, int], context: Context) -> Results:
    test = _uniform_points(problem, numbers["n_test"], np.random.default_rng(2**20))
    grid = grid_of(problem, numbers["n_grid"])
    truth, on_grid = problem.function(test), problem.function(grid.reshape(-1, grid.shape[-1]))
    plans: dict[str, list[Plan]] = {}
    outputs: dict[str, FloatArray] = {}
    worst: dict[str, FloatArray] = {}
    for arm in ARMS:
        seeds = progress(range(numbers["repeats"]), total=numbers["repeats"], label="designs", shown=context.progress)
        plans[arm] = [ARMS[arm](problem, numbers["n_points"], seed) for seed in seeds]
        ensemble = train(problem, inputs, [X for X, _ in plans[arm]], numbers, context.progress)
        worst[arm] = _worst_in_time(ensemble, problem, inputs, grid, on_grid)
        outputs[arm] = predict(ensemble, problem, inputs, test)
    return {
        (arm, seed): {
            **errors(truth, outputs[arm][seed]), "n_points": len(X), "n_evaluations": n_evaluations,
            "aeg": average_error_gain(worst["uniform"][seed].ravel(), worst[arm][seed].ravel()),
            "ael": average_error_loss(worst["uniform"][seed].ravel(), worst[arm][seed].ravel()),
        }
        for arm, designs in plans.items() for seed, (X, n_evaluations) in enumerate(designs)
    }  # fmt: skip


def errors(truth: FloatArray, outputs: FloatArray) -> dict[str, float]:
    """Both readings: mean and largest squared error (over outputs too, as Keras does), and their roots."""
    mse, largest = l2_error(truth, outputs) / truth.shape[1], linf_error(truth, outputs)
    return {"mse": mse, "max_squared": largest**2, "l2": float(np.sqrt(mse)), "linf": largest}


def train(
    problem: Problem, inputs: str, plans: list[FloatArray], numbers: dict[str, int], shown: bool | None = None
) -> Any:
    """One perceptron for each set of points, member r from seed r."""
    from reproduction.ensemble import train_ensemble

    return train_ensemble(
        [_scaled(problem, inputs, X) for X in plans], [problem.function(X) for X in plans], layers=LAYERS,
        epochs=numbers["epochs"], learning_rate=LEARNING_RATE,
        seeds=range(len(plans)), progress=shown,
    )  # fmt: skip


def _scaled(problem: Problem, inputs: str, X: FloatArray) -> FloatArray:
    if inputs == "as in the paper":
        return X
    low, high = np.array(problem.bounds).T
    scaled: FloatArray = 2 * (X - low) / (high - low) - 1
    return scaled


def predict(ensemble: Any, problem: Problem, inputs: str, X: FloatArray) -> FloatArray:
    """Outputs of every member, some thousands of points at a time."""
    parts = [ensemble.predict(_scaled(problem, inputs, part)) for part in np.array_split(X, 1 + len(X) // 4000)]
    return np.concatenate(parts, axis=1)


def _worst_in_time(ensemble: Any, problem: Problem, inputs: str, grid: FloatArray, truth: FloatArray) -> FloatArray:
    """g_θ of every member, ``(n_members, n_starts)``: the largest squared error over time."""
    outputs = predict(ensemble, problem, inputs, grid.reshape(-1, grid.shape[-1]))
    squared = ((outputs - truth) ** 2).sum(axis=2)
    worst: FloatArray = squared.reshape(len(outputs), *grid.shape[:2]).max(axis=2)
    return worst


def grid_of(problem: Problem, n: int) -> FloatArray:
    """Starts × times, ``(n², n + 1, d)``: a grid of (u_0, η_0); further species are drawn once."""
    low, high = np.array(problem.bounds).T
    first = np.stack(np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij"), axis=-1).reshape(-1, 2)
    others = np.random.default_rng(0).random((n * n, len(low) - 3))
    starts = np.repeat(np.hstack([first, others])[:, None], n + 1, axis=1)
    times = np.broadcast_to(np.linspace(0, 1, n + 1)[None, :, None], (n * n, n + 1, 1))
    grid: FloatArray = low + np.concatenate([starts, times], axis=2) * (high - low)
    return grid


Plan = tuple[FloatArray, int]


def _uniform_points(problem: Problem, n: int, generator: np.random.Generator) -> FloatArray:
    low, high = np.array(problem.bounds).T
    points: FloatArray = low + generator.random((n, len(low))) * (high - low)
    return points


def _uniform(problem: Problem, n: int, seed: int) -> Plan:
    return _uniform_points(problem, n, np.random.default_rng(seed)), n


def _epsilon(problem: Problem) -> FloatArray:
    """ε of the paper is in the inputs' own units; designs want it relative to each axis."""
    low, high = np.array(problem.bounds).T
    relative: FloatArray = EPSILON / (high - low) ** 2
    return relative


def _tbs(problem: Problem, n: int, seed: int) -> Plan:
    """Algorithm 1, with derivatives that cost nothing."""
    plan = steep.design(
        problem.function,
        problem.bounds,
        n,
        n_initial=n // 2,
        strategy=steep.Taylor(
            order=ORDER, epsilon=_epsilon(problem), n_components=N_GMM, derivatives=problem.derivatives
        ),
        random_state=seed,
    )
    return plan.X, plan.n_evaluations


def _tbs_counted(problem: Problem, n: int, seed: int) -> Plan:
    """Algorithm 1 with finite differences paid from the same budget."""
    d = len(problem.bounds)
    cost = 1 + 2 * d + 2 * d * (d - 1)
    n_initial = max(2, int(0.9 * n / (cost + 1)))
    n_drawn = max(10, n - n_initial * (cost + 1))
    plan = steep.design(
        problem.function,
        problem.bounds,
        n_initial + n_drawn,
        n_initial=n_initial,
        strategy=steep.Taylor(order=ORDER, epsilon=_epsilon(problem), n_components=N_GMM),
        random_state=seed,
    )
    return plan.X, plan.n_evaluations


def _default(problem: Problem, n: int, seed: int) -> Plan:
    plan = steep.design(problem.function, problem.bounds, n, n_initial=n // 4, random_state=seed)
    return plan.X, plan.n_evaluations


def _bound(problem: Problem, n: int, seed: int) -> Plan:
    """Density ∝ ‖∇f‖ + K in the unit cube, drawn from a pool; K is the mean of ‖∇f‖, free derivatives."""
    start = _uniform_points(problem, n // 2, np.random.default_rng(seed))
    low, high = np.array(problem.bounds).T
    partials = np.asarray(problem.derivatives(start, np.eye(len(low), dtype=np.int64)))
    slope = np.sqrt((partials.reshape(len(low), n // 2, -1) ** 2 * ((high - low) ** 2)[:, None, None]).sum(axis=(0, 2)))
    sampler = steep.VariationSampler(problem.bounds, density="pool", draw="random", random_state=seed)
    drawn = sampler.fit(start, slope + slope.mean()).sample(n - n // 2)
    return np.vstack([start, drawn]), n


ARMS: dict[str, Callable[[Problem, int, int], Plan]] = {
    "uniform": _uniform,
    "TBS": _tbs,
    "TBS, derivatives paid": _tbs_counted,
    "default design": _default,
    "density of the bound": _bound,
}


def summarize(lines: Lines) -> Section:
    """Both readings, AEG and AEL, and the paired gain over uniform points."""
    tables = []
    for name, inputs in RUNS:
        experiment = experiment_of(name, inputs)
        numbers = lines.settings(experiment)
        told = (
            f"{numbers['n_points']} points, {numbers['epochs']} epochs, {numbers['repeats']} repeats"
            if numbers
            else "not run"
        )
        tables.append(f"**{experiment}**: {told}\n\n" + _table(lines, experiment))
    claims = [_claim(lines, "mse", 0, 1e-4), _claim(lines, "max_squared", 1, 1e-1), _claim_aeg(lines)]
    return Section([on_another_system(claim) for claim in claims], [OTHER_SYSTEM, *tables])


def on_another_system(claim: Claim) -> Claim:
    """A claim about the authors' system is not tested by lines of another one."""
    return replace(claim, verdict=NOT_RUN, honest=f"on another system than the authors': {claim.honest}")


def _table(lines: Lines, experiment: str) -> str:
    header = ["arm", "points", "runs of f", "mean squared error", "largest squared error", "√ of it: L2", "L∞", "AEG",
              "AEL", "gain over uniform, squared L2", "gain, squared L∞"]  # fmt: skip
    rows = []
    for arm in ARMS:
        first = lines.result(experiment, arm)
        rows.append(
            [arm, *([str(first["n_points"]), str(first["n_evaluations"])] if first else ["not run", "not run"])]
            + [show(lines.interval(experiment, arm, name))
               for name in ("mse", "max_squared", "l2", "linf", "aeg", "ael")]
            + ["" if arm == "uniform" else show_gain(lines.gain(experiment, "uniform", arm, name, is_error=True))
               for name in ("mse", "max_squared")]
        )  # fmt: skip
    return markdown(header, rows)


def _claim(lines: Lines, name: str, number: int, unit: float) -> Claim:
    as_paper, scaled = (experiment_of("bateman", inputs) for inputs in ("as in the paper", "scaled"))
    ours = [show(lines.interval(as_paper, arm, name), 1 / unit) for arm in ("uniform", "TBS")]
    gain = lines.gain(as_paper, "uniform", "TBS", name, is_error=True)
    other = lines.gain(scaled, "uniform", "TBS", name, is_error=True)
    return Claim(
        f"TBS lowers {('L2', 'L∞')[number]} on Bateman, M = 1 (×{unit:g}, squared error)",
        f"{PAPER['uniform'][number]} → {PAPER['TBS'][number]}",
        f"{ours[0]} → {ours[1]}",
        f"paired gain {show_gain(gain, 1 / unit)}; inputs scaled {show_gain(other, 1 / unit)}",
        judge(gain, other),
    )


def _claim_aeg(lines: Lines) -> Claim:
    experiment = experiment_of("bateman", "as in the paper")
    aeg, ael = (lines.interval(experiment, "TBS", name) for name in ("aeg", "ael"))
    balance = lines.values(experiment, "TBS", "aeg") - lines.values(experiment, "TBS", "ael")
    honest = mean_interval(balance) if balance.size > 1 else None
    return Claim(
        "TBS gains more than it loses over (u_0, η_0): AEG > AEL (×0.01)",
        f"AEG {PAPER_AEG}, AEL {PAPER_AEL}",
        f"AEG {show(aeg, 100)}, AEL {show(ael, 100)}",
        f"AEG − AEL {show_gain(honest, 100)}",
        judge(honest),
    )
