"""Table 7: Active Bias (AB) and the transfer-learned curriculum (TCL), alone and under VBSW.

ResNet20 on CIFAR-10 without altered pictures and with a constant step, trained plainly, with AB and with TCL. On each of
the three networks the head is re-trained with equal weights and with VBSW. The paper finds that VBSW gains most on TCL
networks and supposes that TCL makes features suited to it. If so the equal-weight head gains less there; if
re-training alone is what helps, it gains as much.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from steep.metrics import gain_per_model, paired_interval
from steep.metrics import summarize as summarize_scores
from steep.paper.appendix import row
from steep.paper.curricula import Curriculum
from steep.paper.data import describe
from steep.paper.heads import HeadPlan, study_network
from steep.paper.jobs import Context, Job, Results, Scale
from steep.paper.pictures import parts_of
from steep.paper.rivals import ActiveBias, TransferCurriculum, easiest_first
from steep.paper.summary import Claim, Lines, Section, judge, markdown, show, show_gain
from steep.paper.training import Recipe, train_network

TITLE = "Table 7: Active Bias and transfer-learned curriculum"
TRAININGS = ("vanilla", "AB", "TCL")
HEADS = ("original", "equal-weight head", "VBSW")
SETTINGS: dict[str, dict[str, Any]] = {
    "smoke": {"networks": 2, "epochs": 1, "n_train": 100, "heads": 2, "head_epochs": 1, "burn_in": 2, "step_length": 1},
    "laptop": {"networks": 3, "epochs": 15, "n_train": 10000, "heads": 10, "head_epochs": 25, "burn_in": 5, "step_length": 100},
    "paper": {"networks": 60, "epochs": 100, "n_train": 50000, "heads": 10, "head_epochs": 25, "burn_in": 10, "step_length": 400},
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
        (f"{training}, {head}", seed)
        for seed in range(numbers["networks"])
        for training in TRAININGS
        for head in HEADS
    ]
    return [
        Job(
            "cifar10",
            f"network {seed}",
            tuple(line for line in lines if line[1] == seed),
            partial(_run, numbers, seed),
            told,
        )
        for seed in range(numbers["networks"])
    ]


def _run(numbers: dict[str, Any], seed: int, context: Context) -> Results:
    parts = parts_of(context.data.cifar10(), n_train=numbers["n_train"], n_held_out=0)
    plan = HeadPlan(row("cifar10"), numbers["heads"], numbers["head_epochs"], {})
    results: Results = {}
    teacher: nn.Module | None = None
    for training in TRAININGS:
        curriculum = _curriculum(training, numbers, parts.train, teacher)
        recipe = Recipe("resnet20", numbers["epochs"], BATCH, LEARNING_RATE, False, False, seed, training)
        network = train_network(
            recipe, *parts.train, context.cache, curriculum=curriculum, progress=context.progress
        )
        teacher = network if teacher is None else teacher
        found = study_network(network, parts.train, parts.held_out, parts.test, plan)
        results |= {(f"{training}, {head}", seed): found[head] for head in HEADS}
    return results


def _curriculum(
    training: str, numbers: dict[str, Any], train: tuple[Tensor, Tensor], teacher: nn.Module | None
) -> Curriculum:
    n = len(train[1])
    if training == "AB":
        return ActiveBias(n, BATCH, burn_in=numbers["burn_in"])
    if training == "TCL":
        from steep.nn import project

        features = project(teacher, train[0], progress=False).features
        return TransferCurriculum(
            easiest_first(features, train[1].numpy()), BATCH, step_length=numbers["step_length"]
        )
    return Curriculum(n, BATCH)


def summarize(lines: Lines) -> Section:
    """The paper's six rows, the control on each network, and whether features or re-training make TCL special."""
    return Section([*(_claim(lines, training) for training in TRAININGS), _synergy(lines)], [_table(lines)])


def _scores(lines: Lines, training: str, head: str, name: str = "accuracy") -> Any:
    return lines.values("cifar10", f"{training}, {head}", name)


def _told(values: Any) -> str:
    if not len(values):
        return "not run"
    return show(summarize_scores(values), digits=4) if len(values) > 1 else show(float(values[0]), digits=4)


def _table(lines: Lines) -> str:
    numbers = lines.settings("cifar10")
    rows = []
    for training in TRAININGS:
        start = _scores(lines, training, "original")
        for head in HEADS:
            gpm = (
                gain_per_model(start, _scores(lines, training, head, "best"))
                if head != "original" and len(start)
                else []
            )
            gain = (
                lines.gain("cifar10", f"{training}, original", f"{training}, {head}", "accuracy")
                if head != "original"
                else None
            )
            rows.append([f"{training}, {head}", _told(_scores(lines, training, head)), _told(gpm) if head != "original" else "",
                         show_gain(gain) if head != "original" else ""])  # fmt: skip
    told = (
        f"{numbers['networks']} networks each, {numbers['epochs']} epochs on {numbers['n_train']} pictures, {numbers['heads']} heads; data {numbers['data']}"
        if numbers
        else "not run"
    )
    return f"{told}\n\n" + markdown(
        [
            "network, head",
            "accuracy: best, mean ± se",
            "gain per model (best head on the test set)",
            "honest gain (mean of heads)",
        ],
        rows,
    )


def _claim(lines: Lines, training: str) -> Claim:
    paper = PAPER[training]
    start, best = (
        _scores(lines, training, "original"),
        _scores(lines, training, "VBSW", "best") if lines.seeds("cifar10", f"{training}, VBSW") else [],
    )
    title = f"VBSW raises the accuracy of {training} training"
    if not len(start) or not len(best):
        return Claim(
            title, f"{paper[0]} → {paper[1]}; gain per model {paper[2]}", "not run", "not run", "not run"
        )
    gpm = gain_per_model(start, best)
    honest = lines.gain("cifar10", f"{training}, equal-weight head", f"{training}, VBSW", "accuracy")
    return Claim(
        title, f"{paper[0]} → {paper[1]}; gain per model {paper[2]}", f"{_told(start)} → {_told(best)}; gain per model {_told(gpm)}",
        f"VBSW − equal-weight head {show_gain(honest)}", judge(honest, float(np.mean(gpm))),
    )  # fmt: skip


def _synergy(lines: Lines) -> Claim:
    """Gain on TCL networks minus gain on plain ones, for the equal-weight head and for VBSW − equal weights."""
    title, paper = (
        "TCL makes features particularly suited to VBSW",
        "gain per model 1.26 on TCL, 0.40 on vanilla",
    )
    if len(_scores(lines, "TCL", "original")) < 2:
        return Claim(title, paper, "not run", "not run", "not run")
    gained = {
        t: {h: _scores(lines, t, h) - _scores(lines, t, "original") for h in HEADS[1:]}
        for t in ("vanilla", "TCL")
    }
    retraining = paired_interval(gained["vanilla"]["equal-weight head"], gained["TCL"]["equal-weight head"])
    extra = {t: gained[t]["VBSW"] - gained[t]["equal-weight head"] for t in gained}
    weights = paired_interval(extra["vanilla"], extra["TCL"])
    printed = float(np.mean(gained["TCL"]["VBSW"]) - np.mean(gained["vanilla"]["VBSW"]))
    return Claim(
        title, paper, f"VBSW gains {np.mean(gained['TCL']['VBSW']):+.2f} on TCL, {np.mean(gained['vanilla']['VBSW']):+.2f} on vanilla",
        f"extra gain on TCL of re-training with equal weights {show_gain(retraining)}, of the weights on top {show_gain(weights)}",
        judge(weights, printed),
    )  # fmt: skip
