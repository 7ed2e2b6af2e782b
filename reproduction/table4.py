"""Table 4 and Figure difficult: heads of LeNet-5 (MNIST) and ResNet20 (CIFAR-10) re-trained with VBSW.

The paper trains 40 and 50 networks, re-trains each head 10 times and takes the best *on the test set* as the gain per
model. Beside it: the mean over heads, the equal-weight head, and ``improve``, which chooses on held-out pictures.
"""

from functools import partial
from typing import Any

import numpy as np
from torch import nn

from reproduction.appendix import row
from reproduction.data import describe
from reproduction.heads import ARMS, HeadPlan, pack, parts_of, study_network, unpack
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.networks import published_lenet
from reproduction.summary import Drawing, Figure, Lines, Section, markdown, printed_gain, show_gain, show_scores
from reproduction.training import Recipe, train_network
from reproduction.verdicts import NOT_RUN, Claim, compare, interval_of, not_run

TITLE = "Table 4 and Figure difficult: MNIST and CIFAR-10"
GRID = {"l2": [1e-2, 1e-3, 1e-4, 1e-5], "weight_ratio": [0.5, 2.0, 5.0, 40.0], "n_neighbors": [20]}
SMALL_GRID = {"l2": [1e-3], "weight_ratio": [5.0], "n_neighbors": [10]}
MNIST = {"networks": 10, "epochs": 10, "n_train": 50000, "n_held_out": 10000, "heads": 10, "head_epochs": 25}
CIFAR10 = {**MNIST, "networks": 3, "epochs": 16, "n_train": 45000, "n_held_out": 5000}
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "smoke": {
        "mnist": {"networks": 2, "epochs": 3, "n_train": 400, "n_held_out": 100, "heads": 3, "head_epochs": 2},
        "cifar10": {"networks": 1, "epochs": 1, "n_train": 100, "n_held_out": 40, "heads": 2, "head_epochs": 2},
    },
    "laptop": {"mnist": MNIST, "cifar10": CIFAR10},
    "paper": {"mnist": {**MNIST, "networks": 40, "epochs": 100}, "cifar10": {**CIFAR10, "networks": 50, "epochs": 100}},
}
# best, mean ± se of the baseline, of VBSW, and the gain per model.
PAPER = {
    "mnist": ("98.99, 98.84 ± 0.01", "99.09, 98.87 ± 0.01", "0.15, 0.03 ± 0.01"),
    "cifar10": ("91.01, 90.46 ± 0.10", "91.30, 90.64 ± 0.07", "1.65, 0.15 ± 0.04"),
}
# How our networks differ from the paper's.
MORE = {
    "mnist": " (ours: ReLU and Adam, theirs: tanh and SGD)",
    "cifar10": " (ours: 16 epochs of SGD in one cycle, theirs: 100 of Adam)",
}
N_SHOWN = 20
AUTHORS, OF_RECIPE = "mnist, the authors' network", "mnist, the authors' recipe"
# Their recipe: all 60,000 pictures, SGD with a constant step and nothing else.
RECIPE_NETWORKS = {"smoke": 1, "laptop": 10, "paper": 40}
RECIPE_EPOCHS = {"smoke": 1, "laptop": 100, "paper": 100}


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
    told = {**describe(scale), **{key: SETTINGS[scale]["mnist"][key] for key in ("heads", "head_epochs")},
            "m": row("mnist").m, "k": row("mnist").k}  # fmt: skip
    found.append(_job_theirs(AUTHORS, 0, None, told))
    for seed in range(RECIPE_NETWORKS[scale]):
        recipe = Recipe("authors-lenet", RECIPE_EPOCHS[scale], 128, 1e-2, False, False, seed, "mnist", "plain sgd")
        shown = {name: getattr(recipe, name) for name in ("epochs", "batch_size", "learning_rate", "optimizer")}
        found.append(_job_theirs(OF_RECIPE, seed, recipe, {**told, "networks": RECIPE_NETWORKS[scale], **shown}))
    return found


def _job_theirs(experiment: str, seed: int, recipe: Recipe | None, told: dict[str, Any]) -> Job:
    lines = tuple((arm, seed) for arm in ARMS[:3])
    return Job(experiment, f"network {seed}", lines, partial(_run_theirs, recipe, seed, told), told)


def _run(name: str, numbers: dict[str, Any], seed: int, grid: dict[str, Any], context: Context) -> Results:
    data = context.data.mnist() if name == "mnist" else context.data.cifar10()
    parts = parts_of(data, n_train=numbers["n_train"], n_held_out=numbers["n_held_out"])
    network = train_network(recipe_of(name, numbers, seed), *parts.train, context)
    plan = HeadPlan(row(name), numbers["heads"], numbers["head_epochs"], grid, context.device)
    found = study_network(network, parts.train, parts.held_out, parts.test, plan)
    if seed == 0:
        hardest = np.argsort(-found["weights"], kind="stable")[:N_SHOWN]
        found["VBSW"] |= {"hardest": pack(parts.raw[hardest]), "their_labels": parts.train[1][hardest].tolist()}
    return {(arm, seed): found[arm] for arm in ARMS}


def _run_theirs(recipe: Recipe | None, seed: int, numbers: dict[str, Any], context: Context) -> Results:
    """The network that the authors publish, or one of its recipe, trained on all pictures; heads by their protocol."""
    data = context.data.mnist()
    parts = parts_of(data, n_train=len(data.x_train), n_held_out=0)
    plan = HeadPlan(row("mnist"), numbers["heads"], numbers["head_epochs"], {}, context.device)
    if recipe is None:
        network: nn.Module = published_lenet(context.data.authors_lenet())
    else:
        network = train_network(recipe, *parts.train, context)
    found = study_network(network, parts.train, parts.held_out, parts.test, plan)
    return {(arm, seed): found[arm] for arm in ARMS[:3]}


