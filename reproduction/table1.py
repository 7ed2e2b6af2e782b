"""Table 1: Taylor Based Sampling of Runge and tanh, against points drawn uniformly.

16 points, 8 of them a grid; a perceptron of 8 ReLU units, Adam, 50,000 epochs, 40 repeats. What the paper calls L2
and L∞ is the mean and the largest *squared* error in the authors' code: both readings are kept. Their networks see x
in [0, 1], where many get stuck; the same networks with x scaled to [−1, 1] are shown beside them.

As in the code: there the uniform arm is a plain grid of 16 points, TBS draws ∝ Σ_k ε^k |∂^k f|/k! (absolute values
where the paper has squares; points under a hundredth of the largest are dropped), and of the epochs recorded every
hundred the least error *on the test set* counts, for each norm by itself.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

import steep
from reproduction.ensemble import train_ensemble
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.metrics import errors
from reproduction.problems import RUNGE, TANH, Problem
from reproduction.summary import Lines, Section, markdown, show, show_gain
from reproduction.verdicts import NOT_RUN, Claim, compare, joined
from steep._validation import FloatArray

TITLE = "Table 1: Runge and tanh"
N, N_NEW, ORDER, EPSILON, N_GMM, UNITS = 8, 8, 2, 1e-3, 3, 8
LEARNING_RATE, N_TEST = 1e-3, 1000
FULL = {"epochs": 50000, "repeats": 40}
SETTINGS = {"smoke": {"epochs": 300, "repeats": 4}, "laptop": FULL, "paper": FULL}
# Mean ± 95 % half-width: L2 and L∞ of the paper.
PAPER = {
    "runge": {"uniform": ("1.45 ± 0.62", "5.31 ± 0.86"), "TBS": ("1.13 ± 0.73", "3.87 ± 0.48")},
    "tanh": {"uniform": ("1.39 ± 0.67", "2.75 ± 0.78"), "TBS": ("0.95 ± 0.50", "2.25 ± 0.61")},
}
UNITS_OF = {"runge": 1e-2, "tanh": 1e-1}
Plan = tuple[FloatArray, int]  # points, and the evaluations of f they cost
INPUTS = {"as in the paper": (0.0, 1.0), "scaled": (-1.0, 1.0)}
# Sensitivity: one setting of Algorithm 1 changed at a time, inputs scaled.
AS_CODED, CODE_EPSILON, CODE_EVERY, CODE_SMALLEST = "as in the code", 5e-4, 100, 1 / 100
VARIANTS: dict[str, dict[str, Any]] = {
    "TBS, n = 1": {"order": 1}, "TBS, n = 3": {"order": 3},
    **{f"TBS, n_GMM = {n}": {"n_components": n} for n in (1, 6)},
    **{f"TBS, ε = {epsilon:g}": {"epsilon": epsilon} for epsilon in (1e-4, 1e-1)},
}  # fmt: skip


def jobs(scale: Scale) -> list[Job]:
    """Every function × input scaling × arm, all repeats at once; then what the authors' code does."""
    numbers = SETTINGS[scale]
    known = {"n_points": N + N_NEW, "learning_rate": LEARNING_RATE, "units": UNITS, "activation": "relu",
             "init": "glorot", **numbers}  # fmt: skip
    found = []
    for problem in (RUNGE, TANH):
        for inputs in (*INPUTS, AS_CODED):
            told = {"problem": problem.name, "inputs": inputs, **known}
            if inputs == AS_CODED:
                told |= {"epsilon": CODE_EPSILON, "every": CODE_EVERY, "smallest": CODE_SMALLEST}
            for arm in arms_of(inputs):
                lines = tuple((arm, seed) for seed in range(numbers["repeats"]))
                run = partial(_run, problem, inputs, arm, numbers)
                found.append(Job(experiment_of(problem.name, inputs), arm, lines, run, told))
    return found


def experiment_of(name: str, inputs: str) -> str:
    """Name of the lines."""
    return f"{name}, inputs {inputs}" if inputs in INPUTS else f"{name}, {inputs}"


