"""The unit of work of a reproduction: a job, whose lines are computed together.

An experiment (one table or figure) is a list of jobs. A job names the lines it gives, as pairs (arm, seed), the
settings it runs with, and a function that computes all of them at once: forty small networks are one batched
computation, and all heads of one network share its features. A line that is missing is restored by running its job
again; the same batch on the same machine gives the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from reproduction.data import Data

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
    """Lines that are computed together.

    Attributes
    ----------
    experiment, name : str
        The experiment of the lines, and a name of the job that is unique in it.
    lines : tuple of (arm, seed)
        What the job gives.
    run : callable
        ``run(context)`` → result of each line.
    settings : mapping
        What it runs with; written to every line, and compared when a run is resumed.
    """

    experiment: str
    name: str
    lines: tuple[Line, ...]
    run: Callable[[Context], Results] = field(compare=False)
    settings: Mapping[str, Any]
