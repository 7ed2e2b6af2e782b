"""Odd arguments at the doors of reproduction: they work, or are rejected in one line."""

import random

import numpy as np
import torch

from reproduction import problems
from reproduction.appendix import row
from reproduction.data import Data, StandIns
from reproduction.heads import parts_of
from reproduction.networks import build
from reproduction.rivals import ActiveBias, TransferCurriculum
from reproduction.runner import resolve
from reproduction.table6 import change_labels
from steep.exceptions import SteepError

ODD = [None, -1, 0, 1, 2.5, float("nan"), float("inf"), "", "x", [], [1], [[0.1]], [[0.1, 0.2, 3.0]], np.zeros((0, 3)),
       np.full((2, 3), np.nan), np.ones((2, 3)), np.ones((3, 1)), True, 10**30]  # fmt: skip
DOORS = [
    lambda a, b: problems.runge(a),
    lambda a, b: problems.tanh(a),
    lambda a, b: problems.bateman(a),
    lambda a, b: problems.bateman_euler(a, n_steps=b if not isinstance(b, int) or b < 1000 else 5),
    lambda a, b: problems.bateman_rates(a if not isinstance(a, int) or a < 1000 else 5),
    lambda a, b: row(a),
    lambda a, b: build(a, 0),
    lambda a, b: Data("/nowhere").glue(a),
    lambda a, b: StandIns().glue("RTE", b),
    lambda a, b: ActiveBias(4, 2, burn_in=a),
    lambda a, b: TransferCurriculum(torch.arange(4), 2, start=a, growth=b).size(3),
    lambda a, b: TransferCurriculum(torch.arange(4), 2, step_length=a).size(10**6),
    lambda a, b: change_labels(torch.arange(10), a, seed=b),
    lambda a, b: parts_of(StandIns().glue("RTE"), n_train=a, n_held_out=b),
    lambda a, b: resolve([a]),
]


def test_odd_arguments_work_or_are_refused_in_one_line():
    draw = random.Random(0)
    told = []
    for _ in range(400):
        door, a, b = draw.choice(DOORS), draw.choice(ODD), draw.choice(ODD)
        try:
            door(a, b)
        except SteepError as error:
            told.append(str(error))
    assert len(told) > 200
    assert not [message for message in told if "\n" in message]