def arms_of(inputs: str) -> dict[str, Callable[[Problem, int], Plan]]:
    """Ours, with variants of Algorithm 1 where inputs are scaled, or those of the code."""
    variants = {name: partial(_tbs, **changed) for name, changed in VARIANTS.items()} if inputs == "scaled" else {}
    return CODE_ARMS if inputs == AS_CODED else {**ARMS, **variants}


def _run(problem: Problem, inputs: str, arm: str, numbers: dict[str, int], context: Context) -> Results:
    seeds = list(range(numbers["repeats"]))
    plans = [arms_of(inputs)[arm](problem, seed) for seed in seeds]
    low, high = INPUTS.get(inputs, INPUTS["as in the paper"])
    test = np.linspace(0, 1, N_TEST)[:, None]
    truth, seen = problem.function(test), list[FloatArray]()

    def watch(epoch: int, ensemble: Any) -> None:
        if (epoch - 1) % CODE_EVERY == 0:
            squared = (ensemble.predict(test)[:, :, 0] - truth) ** 2
            seen.append(np.stack([squared.mean(axis=1), squared.max(axis=1)]))

    ensemble = train_ensemble(
        [low + (high - low) * X for X, _ in plans], [problem.function(X) for X, _ in plans], layers=(UNITS,),
        epochs=numbers["epochs"], learning_rate=LEARNING_RATE, seeds=seeds,
        watch=watch if inputs == AS_CODED else None, device=context.device, progress=context.progress,
    )  # fmt: skip
    outputs = ensemble.predict(low + (high - low) * test)[:, :, 0]
    found: Results = {}
    for seed, (X, cost) in enumerate(plans):
        found[arm, seed] = {**errors(truth, outputs[seed]), "n_evaluations": cost, "points": X[:, 0].round(6).tolist()}
        if seen:
            mse, largest = (float(least) for least in np.min(seen, axis=0)[:, seed])
            found[arm, seed] |= {"best_mse": mse, "best_max_squared": largest}
    return found


def _grid(problem: Problem, seed: int) -> Plan:
    return np.linspace(0, 1, N + N_NEW)[:, None], N + N_NEW


def _uniform(problem: Problem, seed: int) -> Plan:
    drawn = np.random.default_rng(seed).random((N_NEW, 1))
    return np.vstack([np.linspace(0, 1, N)[:, None], drawn]), N + N_NEW


def _tbs(
    problem: Problem, seed: int, *, order: int = ORDER, epsilon: float = EPSILON, n_components: int = N_GMM
) -> Plan:
    """Algorithm 1, with derivatives that cost nothing."""
    strategy = steep.Taylor(order=order, epsilon=epsilon, n_components=n_components, derivatives=problem.derivatives)
    return _design(N + N_NEW, N, strategy, problem, seed)


def _design(n_runs: int, n_initial: int, strategy: Any, problem: Problem, seed: int) -> Plan:
    """A design that starts from a grid."""
    plan = steep.design(
        problem.function, problem.bounds, n_runs, n_initial=n_initial, strategy=strategy,
        fixed=np.linspace(0, 1, n_initial)[:, None], random_state=seed,
    )  # fmt: skip
    return plan.X, plan.n_evaluations


# Finite differences are paid from the same 16 evaluations: 3 start points leave 4 to draw. The third method has the
# local variance of the values in the place of derivatives. Our default design starts with a quarter of the budget.
ARMS: dict[str, Callable[[Problem, int], Plan]] = {
    "uniform": _uniform, "grid": _grid, "TBS": _tbs,
    "TBS, derivatives paid": partial(_design, 7, 3, steep.Taylor(order=ORDER, epsilon=EPSILON, n_components=N_GMM)),
    "variance and new points": partial(_design, N + N_NEW, N, steep.Variance(n_neighbors=3, n_components=N_GMM)),
    "default design": partial(_design, N + N_NEW, 4, None),
}  # fmt: skip


