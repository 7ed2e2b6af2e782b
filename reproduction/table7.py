"""Table 7: Active Bias (AB) and the transfer-learned curriculum (TCL), alone and under VBSW.

ResNet20 on CIFAR-10 without altered pictures and with a constant step, trained plainly, with AB and with TCL. On each
of the three networks the head is re-trained with equal weights and with VBSW. The paper finds that VBSW gains most on
TCL networks and supposes that TCL makes features suited to it. If so the equal-weight head gains less there; if
re-training alone is what helps, it gains as much.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from reproduction.appendix import row
from reproduction.curricula import Curriculum
from reproduction.data import describe
from reproduction.heads import HeadPlan, Labelled, study_network
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.pictures import parts_of
from reproduction.rivals import ActiveBias, TransferCurriculum, easiest_first
from reproduction.summary import Claim, Lines, Section, compare, interval_of, not_run, show_gain
from reproduction.table4 import head_claim, head_table, printed_gain
from reproduction.training import Recipe, train_network

TITLE = "Table 7: Active Bias and transfer-learned curriculum"
TRAININGS = ("vanilla", "AB", "TCL")
HEADS = ("original", "equal-weight head", "VBSW")
SETTINGS: dict[str, dict[str, Any]] = {
    "smoke": {"networks": 2, "epochs": 1, "n_train": 100, "heads": 2, "head_epochs": 1, "burn_in": 2, "step_length": 1},
    "laptop": {
        "networks": 3, "epochs": 10, "n_train": 10000, "heads": 10, "head_epochs": 25, "burn_in": 5,
        "step_length": 100,
    },
    "paper": {
        "networks": 60, "epochs": 100, "n_train": 50000, "heads": 10, "head_epochs": 25, "burn_in": 10,
        "step_length": 400,
    },
}  # fmt: skip
BATCH, LEARNING_RATE = 128, 1e-3
# best, mean ± se; and the gain per model of VBSW on it.
PAPER = {
    "vanilla": ("75.88, 74.55 ± 0.11", "76.57, 74.94 ± 0.10", "0.94, 0.40 ± 0.03"),
    "AB": ("76.33, 75.14 ± 0.09", "76.60, 75.33 ± 0.09", "0.40, 0.14 ± 0.02"),
    "TCL": ("78.54, 77.46 ± 0.07", "79.86, 78.71 ± 0.09", "2.19, 1.26 ± 0.08"),
}


def jobs(scale: Scale) -> list[Job]:
    """One job a seed: TCL needs the plain network of the same seed as its teacher."""
    numbers = SETTINGS[scale]
    told = {**describe(scale), **numbers, "m": row("cifar10").m, "k": row("cifar10").k}
    lines = [
        (f"{training}, {head}", seed) for seed in range(numbers["networks"]) for training in TRAININGS for head in HEADS
    ]
    return [
        Job(
            "cifar10", f"network {seed}", tuple(line for line in lines if line[1] == seed),
            partial(_run, numbers, seed), told,
        )
        for seed in range(numbers["networks"])
    ]  # fmt: skip


def _run(numbers: dict[str, Any], seed: int, context: Context) -> Results:
    parts = parts_of(context.data.cifar10(), n_train=numbers["n_train"], n_held_out=0)
    plan = HeadPlan(row("cifar10"), numbers["heads"], numbers["head_epochs"], {}, context.device)
    results: Results = {}
    teacher: nn.Module | None = None
    for training in TRAININGS:
        network = _network(training, numbers, seed, parts.train, teacher, context)
        teacher = network if teacher is None else teacher
        found = study_network(network, parts.train, parts.held_out, parts.test, plan)
        results |= {(f"{training}, {head}", seed): found[head] for head in HEADS}
    return results


def _network(
    training: str, numbers: dict[str, Any], seed: int, train: Labelled, teacher: nn.Module | None, context: Context
) -> nn.Module:
    """One of the three networks of a seed."""
    recipe = Recipe("resnet20", numbers["epochs"], BATCH, LEARNING_RATE, False, False, seed, training)
    curriculum = _curriculum(training, numbers, train, teacher)
    return train_network(recipe, *train, context, curriculum=curriculum)


def _curriculum(training: str, numbers: dict[str, Any], train: Labelled, teacher: nn.Module | None) -> Curriculum:
    n = len(train[1])
    if training == "AB":
        return ActiveBias(n, BATCH, burn_in=numbers["burn_in"])
    if training == "TCL" and teacher is not None:
        from steep.nn import project

        features = project(teacher, train[0], progress=False).features
        return TransferCurriculum(easiest_first(features, train[1].numpy()), BATCH, step_length=numbers["step_length"])
    return Curriculum(n, BATCH)


def summarize(lines: Lines) -> Section:
    """The paper's six rows, the control on each network, and whether features or re-training make TCL special."""
    claims = [
        head_claim(lines, f"VBSW raises the accuracy of {training} training", "cifar10",
                   f"{start} → {vbsw}; gain per model {gain}", f"{training}, ",
                   start=printed_gain(start), printed=printed_gain(gain))
        for training, (start, vbsw, gain) in PAPER.items()
    ]  # fmt: skip
    return Section([*claims, _synergy(lines)], [_table(lines)])


def _table(lines: Lines) -> str:
    numbers = lines.settings("cifar10")
    told = (
        f"{numbers['networks']} networks each, {numbers['epochs']} epochs on {numbers['n_train']} pictures, "
        f"{numbers['heads']} heads; data {numbers['data']}"
        if numbers
        else "not run"
    )
    tables = [head_table(lines, "cifar10", f"{training}, ", HEADS) for training in TRAININGS]
    return f"{told}\n\n" + "\n\n".join(tables)


def _synergy(lines: Lines) -> Claim:
    """Gain on TCL networks minus gain on plain ones, for the equal-weight head and for VBSW − equal weights."""
    title, paper = ("TCL makes features particularly suited to VBSW", "gain per model 1.26 on TCL, 0.40 on vanilla")
    arms = [f"{training}, {head}" for training in ("vanilla", "TCL") for head in HEADS]
    seeds = sorted(set.intersection(*({*lines.seeds("cifar10", arm)} for arm in arms)))
    if len(seeds) < 2:
        return not_run(title, paper)
    score = {arm: lines.values("cifar10", arm, "accuracy", seeds) for arm in arms}
    retrained, weighted = (
        {t: score[f"{t}, {head}"] - score[f"{t}, {before}"] for t in ("vanilla", "TCL")}
        for before, head in (("original", "equal-weight head"), ("equal-weight head", "VBSW"))
    )
    both = {t: retrained[t] + weighted[t] for t in retrained}
    features = interval_of(weighted["TCL"] - weighted["vanilla"], "networks")
    retraining = interval_of(retrained["TCL"] - retrained["vanilla"], "networks")
    return compare(
        title,
        paper,
        f"VBSW gains {both['TCL'].mean():+.2f} on TCL, {both['vanilla'].mean():+.2f} on vanilla (mean of heads)",
        f"extra gain on TCL: re-training with equal weights {show_gain(retraining)}, the weights on top "
        f"{show_gain(features)}",
        (interval_of(both["TCL"] - both["vanilla"], "networks"),), features, printed=0.86,
        at_scale=bool(score["TCL, original"].mean() > score["vanilla, original"].mean()),  # as TCL's own paper has it
    )  # fmt: skip
