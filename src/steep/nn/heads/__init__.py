"""Heads: weighted linear models on features, solved as the convex problems they are, or by the paper's Adam."""

from steep.nn.heads.fitting import (
    CANDIDATE_TOLERANCE,
    Adam,
    HeadGrid,
    HeadSamples,
    fit_adam,
    fit_head,
    seconds_of_a_head,
)
from steep.nn.heads.problem import Head, HeadProblem, fit_logistic, ridge_heads
from steep.nn.heads.task import HeadTask, TaskName, find_task

__all__ = [
    "CANDIDATE_TOLERANCE", "Adam", "Head", "HeadGrid", "HeadProblem", "HeadSamples", "HeadTask", "TaskName",
    "find_task", "fit_adam", "fit_head", "fit_logistic", "ridge_heads", "seconds_of_a_head",
]  # fmt: skip
