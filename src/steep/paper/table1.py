"""Table 1: Taylor Based Sampling of Runge and tanh, against points drawn uniformly.

16 points, 8 of them a grid; a perceptron of 8 ReLU units, Adam, 50,000 epochs, 40 repeats. What the paper calls L2
and L∞ is the mean and the largest *squared* error in the authors' code: both readings are kept. Their networks see x
in [0, 1], where many get stuck; the same networks with x scaled to [−1, 1] are shown beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

import steep
from steep._validation import FloatArray
from steep.metrics import l2_error, linf_error
from steep.paper.jobs import Context, Job, Results, Scale
from steep.paper.problems import RUNGE, TANH, Problem
from steep.paper.summary import Claim, Lines, Section, judge, markdown, show, show_gain

TITLE = "Table 1: Runge and tanh"
N, N_NEW, ORDER, EPSILON, N_GMM, UNITS = 8, 8, 2, 1e-3, 3, 8
LEARNING_RATE, N_TEST = 1e-3, 1000
SETTINGS = {
    "smoke": {"epochs": 300, "repeats": 4},
    "laptop": {"epochs": 50000, "repeats": 40},
    "paper": {"epochs": 50000, "repeats": 40},
}
# Mean ± 95 % half-width: L2 and L∞ of the paper.
PAPER = {
    "runge": {"uniform": ("1.45 ± 0.62", "5.31 ± 0.86"), "TBS": ("1.13 ± 0.73", "3.87 ± 0.48"), "unit": 1e-2},
    "tanh": {"uniform": ("1.39 ± 0.67", "2.75 ± 0.78"), "TBS": ("0.95 ± 0.50", "2.25 ± 0.61"), "unit": 1e-1},
}
INPUTS = {"as in the paper": (0.0, 1.0), "scaled": (-1.0, 1.0)}


def jobs(scale: Scale) -> list[Job]:
    """Every function × input scaling × arm, all repeats at once."""
    numbers = SETTINGS[scale]
    return [
        Job(
            f"{problem.name}, inputs {inputs}", arm, tuple((arm, seed) for seed in range(numbers["repeats"])),
            partial(_run, problem, inputs, arm, numbers["epochs"], numbers["repeats"]),
            {"problem": problem.name, "inputs": inputs, "n_points": N + N_NEW, "learning_rate": LEARNING_RATE,
             "units": UNITS, "activation": "relu", "init": "glorot", **numbers},
        )
        for problem in (RUNGE, TANH) for inputs in INPUTS for arm in ARMS
    ]  # fmt: skip


def _run(problem: Problem, inputs: str, arm: str, epochs: int, repeats: int, context: Context) -> Results:
    from steep.nn import train_ensemble

    plans = [ARMS[arm](problem, seed) for seed in range(repeats)]
    low, high = INPUTS[inputs]
    test = np.linspace(0, 1, N_TEST)[:, None]
    ensemble = train_ensemble(
        [low + (high - low) * X for X, _ in plans], [problem.function(X) for X, _ in plans], layers=(UNITS,),
        activation="relu", init="glorot", epochs=epochs, learning_rate=LEARNING_RATE, random_state=list(range(repeats)),
        progress=context.progress,
    )  # fmt: skip
    outputs = ensemble.predict(low + (high - low) * test)[:, :, 0]
    truth = problem.function(test)
    return {
        (arm, seed): {
            **errors(truth, outputs[seed]),
            "n_evaluations": plans[seed][1],
            "points": _told(plans[seed][0]),
        }
        for seed in range(repeats)
    }


def errors(truth: FloatArray, outputs: FloatArray) -> dict[str, float]:
    """Both readings of L2 and L∞: squared, as in the authors' code, and as printed."""
    mse, largest = l2_error(truth, outputs), linf_error(truth, outputs)
    return {"mse": mse, "max_squared": largest**2, "l2": float(np.sqrt(mse)), "linf": largest}


def _told(X: FloatArray) -> list[float]:
    return [round(float(x), 6) for x in X[:, 0]]


Plan = tuple[FloatArray, int]  # points, and the evaluations of f they cost


def _grid(problem: Problem, seed: int) -> Plan:
    return np.linspace(0, 1, N + N_NEW)[:, None], N + N_NEW


def _uniform(problem: Problem, seed: int) -> Plan:
    drawn = np.random.default_rng(seed).random((N_NEW, 1))
    return np.vstack([np.linspace(0, 1, N)[:, None], drawn]), N + N_NEW