def summarize(lines: Lines) -> Section:
    """Best, mean, se and gain per model, with the control."""
    tables = [f"**{name}**: {counts(lines, name)}\n\n" + head_table(lines, name) for name in PAPER]
    n = len(lines.seeds(OF_RECIPE, ARMS[0]))
    recipe = f"{n} of the {RECIPE_NETWORKS['laptop']} networks planned of their recipe were trained"
    tables.append(f"**{AUTHORS}**; {recipe}\n\n" + head_table(lines, AUTHORS, arms=ARMS[:3]))
    figures = [
        Figure(f"difficult-{name}", f"{name}: training pictures with the largest weights", partial(_draw, lines, name))
        for name in PAPER if "hardest" in (lines.result(name, "VBSW") or {})
    ]  # fmt: skip
    claims = [
        head_claim(lines, f"VBSW raises accuracy: {name}", name, f"{start} → {vbsw}; gain per model {gain}",
                   start=printed_gain(start), printed=printed_gain(gain),
                   more=MORE[name] + (_theirs(lines) if name == "mnist" else ""))
        for name, (start, vbsw, gain) in PAPER.items()
    ]  # fmt: skip
    return Section(claims, tables, figures)


def counts(lines: Lines, experiment: str, arm: str = "original") -> str:
    """How many networks, epochs, pictures and heads."""
    numbers = lines.settings(experiment)
    if not numbers:
        return NOT_RUN
    told = f"{len(lines.seeds(experiment, arm))} networks, {numbers['epochs']} epochs on {numbers['n_train']} pictures"
    return f"{told}, {numbers['heads']} heads each; data {numbers['data']}"


def head_table(lines: Lines, experiment: str, prefix: str = "", arms: tuple[str, ...] = ARMS) -> str:
    """Arms over networks: mean of the heads, the paper's best head, and the paired gain over the network itself."""
    header = ["arm", "accuracy: best, mean ± se", "best head of each network (chosen on the test set)",
              "gain per model (paper)", "gain per model, best epoch (code)", "gain, nothing chosen"]  # fmt: skip
    return markdown(header, [head_row(lines, experiment, prefix, arm) for arm in arms])


def head_row(lines: Lines, experiment: str, prefix: str, arm: str) -> list[str]:
    """One row of :func:`head_table`; ``prefix`` is put before the names of the arms."""
    name, control = prefix + arm, f"{prefix}original"
    cells = [name, show_scores(lines.values(experiment, name, "accuracy")), "", "", "", ""]
    if arm in ("equal-weight head", "VBSW"):
        cells[2] = show_scores(lines.values(experiment, name, "best"))
        cells[3] = show_scores(lines.gains_per_model(experiment, control, name))
        if "best_epoch" in (lines.result(experiment, name, next(iter(lines.seeds(experiment, name)), 0)) or {}):
            cells[4] = show_scores(lines.gains_per_model(experiment, control, name, "best_epoch"))
    if arm != "original":
        cells[5] = show_gain(lines.gain(experiment, control, name, "accuracy", kind="networks"))
    return cells


def head_claim(
    lines: Lines, title: str, experiment: str, paper: str, prefix: str = "", *, start: float, printed: float,
    more: str = "",
) -> Claim:  # fmt: skip
    """VBSW against the network itself (paper) and against the equal-weight head (the control).

    ``start`` is the paper's mean accuracy before: networks more than two points below it do not test the claim.
    """
    original, equal, vbsw, improved = (prefix + arm for arm in ARMS)
    gains = lines.gains_per_model(experiment, original, vbsw)
    first, second = lines.paired(experiment, equal, vbsw, "accuracy")
    if not len(gains) or not len(first):
        return not_run(title, paper)
    control = lines.gains_per_model(experiment, original, equal)
    differ = [(lines.result(experiment, vbsw, seed) or {}).get("differ", 0.0) for seed in lines.seeds(experiment, vbsw)]
    honest = interval_of(second - first, "networks", differ=float(np.mean(differ)))
    told = show_gain(honest) if honest else f"{float(second[0] - first[0]):+.3g} (one network)"
    by_improve = lines.gain(experiment, original, improved, "accuracy", kind="networks")
    return compare(
        title, paper,
        f"{show_scores(lines.values(experiment, original, 'accuracy'))} → "
        f"{show_scores(lines.values(experiment, vbsw, 'best'))}; gain per model {show_scores(gains)} (best head on the "
        f"test set; the equal-weight head gives {show_scores(control)})",
        f"VBSW − equal-weight head {told}{f'; improve − original {show_gain(by_improve)}' if by_improve else ''}{more}",
        (interval_of(gains, "networks"),), honest, printed=printed,
        at_scale=bool(lines.values(experiment, original, "accuracy").mean() > start - 2),
    )  # fmt: skip


def _theirs(lines: Lines) -> str:
    """The authors' own network: heads after the last epoch, and the best epoch on the test set."""
    both = [lines.result(AUTHORS, arm) for arm in ARMS[:3]]
    if not all(both):
        return ""
    start, equal, vbsw = (result or {} for result in both)
    found = interval_of(np.subtract(vbsw["all"], equal["all"]))
    best = [f"{result['best_epoch'] - start['accuracy']:+.2f}" for result in (vbsw, equal)]
    return (
        f"; on the authors' own network {show_gain(found)} over the starts of its heads, and with the best head and "
        f"epoch on the test set VBSW {best[0]}, equal weights {best[1]}"
    )


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
