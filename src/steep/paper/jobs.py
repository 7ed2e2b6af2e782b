"""The unit of work of a reproduction: a job, whose lines are computed together.

An experiment (one table or figure) is a list of jobs. A job names the lines it gives, as pairs (arm, seed), the
settings it runs with, and a function that computes all of them at once: forty small networks are one batched
computation, and all heads of one network share its features. A line that is missing is restored by running its job
again; the same batch on the same machine gives the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from steep._progress import progress
from steep.paper.data import Data

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")
Line = tuple[str, int]  # arm and seed
Results = dict[Line, dict[str, Any]]


@dataclass(frozen=True)
class Context:
    """What every job may use: data, a folder for trained networks, and the part of it a trial asks for."""

    data: Data
    cache: Path
    progress: bool | None = None
    only: str | None = None

    def parts(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the parts of a job one after another; in a trial only the one it asks for.

        Examples
        --------
        >>> list(Context(Data(), Path(), only="b").parts("abc"))
        ['b']
        """
        if self.only is not None:
            yield self.only
            return
        names = list(names)
        yield from progress(names, total=len(names), label="parts", shown=self.progress)

    def does(self, part: str) -> bool:
        """Whether a part is to be run: in a trial only the one it asks for."""
        return self.only in (None, part)


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
    parts : tuple of str
        What it does one after another and a trial may start at, as ``context.only``; what such a run returns is of
        no use. Empty when all arms are computed at once, or in no time.
    """

    experiment: str
    name: str
    lines: tuple[Line, ...]
    run: Callable[[Context], Results] = field(compare=False)
    settings: Mapping[str, Any]
    parts: tuple[str, ...] = ()
