"""Table 7: Active Bias (AB) and the transfer-learned curriculum (TCL), alone and under VBSW.

ResNet20 on CIFAR-10 without altered pictures and with a constant step, trained plainly, with AB and with TCL. On each
of the three networks the head is re-trained with equal weights and with VBSW. The paper finds that VBSW gains most on
TCL networks and supposes that TCL makes features suited to it. If so the equal-weight head gains less there; if
re-training alone is what helps, it gains as much.
"""

from functools import partial
from typing import Any

from torch import nn

from reproduction.appendix import row
from reproduction.data import describe
from reproduction.heads import HeadPlan, Labelled, parts_of, study_network
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.rivals import ActiveBias, Curriculum, TransferCurriculum, easiest_first
from reproduction.summary import Lines, Section, printed_gain, show_gain
from reproduction.table4 import counts, head_claim, head_table
from reproduction.training import Recipe, train_network
from reproduction.verdicts import Claim, compare, interval_of, joined, not_run
from steep.nn import project

TITLE = "Table 7: Active Bias and transfer-learned curriculum"
TRAININGS = ("vanilla", "AB", "TCL")
HEADS = ("original", "equal-weight head", "VBSW")
LAPTOP = {"networks": 3, "epochs": 10, "n_train": 10000, "heads": 10, "head_epochs": 25, "burn_in": 5,
          "step_length": 100}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "smoke": {"networks": 2, "epochs": 1, "n_train": 100, "heads": 2, "head_epochs": 1, "burn_in": 2, "step_length": 1},
    "laptop": LAPTOP,
    "paper": {**LAPTOP, "networks": 60, "epochs": 100, "n_train": 50000, "burn_in": 10, "step_length": 400},
}
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
    found = []
    for seed in range(numbers["networks"]):
        lines = tuple((f"{training}, {head}", seed) for training in TRAININGS for head in HEADS)
        found.append(Job("cifar10", f"network {seed}", lines, partial(_run, numbers, seed), told))
    return found


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
    plan = Curriculum(len(train[1]), BATCH)
    if training == "AB":
        plan = ActiveBias(len(train[1]), BATCH, burn_in=numbers["burn_in"])
    if training == "TCL" and teacher is not None:
        order = easiest_first(project(teacher, train[0]).features, train[1].numpy())
        plan = TransferCurriculum(order, BATCH, step_length=numbers["step_length"])
    return train_network(recipe, *train, context, curriculum=plan)


def summarize(lines: Lines) -> Section:
    """The paper's six rows, the control on each network, and whether features or re-training make TCL special."""
    parts = {
        training: head_claim(lines, "", "cifar10", "", f"{training}, ", start=printed_gain(start),
                             printed=printed_gain(gain))
        for training, (start, _, gain) in PAPER.items()
    }  # fmt: skip
    paper = "; ".join(f"{name}: {start} → {vbsw}; gain per model {gain}" for name, (start, vbsw, gain) in PAPER.items())
    claim = joined("VBSW raises accuracy on top of plain training, Active Bias and TCL", paper, parts)
    tables = [counts(lines, "cifar10", "vanilla, original")]
    tables += [head_table(lines, "cifar10", f"{training}, ", HEADS) for training in TRAININGS]
    return Section([claim, _synergy(lines)], tables)


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
        title, paper,
        f"VBSW gains {both['TCL'].mean():+.2f} on TCL, {both['vanilla'].mean():+.2f} on vanilla (mean of heads)",
        f"extra gain on TCL: re-training with equal weights {show_gain(retraining)}, the weights on top "
        f"{show_gain(features)}",
        (interval_of(both["TCL"] - both["vanilla"], "networks"),), features, printed=0.86,
        at_scale=bool(score["TCL, original"].mean() > score["vanilla, original"].mean()),  # as TCL's own paper has it
    )  # fmt: skip