def _tbs_as_coded(problem: Problem, seed: int) -> Plan:
    """Drawn ∝ Σ_k ε^k |∂^k f|/k!, small values dropped, derivatives free."""
    start = np.linspace(0, 1, N)[:, None]
    first, second = np.abs(problem.derivatives(start, np.array([[1], [2]]))).reshape(2, -1)
    variation = CODE_EPSILON * first + CODE_EPSILON**2 / 2 * second
    variation[variation < variation.max() * CODE_SMALLEST] = 0
    sampler = steep.VariationSampler(problem.bounds, n_components=N_GMM, random_state=seed)
    return np.vstack([start, sampler.fit(start, variation).sample(N_NEW)]), N + N_NEW


CODE_ARMS: dict[str, Callable[[Problem, int], Plan]] = {"grid": _grid, "TBS": _tbs_as_coded}


NORMS = {"mse": "L2", "max_squared": "L∞"}


def summarize(lines: Lines) -> Section:
    """Both readings, both scalings, and the paired gain of every arm over uniform points and over the grid."""
    tables = []
    for problem in PAPER:
        for inputs in INPUTS:
            experiment = experiment_of(problem, inputs)
            told = "; many networks get stuck" if inputs == "as in the paper" else " to [−1, 1]"
            tables.append(f"**{experiment}**{told}\n\n" + _table(lines, experiment, arms_of(inputs), NORMS))
        coded = experiment_of(problem, AS_CODED)
        told = "best epoch on the test set for each norm"
        tables.append(f"**{coded}**: {told}\n\n" + _table(lines, coded, CODE_ARMS, tuple(f"best_{n}" for n in NORMS)))
    in_mean = {f"{problem} (×{UNITS_OF[problem]:g})": _claim(lines, problem, "mse") for problem in PAPER}
    first = joined("TBS lowers L2 on Runge and tanh (squared error)", "no significant gain", in_mean)
    return Section([first, *(_claim(lines, problem, "max_squared") for problem in PAPER)], tables)


def _table(lines: Lines, experiment: str, arms: Iterable[str], names: Iterable[str]) -> str:
    header = ["arm", "runs of f", "mean squared error", "largest squared error", "gain over uniform, squared L2",
              "squared L∞", "gain over the grid, squared L2", "squared L∞"]  # fmt: skip
    rows = []
    for arm in arms:
        first, gains = lines.result(experiment, arm), list[str]()
        for control in ("uniform", "grid"):
            for name in names:
                gain = lines.gain(experiment, control, arm, name, is_error=True, kind="ranks")
                gains.append("" if gain is None or arm == control else show_gain(gain))
        rows.append([arm, str(first["n_evaluations"]) if first else NOT_RUN,
                     *(show(lines.interval(experiment, arm, name)) for name in names), *gains])  # fmt: skip
    return markdown(header, rows)


def _claim(lines: Lines, problem: str, name: str) -> Claim:
    """The control is the grid of 16 points, which the code has in the place of the paper's uniform points."""
    number, unit = list(NORMS).index(name), UNITS_OF[problem]
    before, after = (PAPER[problem][arm][number] for arm in ("uniform", "TBS"))
    as_paper, scaled, coded = (experiment_of(problem, inputs) for inputs in (*INPUTS, AS_CODED))
    ours = [show(lines.interval(as_paper, arm, name), 1 / unit) for arm in ("uniform", "TBS")]
    gain, other, grid, by_code = (
        lines.gain(experiment, control, "TBS", value, is_error=True, kind="ranks")
        for experiment, control, value in ((as_paper, "uniform", name), (scaled, "uniform", name),
                                           (scaled, "grid", name), (coded, "grid", f"best_{name}"))
    )  # fmt: skip
    return compare(
        f"TBS lowers {NORMS[name]} on {problem} (×{unit:g}, squared error)", f"{before} → {after}",
        f"{ours[0]} → {ours[1]}; {show_gain(gain, 1 / unit)}; as in the code {show_gain(by_code, 1 / unit)}",
        f"inputs scaled, so that no network gets stuck: over a grid of 16 points {show_gain(grid, 1 / unit)}, over "
        f"uniform points {show_gain(other, 1 / unit)}",
        (gain, by_code), grid, claimed=name != "mse",
    )  # fmt: skip
