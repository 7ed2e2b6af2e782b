"""Table 6: label noise. ResNet20 on CIFAR-10 with 10 to 40 % of the training labels changed at random.

The test set is clean. ``improve`` chooses on held-out pictures whose labels are as noisy as the others: no one has
clean ones in practice.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from reproduction.appendix import row
from reproduction.data import describe
from reproduction.heads import ARMS, HeadPlan, parts_of, study_network
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.summary import Lines, Section, printed_gain
from reproduction.table4 import GRID, SMALL_GRID, counts, head_claim, head_table
from reproduction.training import Recipe, train_network
from reproduction.verdicts import joined
from steep._validation import check_count, check_real

TITLE = "Table 6: label noise on CIFAR-10"
NOISE = (10, 20, 30, 40)
LAPTOP = {"noise": [*NOISE], "networks": 1, "epochs": 15, "n_train": 10000, "n_held_out": 2000, "heads": 10,
          "head_epochs": 25}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "smoke": {**LAPTOP, "noise": [10, 40], "epochs": 1, "n_train": 100, "n_held_out": 40, "heads": 2, "head_epochs": 1},
    "laptop": LAPTOP, "paper": {**LAPTOP, "epochs": 200, "n_train": 45000, "n_held_out": 5000, "heads": 30},
}  # fmt: skip
# Accuracy of the network, and best, mean ± se of 30 heads.
PAPER = {
    10: ("87.43", "87.76, 87.63 ± 0.01"), 20: ("85.75", "86.03, 85.89 ± 0.01"), 30: ("84.05", "84.35, 84.18 ± 0.02"),
    40: ("81.79", "82.48, 82.32 ± 0.02"),
}  # fmt: skip


def jobs(scale: Scale) -> list[Job]:
    """One job for each noise level and network."""
    numbers = SETTINGS[scale]
    told = {**describe(scale), **numbers, "m": row("cifar10").m, "k": row("cifar10").k}
    return [
        Job(f"noise {noise} %", f"network {seed}", tuple((arm, seed) for arm in ARMS),
            partial(_run, noise, numbers, seed, SMALL_GRID if scale == "smoke" else GRID), told)
        for noise in numbers["noise"] for seed in range(numbers["networks"])
    ]  # fmt: skip


def change_labels(labels: Tensor, noise: int, *, seed: int, n_classes: int = 10) -> Tensor:
    """Give ``noise`` per cent of the samples another class at random."""
    check_real(noise, name="noise", minimum=0.0, maximum=100.0)
    generator = torch.Generator().manual_seed(check_count(seed, name="seed", minimum=0))
    chosen = torch.randperm(len(labels), generator=generator)[: round(len(labels) * noise / 100)]
    changed = labels.clone()
    shift = torch.randint(1, n_classes, (len(chosen),), generator=generator)
    changed[chosen] = (labels[chosen] + shift) % n_classes
    return changed


def _run(noise: int, numbers: dict[str, Any], seed: int, grid: dict[str, Any], context: Context) -> Results:
    parts = parts_of(context.data.cifar10(), n_train=numbers["n_train"], n_held_out=numbers["n_held_out"])
    train = parts.train[0], change_labels(parts.train[1], noise, seed=seed)
    held_out = parts.held_out[0], change_labels(parts.held_out[1], noise, seed=seed + 1)
    recipe = Recipe("resnet20", numbers["epochs"], 128, 0.1, True, True, seed, f"noise-{noise}", "sgd")
    network = train_network(recipe, *train, context)
    plan = HeadPlan(row("cifar10"), numbers["heads"], numbers["head_epochs"], grid, context.device)
    found = study_network(network, train, held_out, parts.test, plan)
    return {(arm, seed): found[arm] for arm in ARMS}


def summarize(lines: Lines) -> Section:
    """One claim over all noise levels, and a table for each."""
    parts, tables = {}, []
    for noise, (start, vbsw) in PAPER.items():
        experiment = f"noise {noise} %"
        gain = printed_gain(vbsw) - float(start)
        parts[f"{noise} %"] = head_claim(lines, "", experiment, "", start=float(start), printed=gain)
        tables.append(f"**{experiment}**: {counts(lines, experiment)}\n\n" + head_table(lines, experiment))
    paper = "; ".join(f"{noise} %: {start} → {vbsw}" for noise, (start, vbsw) in PAPER.items())
    return Section([joined("VBSW raises accuracy on CIFAR-10 with wrong labels", paper, parts)], tables)
