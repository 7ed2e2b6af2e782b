"""From lines to the page: values by arm, paired gains, tables and figures."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reproduction.jobs import Scale
from reproduction.metrics import Summary, gain_per_model, summarize
from reproduction.verdicts import NOT_RUN, Claim, Kind, interval_of
from steep._validation import FloatArray
from steep.metrics import Interval, mean_interval

Drawing = Any  # a figure of matplotlib, which is loaded only to draw


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

    def versions(self) -> dict[str, int]:
        """How many lines each version of the code made."""
        made = [line.get("code") or f"steep {line.get('versions', {}).get('steep', 'unknown')}" for line in self.all]
        return {version: made.count(version) for version in sorted(set(made))}

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

    def gain(
        self, experiment: str, control: str, arm: str, name: str, *, is_error: bool = False, kind: Kind = "starts"
    ) -> Interval | None:
        """Paired gain of an arm over the control, larger is better; None with fewer than two pairs."""
        first, second = self.paired(experiment, control, arm, name)
        gains, largest = (first - second) if is_error else (second - first), np.abs([first, second]).max(initial=0.0)
        return interval_of(np.where(np.abs(gains) < 1e-12 * largest, 0.0, gains), kind)  # rounding is no gain

    def gains_per_model(self, experiment: str, control: str, arm: str, name: str = "best") -> FloatArray:
        """The paper's gain: the best head of each network, on the test set, minus the network itself."""
        both = sorted({*self.seeds(experiment, control)} & {*self.seeds(experiment, arm)})
        if not both:
            return np.array([])
        return gain_per_model(
            self.values(experiment, control, "accuracy", both), self.values(experiment, arm, name, both)
        )

    def summary(self, experiment: str, arm: str, name: str, *, is_error: bool = False) -> Summary | None:
        """Best, mean and standard error of an arm."""
        values = self.values(experiment, arm, name)
        return summarize(values, greater_is_better=not is_error) if values.size > 1 else None

    def interval(self, experiment: str, arm: str, name: str) -> Interval | float | None:
        """Mean of an arm with its 95 % interval; the value itself of a single repeat."""
        values = self.values(experiment, arm, name)
        return mean_interval(values) if values.size > 1 else float(values[0]) if values.size else None


@dataclass(frozen=True)
class Figure:
    """A picture of the page: its file name, its caption and how to draw it."""

    name: str
    caption: str
    draw: Callable[[], Drawing]


@dataclass(frozen=True)
class Section:
    """What the pages show of one experiment."""

    claims: list[Claim] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


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


def printed_gain(text: str) -> float:
    """The mean of "best, mean ± se"."""
    return float(text.split(", ")[1].split()[0])


def show_scores(values: FloatArray) -> str:
    """Best, mean ± standard error of scores in per cent; the score itself where there is one."""
    if not len(values):
        return NOT_RUN
    return show(summarize(values) if len(values) > 1 else float(values[0]), digits=4)


def show_gain(value: Interval | None, factor: float = 1.0) -> str:
    """A gain with its interval, and whether it is significant."""
    if value is None:
        return "no interval"
    doubt = "" if value.excludes_zero else " (not significant)"
    mean = 0.0 if abs(value.mean) < 1e-9 * (value.high - value.low) else value.mean  # rounding
    return f"{mean * factor:+.3g} [{value.low * factor:.3g}, {value.high * factor:.3g}]{doubt}"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if abs(value) < 10 else f"{value:.2f}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table in Markdown."""
    lines = [list(header), ["---"] * len(header), *(list(row) for row in rows)]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    text[1] = "|" + "---|" * len(header)
    return "\n".join(text)
