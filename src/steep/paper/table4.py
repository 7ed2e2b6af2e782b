"""Table 4 and Figure difficult: heads of LeNet-5 (MNIST) and ResNet20 (CIFAR-10) re-trained with VBSW.

The paper trains 40 and 50 networks, re-trains each head 10 times and takes the best *on the test set* as the gain per
model. Beside it: the mean over heads, the equal-weight head, and ``improve``, which chooses on held-out pictures.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from steep.metrics import Interval, gain_per_model, paired_interval
from steep.metrics import summarize as summarize_scores
from steep.paper.appendix import row
from steep.paper.data import describe
from steep.paper.heads import ARMS, HeadPlan, study_network
from steep.paper.jobs import Context, Job, Results, Scale
from steep.paper.pictures import pack, parts_of, unpack
from steep.paper.summary import Claim, Figure, Lines, Section, judge, markdown, show, show_gain
from steep.paper.training import Recipe, train_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

TITLE = "Table 4 and Figure difficult: MNIST and CIFAR-10"
GRID = {"l2": [1e-2, 1e-3, 1e-4, 1e-5], "weight_ratio": [0.5, 2.0, 5.0, 40.0], "n_neighbors": [20]}
SMALL_GRID = {"l2": [1e-3], "weight_ratio": [5.0], "n_neighbors": [10]}
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "smoke": {
        "mnist": {"networks": 2, "epochs": 3, "n_train": 400, "n_held_out": 100, "heads": 3, "head_epochs": 2},
        "cifar10": {"networks": 1, "epochs": 1, "n_train": 100, "n_held_out": 40, "heads": 2, "head_epochs": 2},
    },
    "laptop": {
        "mnist": {"networks": 10, "epochs": 10, "n_train": 50000, "n_held_out": 10000, "heads": 10, "head_epochs": 25},
        "cifar10": {"networks": 3, "epochs": 18, "n_train": 45000, "n_held_out": 5000, "heads": 10, "head_epochs": 25},
    },
    "paper": {
        "mnist": {"networks": 40, "epochs": 20, "n_train": 50000, "n_held_out": 10000, "heads": 10, "head_epochs": 25},
        "cifar10": {"networks": 50, "epochs": 200, "n_train": 45000, "n_held_out": 5000, "heads": 10, "head_epochs": 25},
    },
}  # fmt: skip
# best, mean ± se of the baseline, of VBSW, and the gain per model.
PAPER = {
    "mnist": ("98.99, 98.84 ± 0.01", "99.09, 98.87 ± 0.01", "0.15, 0.03 ± 0.01"),
    "cifar10": ("91.01, 90.46 ± 0.10", "91.30, 90.64 ± 0.07", "1.65, 0.15 ± 0.04"),
}
N_SHOWN = 20


def recipe_of(name: str, numbers: dict[str, Any], seed: int) -> Recipe:
    """LeNet-5 by Adam; ResNet20 with altered pictures and one cycle of SGD."""
    if name == "mnist":
        return Recipe("lenet5", numbers["epochs"], 128, 1e-3, True, False, seed, "mnist")
    return Recipe("resnet20", numbers["epochs"], 128, 0.2, True, True, seed, "cifar10", "sgd")


def jobs(scale: Scale) -> list[Job]:
    """One job a network: its training, and all heads on its features."""
    found = []
    for name, numbers in SETTINGS[scale].items():
        recipe = recipe_of(name, numbers, 0)
        told = {**describe(scale), **numbers, "m": row(name).m, "k": row(name).k, "optimizer": recipe.optimizer,
                "learning_rate": recipe.learning_rate, "batch_size": recipe.batch_size}  # fmt: skip
        for seed in range(numbers["networks"]):
            lines = tuple((arm, seed) for arm in ARMS)
            run = partial(_run, name, numbers, seed, SMALL_GRID if scale == "smoke" else GRID)
            found.append(Job(name, f"network {seed}", lines, run, told))
    return found


def _run(name: str, numbers: dict[str, Any], seed: int, grid: dict[str, Any], context: Context) -> Results:
    data = context.data.mnist() if name == "mnist" else context.data.cifar10()
    parts = parts_of(data, n_train=numbers["n_train"], n_held_out=numbers["n_held_out"])
    network = train_network(
        recipe_of(name, numbers, seed), *parts.train, context.cache, progress=context.progress
    )
    plan = HeadPlan(row(name), numbers["heads"], numbers["head_epochs"], grid)
    found = study_network(network, parts.train, parts.held_out, parts.test, plan)
    if seed == 0:
        hardest = np.argsort(-found["weights"], kind="stable")[:N_SHOWN]
        found["VBSW"] |= {
            "hardest": pack(parts.raw[hardest]),
            "their_labels": parts.train[1][hardest].tolist(),
        }
    return {(arm, seed): found[arm] for arm in ARMS}


def summarize(lines: Lines) -> Section:
    """Best, mean, se and gain per model, with the control."""
    tables = [f"**{name}**: {_told(lines, name)}\n\n" + head_table(lines, name) for name in PAPER]
    figures = [
        Figure(f"difficult-{name}", f"{name}: training pictures with the largest weights", partial(_draw, lines, name))
        for name in PAPER if "hardest" in (lines.result(name, "VBSW") or {})
    ]  # fmt: skip
    return Section(
        [head_claim(lines, name, name, *PAPER[name][:2], PAPER[name][2]) for name in PAPER], tables, figures
    )


def _told(lines: Lines, name: str) -> str:
    numbers = lines.settings(name)
    if not numbers:
        return "not run"
    return (f"{len(lines.seeds(name, 'original'))} networks, {numbers['epochs']} epochs on {numbers['n_train']} pictures, "
            f"{numbers['heads']} heads each; data {numbers['data']}")  # fmt: skip


def head_table(lines: Lines, experiment: str, arms: tuple[str, ...] = ARMS, control: str = "original") -> str:
    """Arms over networks: mean of the heads, the paper's best head, and the paired gain over the network itself."""
    rows = []
    for arm in arms:
        best = _best(lines, experiment, arm)
        gain = lines.gain(experiment, control, arm, "accuracy") if arm != control else None
        gpm = _gain_per_model(lines, experiment, control, arm) if best is not None else None
        rows.append([arm, _summary(lines.values(experiment, arm, "accuracy")), "" if best is None else _summary(best),
                     "" if gpm is None else _summary(gpm), "" if arm == control else show_gain(gain)])  # fmt: skip
    header = ["arm", "accuracy: best, mean ± se", "best head of each network (chosen on the test set)",
              "gain per model (paper)", f"honest gain over {control}"]  # fmt: skip
    return markdown(header, rows)