def _tbs(problem: Problem, seed: int) -> Plan:
    """Algorithm 1, with derivatives that cost nothing."""
    plan = steep.design(
        problem.function, problem.bounds, n_initial=N, n_samples=N_NEW, variant="paper", initial="grid", order=ORDER,
        epsilon=EPSILON, n_components=N_GMM, derivatives=problem.derivatives, random_state=seed,
    )  # fmt: skip
    return plan.X, plan.n_evaluations


def _tbs_counted(problem: Problem, seed: int) -> Plan:
    """Algorithm 1 with finite differences paid from the same 16 evaluations: 3 start points leave 4 to draw."""
    plan = steep.design(
        problem.function, problem.bounds, n_initial=3, n_samples=4, variant="paper", initial="grid", order=ORDER,
        epsilon=EPSILON, n_components=N_GMM, random_state=seed,
    )  # fmt: skip
    return plan.X, plan.n_evaluations


def _default(problem: Problem, seed: int) -> Plan:
    """Our default design: no derivatives, a quarter of the budget to start with."""
    plan = steep.design(
        problem.function, problem.bounds, n_initial=4, n_samples=12, initial="grid", random_state=seed
    )
    return plan.X, plan.n_evaluations


def _bound(problem: Problem, seed: int) -> Plan:
    """The density the bound asks for, ∝ |f'| + K, drawn exactly; K is the mean |f'|, free derivatives."""
    x = np.linspace(0, 1, 2001)
    slope = np.abs(problem.derivatives(x[:, None], np.array([[1]]))).reshape(-1)
    cumulated = np.concatenate([[0.0], np.cumsum(slope[1:] + slope[:-1] + 2 * slope.mean())])
    drawn = np.interp(np.random.default_rng(seed).random(N_NEW), cumulated / cumulated[-1], x)[:, None]
    return np.vstack([np.linspace(0, 1, N)[:, None], drawn]), N + N_NEW


ARMS: dict[str, Callable[[Problem, int], Plan]] = {
    "uniform": _uniform,
    "grid": _grid,
    "TBS": _tbs,
    "TBS, derivatives paid": _tbs_counted,
    "default design": _default,
    "density of the bound": _bound,
}


def summarize(lines: Lines) -> Section:
    """Both readings, both scalings, and the paired gain of every arm over uniform points."""
    claims, tables = [], []
    for problem in (RUNGE, TANH):
        for inputs in INPUTS:
            experiment = f"{problem.name}, inputs {inputs}"
            tables.append(f"**{experiment}** (lines `{experiment}`)\n\n" + _table(lines, experiment))
        claims += [
            _claim(lines, problem.name, name, number) for number, name in enumerate(("mse", "max_squared"))
        ]
    return Section(claims, tables)


def _table(lines: Lines, experiment: str) -> str:
    header = ["arm", "runs of f", "mean squared error", "largest squared error", "√ of it: L2", "L∞",
              "gain over uniform, squared L2", "gain, squared L∞"]  # fmt: skip
    rows = []
    for arm in ARMS:
        first = lines.result(experiment, arm)
        rows.append(
            [arm, str(first["n_evaluations"]) if first else "not run"]
            + [show(lines.interval(experiment, arm, name)) for name in ("mse", "max_squared", "l2", "linf")]
            + ["" if arm == "uniform" else show_gain(lines.gain(experiment, "uniform", arm, name, is_error=True))
               for name in ("mse", "max_squared")]
        )  # fmt: skip
    return markdown(header, rows)


def _claim(lines: Lines, problem: str, name: str, number: int) -> Claim:
    printed, unit = PAPER[problem], float(PAPER[problem]["unit"])  # type: ignore[arg-type]
    as_paper, scaled = f"{problem}, inputs as in the paper", f"{problem}, inputs scaled"
    ours = [show(lines.interval(as_paper, arm, name), 1 / unit) for arm in ("uniform", "TBS")]
    gain = lines.gain(as_paper, "uniform", "TBS", name, is_error=True)
    other = lines.gain(scaled, "uniform", "TBS", name, is_error=True)
    word = ("L2", "L∞")[number]
    return Claim(
        f"TBS lowers {word} on {problem} (×{unit:g}, squared error)",
        f"{printed['uniform'][number]} → {printed['TBS'][number]}",  # type: ignore[index]
        f"{ours[0]} → {ours[1]}",
        f"paired gain {show_gain(gain, 1 / unit)}; inputs scaled {show_gain(other, 1 / unit)}",
        judge(gain, other),
    )
