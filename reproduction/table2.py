"""Table 2: Taylor Based Sampling of the Bateman equations with M = 1.

Half of the points uniform, half drawn ∝ Df; a perceptron of 2 × 32 ReLU units, Adam, full batch. The paper trains on
50,000 points for 40,000 epochs, 50 times. With g_θ(u_0, η_0) = max_t ‖f − f_θ‖² and Z = g_BS − g_TBS,

    AEG = E[Z 1{Z>0}],    AEL = E[−Z 1{Z<0}]

The jobs go repeat by repeat, all arms of one before the next: a run that is stopped leaves complete pairs.
"""

import hashlib
import json
import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import steep
from reproduction.ensemble import train_ensemble
from reproduction.fused import predict_perceptron, train_perceptron
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.metrics import average_error_gain, average_error_loss, errors
from reproduction.problems import BATEMAN
from reproduction.summary import Lines, Section, markdown, show, show_gain
from reproduction.verdicts import NOT_RUN, Claim, compare, interval_of
from steep._files import write_whole
from steep._validation import FloatArray
from steep.measures.taylor import multi_indices
from steep.metrics import Interval

TITLE = "Table 2: the Bateman equations"
ORDER, EPSILON, N_GMM, LAYERS, LEARNING_RATE = 2, 5e-4, 10, (32, 32), 1e-3
SMALLEST = 1 / 100  # in the authors' code a point with less than this of the largest variation is dropped
FULL = {"n_points": 50000, "epochs": 40000, "n_test": 50000, "n_grid": 100}
SETTINGS = {"smoke": {"n_points": 60, "epochs": 60, "n_test": 500, "n_grid": 8}, "laptop": FULL, "paper": FULL}
REPEATS = {"smoke": 2, "laptop": 20, "paper": 50}
# L2 (×1e-4), L∞ (×1e-1), AEG and AEL (×1e-2) of the paper.
PAPER = {"uniform": ("1.22 ± 0.13", "5.28 ± 0.47"), "TBS": ("1.14 ± 0.15", "2.96 ± 0.37")}
PAPER_AEG, PAPER_AEL = "2.51 ± 0.07", "0.42 ± 0.008"
EXPERIMENT = "bateman, inputs as in the paper"
FUSED_FROM = 10**8  # points × epochs
Plan = tuple[FloatArray, int]  # points, and the runs of f they cost
Network = Callable[[FloatArray], FloatArray]


def jobs(scale: Scale) -> list[Job]:
    """One network a job, repeat by repeat; AEG and AEL compare it with the uniform one of the same repeat."""
    told = {"problem": "bateman", "inputs": "as in the paper", "layers": LAYERS, "learning_rate": LEARNING_RATE,
            "init": "glorot", **SETTINGS[scale]}  # fmt: skip
    return [
        Job(EXPERIMENT, f"{arm}, {seed}", ((arm, seed),), partial(_run, arm, seed, SETTINGS[scale]), told)
        for seed in range(REPEATS[scale]) for arm in ARMS
    ]  # fmt: skip


def _run(arm: str, seed: int, numbers: dict[str, int], context: Context) -> Results:
    test, truth, grid, on_grid = _tests(numbers["n_test"], numbers["n_grid"])
    flat = grid.reshape(-1, 3)
    found, plan = network(arm, seed, numbers, context)
    outputs = found(flat)
    worst = worst_in_time(outputs, on_grid, grid)
    uniform = found if arm == "uniform" else network("uniform", seed, numbers, context)[0]
    base = worst_in_time(uniform(flat), on_grid, grid)
    result = {"n_points": len(plan[0]), "n_evaluations": plan[1],
              "max_squared_on_grid": float(((outputs - on_grid) ** 2).max()),
              "aeg": average_error_gain(base, worst), "ael": average_error_loss(base, worst)}  # fmt: skip
    return {(arm, seed): {**errors(truth, found(test)), **result}}