def _best(lines: Lines, experiment: str, arm: str) -> Any:
    if "best" not in (lines.result(experiment, arm, next(iter(lines.seeds(experiment, arm)), 0)) or {}):
        return None
    return lines.values(experiment, arm, "best")


def _gain_per_model(lines: Lines, experiment: str, control: str, arm: str) -> Any:
    seeds = sorted({*lines.seeds(experiment, control)} & {*lines.seeds(experiment, arm)})
    start, best = (
        lines.values(experiment, control, "accuracy", seeds),
        lines.values(experiment, arm, "best", seeds),
    )
    return gain_per_model(start, best) if len(seeds) else np.array([])


def _summary(values: Any) -> str:
    if not len(values):
        return "not run"
    return show(summarize_scores(values), digits=4) if len(values) > 1 else show(float(values[0]), digits=4)


def head_claim(lines: Lines, title: str, experiment: str, baseline: str, vbsw: str, gain: str = "") -> Claim:
    """VBSW against the network itself (paper) and against the equal-weight head (honest)."""
    original = lines.values(experiment, "original", "accuracy")
    best = _best(lines, experiment, "VBSW")
    if best is None or not len(original):
        return Claim(
            f"VBSW raises accuracy: {title}", f"{baseline} → {vbsw}", "not run", "not run", "not run"
        )
    gpm = _gain_per_model(lines, experiment, "original", "VBSW")
    control = _gain_per_model(lines, experiment, "original", "equal-weight head")
    honest = lines.gain(experiment, "equal-weight head", "VBSW", "accuracy")
    among_heads = _gain_of_one(lines, experiment) if honest is None else None
    chosen = lines.gain(experiment, "original", "improve", "accuracy")
    improved = lines.values(experiment, "improve", "accuracy")
    told = show_gain(honest) if honest else f"{show_gain(among_heads)} over the heads of one network"
    ours = (
        show_gain(chosen)
        if chosen
        else f"{improved[0] - original[0]:+.3g} (one network)"
        if len(improved)
        else "not run"
    )
    return Claim(
        f"VBSW raises accuracy: {title}",
        f"{baseline} → {vbsw}" + (f"; gain per model {gain}" if gain else ""),
        f"{_summary(original)} → {_summary(best)}; gain per model {_summary(gpm)} (best of heads on the test set; the "
        f"equal-weight head gives {_summary(control)})",
        f"VBSW − equal-weight head {told}; improve − original {ours}",
        judge(honest or among_heads, float(np.mean(gpm))),
    )


def _gain_of_one(lines: Lines, experiment: str) -> Interval | None:
    """With a single network the pairs are its heads, start by start: this says nothing about other networks."""
    seed = lines.seeds(experiment, "VBSW")[0]
    equal, vbsw = (
        np.array((lines.result(experiment, arm, seed) or {"all": []})["all"])
        for arm in ("equal-weight head", "VBSW")
    )
    return paired_interval(equal, vbsw) if 1 < len(equal) == len(vbsw) else None


def _draw(lines: Lines, name: str) -> Drawing:
    from matplotlib import pyplot

    result = lines.result(name, "VBSW") or {}
    pictures = unpack(result["hardest"])
    figure, axes = pyplot.subplots(2, N_SHOWN // 2, figsize=(N_SHOWN / 2 * 0.9, 2.2), layout="constrained")
    for ax, picture, label in zip(axes.ravel(), pictures, result["their_labels"], strict=True):
        ax.imshow(picture, cmap="gray_r" if picture.ndim == 2 else None)
        ax.set_title(str(label), fontsize=8)
        ax.axis("off")
    return figure
