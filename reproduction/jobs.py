"""The unit of work of a reproduction: a job, whose lines are computed together.

An experiment (one table or figure) is a list of jobs. A job names the lines it gives, as pairs (arm, seed), the
settings it runs with, and a function that computes all of them at once: forty small networks are one batched
computation. A line that is missing is restored by running its job again, which gives the same values on one machine.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from reproduction.data import Data

EXPERIMENTS: dict[str, str] = {
    "figure1": "figure_gb", "lemma1": "lemma1", "table1": "table1", "figure2": "figure_f1", "table2": "table2",
    "figure3": "figure_tbs", "table3": "table3", "figure4": "figure_doublem", "figure5": "figure_hyp_search",
    "table4": "table4", "table5": "table5", "table6": "table6", "table7": "table7", "surrogates": "surrogates",
    "open": "open_questions",
}  # fmt: skip
# Figures that are drawn from the lines of another experiment.
ALIASES = {"figure6": "table4"}

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")
Line = tuple[str, int]  # arm and seed
Results = dict[Line, dict[str, Any]]


@dataclass(frozen=True)
class Context:
    """What every job may use: data, a folder for trained networks, and the device that trains them."""

    data: Data
    cache: Path
    progress: bool | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class Job:
    """Lines that are computed together."""

    experiment: str
    name: str  # unique in the experiment
    lines: tuple[Line, ...]  # what the job gives
    run: Callable[[Context], Results] = field(compare=False)
    settings: Mapping[str, Any]  # written to every line, and compared when a run is resumed


def module(name: str) -> Any:
    """The file of an experiment: its ``TITLE``, ``jobs(scale)`` that have to be run, and ``summarize(lines)``."""
    return import_module(f"reproduction.{EXPERIMENTS[name]}")