@cache
def _tests(n_test: int, n_grid: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Test points drawn uniformly, the grid of starts and times, and the values of both."""
    test, grid = _uniform_points(n_test, np.random.default_rng(2**20)), grid_of(n_grid)
    return test, BATEMAN.function(test), grid, BATEMAN.function(grid.reshape(-1, 3))


def network(arm: str, seed: int, numbers: dict[str, int], context: Context) -> tuple[Network, Plan]:
    """A trained network and its points; the network is kept in the cache, since two jobs compare with it."""
    plan = ARMS[arm](numbers["n_points"], seed)
    shaped_by = ["bateman", "as in the paper", LAYERS, LEARNING_RATE, numbers["epochs"], seed]
    digest = hashlib.sha256(json.dumps(shaped_by).encode() + plan[0].tobytes()).hexdigest()[:16]
    path = Path(context.cache) / f"perceptron-bateman-{arm}-{seed}-{digest}.npz".replace(" ", "-")
    if not path.exists():
        trained = _train(plan[0], numbers["epochs"], seed, context)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda temporary: _save(temporary, trained))
    with np.load(path) as kept:
        weights = [kept[name] for name in sorted(kept.files)]
    return partial(predict_perceptron, weights), plan


def _save(path: Path, weights: list[Any]) -> None:
    with path.open("wb") as file:
        np.savez(file, **{f"layer{number}": weight for number, weight in enumerate(weights)})


def _train(X: FloatArray, epochs: int, seed: int, context: Context) -> list[Any]:
    """The fused loop for long trainings on a CPU, which first has to be compiled; else the ensemble's."""
    given: dict[str, Any] = {"epochs": epochs, "learning_rate": LEARNING_RATE, "progress": context.progress}
    if len(X) * epochs > FUSED_FROM and context.device == "cpu":
        return train_perceptron(X, BATEMAN.function(X), seed=seed, **given)
    ensemble = train_ensemble(X, BATEMAN.function(X), seeds=[seed], layers=LAYERS, device=context.device, **given)
    return [weight[0].cpu().numpy() for weight in ensemble.weights]


def worst_in_time(outputs: FloatArray, truth: FloatArray, grid: FloatArray) -> FloatArray:
    """g_θ of each start: the largest squared error over time."""
    worst: FloatArray = ((outputs - truth) ** 2).sum(axis=1).reshape(grid.shape[:2]).max(axis=1)
    return worst


def grid_of(n: int) -> FloatArray:
    """Starts × times, ``(n², n + 1, 3)``: a grid of (u_0, η_0), each over time."""
    axes = [np.linspace(low, high, n + (axis == 2)) for axis, (low, high) in enumerate(BATEMAN.bounds)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(n * n, n + 1, 3)


def _uniform_points(n: int, generator: np.random.Generator) -> FloatArray:
    low, high = np.array(BATEMAN.bounds).T
    points: FloatArray = low + generator.random((n, 3)) * (high - low)
    return points


def _uniform(n: int, seed: int) -> Plan:
    return _uniform_points(n, np.random.default_rng(seed)), n


def _tbs(n: int, seed: int) -> Plan:
    """Algorithm 1, with derivatives that cost nothing; ε is in the inputs' own units, designs want it per axis."""
    low, high = np.array(BATEMAN.bounds).T
    relative = EPSILON / (high - low) ** 2
    strategy = steep.Taylor(order=ORDER, epsilon=relative, n_components=N_GMM, derivatives=BATEMAN.derivatives)
    return _design(2, strategy, n, seed)


def _tbs_as_coded(n: int, seed: int) -> Plan:
    """Drawn ∝ Σ_k ε^k |∂^k f|/k!, points repeated as often as they have whole hundredths of the largest."""
    start = _uniform_points(n // 2, np.random.default_rng(seed))
    variation = np.zeros(len(start))
    for k in multi_indices(3, ORDER):
        partials = np.abs(np.asarray(BATEMAN.derivatives(start, k[None])).reshape(len(start), -1)).sum(axis=1)
        variation += EPSILON ** k.sum() * partials / np.prod([math.factorial(times) for times in k])
    repeated = np.floor(variation / (variation.max() * SMALLEST))
    sampler = steep.VariationSampler(BATEMAN.bounds, n_components=N_GMM, random_state=seed)
    return np.vstack([start, sampler.fit(start, repeated).sample(n - n // 2)]), n


def _design(divisor: int, strategy: Any, n: int, seed: int) -> Plan:
    """A design that starts with a half or a quarter of its points."""
    first = n // divisor
    plan = steep.design(BATEMAN.function, BATEMAN.bounds, n, n_initial=first, strategy=strategy, random_state=seed)
    return plan.X, plan.n_evaluations


# The third method has the local variance of the values in the place of derivatives.
ARMS: dict[str, Callable[[int, int], Plan]] = {
    "uniform": _uniform, "TBS": _tbs, "TBS as in the code": _tbs_as_coded,
    "variance and new points": partial(_design, 2, steep.Variance(n_components=N_GMM)),
    "default design": partial(_design, 4, None),
}  # fmt: skip


def summarize(lines: Lines) -> Section:
    """Both norms, AEG and AEL, and the paired gain over uniform points."""
    claims = [_claim(lines, "mse", 0, 1e-4), _claim(lines, "max_squared", 1, 1e-1), _claim_aeg(lines)]
    return Section(claims, [_table(lines)])


def _table(lines: Lines) -> str:
    header = ["arm", f"repeats of {REPEATS['paper']}", "points", "runs of f", "mean squared error",
              "largest squared error", "AEG", "AEL", "gain over uniform, squared L2", "gain, squared L∞"]  # fmt: skip
    rows = []
    for arm in ARMS:
        seeds = lines.seeds(EXPERIMENT, arm)
        first = (lines.result(EXPERIMENT, arm, seeds[0]) if seeds else None) or {}
        rows.append(
            [arm, str(len(seeds)), *(str(first.get(name, NOT_RUN)) for name in ("n_points", "n_evaluations"))]
            + [show(lines.interval(EXPERIMENT, arm, name)) for name in ("mse", "max_squared", "aeg", "ael")]
            + ["" if arm == "uniform" else show_gain(_gain(lines, arm, name)) for name in ("mse", "max_squared")]
        )
    return markdown(header, rows)


def _gain(lines: Lines, arm: str, name: str) -> Interval | None:
    return lines.gain(EXPERIMENT, "uniform", arm, name, is_error=True, kind="ranks")


def _claim(lines: Lines, name: str, number: int, unit: float) -> Claim:
    """The paper's own comparison lacks no control: points are drawn again for each repeat, and nothing is chosen."""
    before, after = (PAPER[arm][number] for arm in ("uniform", "TBS"))
    gains = {arm: _gain(lines, arm, name) for arm in list(ARMS)[1:]}
    told = [f"{arm} {show_gain(gain, 1 / unit)}" for arm, gain in gains.items() if gain]
    means = [f"{arm} {show(lines.interval(EXPERIMENT, arm, name), 1 / unit)}" for arm in ARMS]
    return compare(
        f"TBS lowers {('L2', 'L∞')[number]} on Bateman, M = 1 (×{unit:g}, squared error)", f"{before} → {after}",
        f"{len(lines.seeds(EXPERIMENT, 'TBS'))} of {REPEATS['paper']} repeats: {', '.join(means)}",
        f"paired gain over uniform points: {'; '.join(told)}" if told else "too few repeats",
        (gains["TBS"], gains["TBS as in the code"]), gains["TBS"],
        printed=unit * (float(before.split()[0]) - float(after.split()[0])),
    )  # fmt: skip


def _claim_aeg(lines: Lines) -> Claim:
    aeg, ael = (lines.interval(EXPERIMENT, "TBS", name) for name in ("aeg", "ael"))
    balance = lines.values(EXPERIMENT, "TBS", "aeg") - lines.values(EXPERIMENT, "TBS", "ael")
    honest = interval_of(balance, "ranks")
    return compare(
        "TBS gains more than it loses over (u_0, η_0): AEG > AEL (×0.01)", f"AEG {PAPER_AEG}, AEL {PAPER_AEL}",
        f"AEG {show(aeg, 100)}, AEL {show(ael, 100)}", f"AEG − AEL {show_gain(honest, 100)}", (honest,), honest,
        printed=0.0209,
    )  # fmt: skip
