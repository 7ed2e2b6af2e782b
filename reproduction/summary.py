"""From lines to the page: values by arm, claims with their verdict, tables and figures.

One rule gives every verdict. The *honest* gain is the mean of paired differences to the control on data that took no
part in any choice, larger is better:

    holds                     its 95 % interval lies above zero
    holds under conditions    it holds zero, and the gain is significant under the paper's own protocol or in a variant
                              named beside it
    does not hold             otherwise; so too where the honest interval lies below zero
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.metrics import Summary, gain_per_model, summarize
from steep._validation import FloatArray
from steep.metrics import Interval, mean_interval, paired_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from reproduction.jobs import Scale

NOT_RUN = "not run"
HOLDS, CONDITIONS, FAILS = "holds", "holds under conditions", "does not hold"


class Lines:
    """The lines of one experiment at one scale."""

    def __init__(self, lines: Iterable[dict[str, Any]], scale: Scale) -> None:
        self.scale = scale
        self.all = list(lines)
        self._by_arm: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
        for line in self.all:
            self._by_arm.setdefault((line["experiment"], line["arm"]), {})[line["seed"]] = line

    def __len__(self) -> int:
        return len(self.all)

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all lines."""
        return float(sum(line["cpu_seconds"] or 0.0 for line in self.all))

    def seeds(self, experiment: str, arm: str) -> list[int]:
        """Seeds that have a line."""
        return sorted(self._by_arm.get((experiment, arm), {}))

    def settings(self, experiment: str) -> dict[str, Any]:
        """Settings of the first line of an experiment; empty when there is none."""
        return next((dict(line["settings"]) for line in self.all if line["experiment"] == experiment), {})

    def result(self, experiment: str, arm: str, seed: int = 0) -> dict[str, Any] | None:
        """What one line holds, or None."""
        line = self._by_arm.get((experiment, arm), {}).get(seed)
        return None if line is None else dict(line["result"])

    def values(self, experiment: str, arm: str, name: str, seeds: Sequence[int] | None = None) -> FloatArray:
        """One value of the results for each seed; empty when nothing was run."""
        lines = self._by_arm.get((experiment, arm), {})
        wanted = sorted(lines) if seeds is None else seeds
        return np.array([lines[seed]["result"][name] for seed in wanted], dtype=np.float64)

    def paired(self, experiment: str, control: str, arm: str, name: str) -> tuple[FloatArray, FloatArray]:
        """Values of two arms for the seeds that both have."""
        both = sorted({*self.seeds(experiment, control)} & {*self.seeds(experiment, arm)})
        return self.values(experiment, control, name, both), self.values(experiment, arm, name, both)

    def gain(self, experiment: str, control: str, arm: str, name: str, *, is_error: bool = False) -> Interval | None:
        """Mean paired gain of an arm over the control, larger is better; None with fewer than two pairs."""
        first, second = self.paired(experiment, control, arm, name)
        if first.size < 2:
            return None
        return paired_interval(second, first) if is_error else paired_interval(first, second)

    def gains_per_model(self, experiment: str, control: str, arm: str) -> FloatArray:
        """The paper's gain: the best head of each network, on the test set, minus the network itself."""
        both = sorted({*self.seeds(experiment, control)} & {*self.seeds(experiment, arm)})
        if not both:
            return np.array([])
        start = self.values(experiment, control, "accuracy", both)
        return gain_per_model(start, self.values(experiment, arm, "best", both))

    def mean_gain_per_model(self, experiment: str, control: str, arm: str) -> Interval | None:
        """Interval of the paper's gain over networks; a single network has no width."""
        gains = self.gains_per_model(experiment, control, arm)
        if len(gains) == 1:
            return Interval(float(gains[0]), float(gains[0]), float(gains[0]), 1)
        return mean_interval(gains) if len(gains) else None

    def summary(self, experiment: str, arm: str, name: str, *, is_error: bool = False) -> Summary | None:
        """Best, mean and standard error of an arm."""
        values = self.values(experiment, arm, name)
        return summarize(values, greater_is_better=not is_error) if values.size > 1 else None

    def interval(self, experiment: str, arm: str, name: str) -> Interval | None:
        """Mean of an arm with its 95 % interval."""
        values = self.values(experiment, arm, name)
        return mean_interval(values) if values.size > 1 else None


def judge(honest: Interval | None, *elsewhere: Interval | None) -> str:
    """Verdict from the honest gain, and from gains elsewhere: the paper's own protocol, or a variant named beside it.

    Parameters
    ----------
    honest : Interval or None
        Gain over the control, larger is better; None when it was not run.
    *elsewhere : Interval or None
        The gain under the paper's protocol, or under another condition such as scaled inputs.

    Examples
    --------
    >>> gain, doubtful = Interval(0.3, 0.1, 0.5, 10), Interval(0.0, -0.2, 0.2, 10)
    >>> judge(gain), judge(doubtful, gain), judge(doubtful, None)
    ('holds', 'holds under conditions', 'does not hold')
    >>> judge(Interval(-0.3, -0.5, -0.1, 10), gain)
    'does not hold'
    """
    if honest is None:
        return NOT_RUN
    if honest.low > 0:
        return HOLDS
    if honest.high < 0:
        return FAILS
    return CONDITIONS if any(gain is not None and gain.low > 0 for gain in elsewhere) else FAILS


@dataclass(frozen=True)
class Claim:
    """One claim of the paper and what we found."""

    claim: str
    paper: str
    printed: str
    honest: str
    verdict: str


@dataclass(frozen=True)
class Figure:
    """A picture of the page: its file name, its caption and how to draw it."""

    name: str
    caption: str
    draw: Callable[[], Drawing]


@dataclass(frozen=True)
class Section:
    """What the page shows of one experiment."""

    claims: list[Claim] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


def not_run(claim: str, paper: str) -> Claim:
    """A claim without lines."""
    return Claim(claim, paper, NOT_RUN, NOT_RUN, NOT_RUN)


def show(value: Interval | Summary | float | None, factor: float = 1.0, digits: int = 3) -> str:
    """A figure for a cell: mean ± half-width, or best, mean ± standard error."""
    if value is None:
        return NOT_RUN
    if isinstance(value, Interval):
        return f"{_number(value.mean * factor, digits)} ± {value.half_width * factor:.2g}"
    if isinstance(value, Summary):
        best, mean = (_number(part * factor, digits) for part in (value.best, value.mean))
        return f"{best}, {mean} ± {value.se * factor:.2g}"
    return _number(value * factor, digits)


def show_scores(values: FloatArray) -> str:
    """Best, mean ± standard error of scores in per cent; the score itself where there is one."""
    if not len(values):
        return NOT_RUN
    return show(summarize(values) if len(values) > 1 else float(values[0]), digits=4)


def show_gain(value: Interval | None, factor: float = 1.0) -> str:
    """A gain with its interval, and whether it is significant."""
    if value is None:
        return NOT_RUN
    doubt = "" if value.excludes_zero else " (not significant)"
    mean = 0.0 if abs(value.mean) < 1e-9 * (value.high - value.low) else value.mean  # rounding
    return f"{mean * factor:+.3g} [{value.low * factor:.3g}, {value.high * factor:.3g}]{doubt}"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if abs(value) < 10 else f"{value:.2f}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table in Markdown.

    Examples
    --------
    >>> print(markdown(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    lines = [list(header), ["---"] * len(header), *(list(row) for row in rows)]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    text[1] = "|" + "---|" * len(header)
    return "\n".join(text)
