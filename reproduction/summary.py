"""From lines to the page: values by arm, intervals, verdicts, tables and figures.

A gain is signed so that larger is better. :func:`judge` gives every verdict by the rule :data:`RULE`; :data:`HOW` are
the intervals it reads, one for each kind of repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import stats

from reproduction.metrics import Summary, gain_per_model, summarize
from steep._validation import FloatArray
from steep.metrics import Interval, mean_interval, without_rounding

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from reproduction.jobs import Scale

NOT_RUN = "not run"
HOLDS, PROTOCOL, FAILS = "holds", "holds under the paper's protocol only", "does not hold"
NOT_TESTED, NOT_CLAIMED = "not tested at this scale", "not claimed by the paper"
VERDICTS = (HOLDS, PROTOCOL, FAILS, NOT_TESTED, NOT_CLAIMED)
RULE = f"""\
1. *{HOLDS.capitalize()}*: on data that no choice has used, the interval of the gain over the control is above zero.
2. *{PROTOCOL.capitalize()}*: not so, but the gain is significant when measured as the paper, or its code, measures it.
3. *{FAILS.capitalize()}*: neither, and the interval excludes the gain that the paper prints.
4. *{NOT_TESTED.capitalize()}*: no lines, one repeat, less than half of the paper's data, networks over two
   points below the paper's, or an interval with both zero and the printed gain in it.
5. *{NOT_CLAIMED.capitalize()}*: the paper leaves it open, or says itself that there is no gain.
"""
HOW = """\
Intervals are at 95 %. Over starts they are Student's. Repeated splits share their data: √(1/J + n_test/n_train) takes
the place of √(1/J), as in `steep.evidence`. Networks share a test set: its sampling error is added. If networks get
stuck (Table 1, Bateman, surrogates) errors have heavy tails: the interval is that of Wilcoxon's signed ranks. A single
repeat gives no interval, and fewer than six no ranks.
"""

Kind = Literal["starts", "splits", "networks", "ranks"]
# 80 % to train and 20 % to test, as everywhere in the reproduction; pictures of the test sets of MNIST and CIFAR-10.
TEST_RATIO, N_TEST = 0.25, 10_000


def interval_of(gains: FloatArray, kind: Kind = "starts", *, differ: float = 0.0) -> Interval | None:
    """95 % interval of the mean gain, or of its centre by ranks; None for fewer than two repeats, or six ranks.

    Parameters
    ----------
    gains : ndarray of shape (n_repeats,)
        Paired gains, larger is better.
    kind : {"starts", "splits", "networks", "ranks"}
        What the repeats are; see :data:`HOW`.
    differ : float
        For "networks": per cent of the test pictures on which the two compared networks give different answers; at
        least the mean absolute gain.

    Examples
    --------
    >>> gains = np.array([0.1, 0.5, 0.3])
    >>> interval_of(gains[:1]), round(interval_of(gains).low, 2), round(interval_of(gains, "splits").low, 2)
    (None, -0.2, -0.36)
    """
    n = len(gains)
    if n < (6 if kind == "ranks" else 2):
        return None
    if kind == "ranks":
        return _signed_ranks(gains)
    variance = float(np.var(gains, ddof=1)) * (1 / n + (TEST_RATIO if kind == "splits" else 0.0))
    if kind == "networks":
        variance += 100 * max(differ, float(np.abs(gains).mean())) / N_TEST
    mean, half = float(np.mean(gains)), float(stats.t.ppf(0.975, n - 1) * np.sqrt(variance))
    return Interval(mean, mean - half, mean + half, n)


def _signed_ranks(gains: FloatArray) -> Interval:
    """Hodges and Lehmann's centre and the interval of Wilcoxon's test: order statistics of the pairwise means."""
    n = len(gains)
    rows, columns = np.triu_indices(n)
    means = np.sort((gains[rows] + gains[columns]) / 2)
    spread = np.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    cut = max(round(n * (n + 1) / 4 - stats.norm.ppf(0.975) * spread), 1)
    return Interval(float(np.median(means)), float(means[cut - 1]), float(means[-cut]), n)


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
        gains = without_rounding((first - second) if is_error else (second - first), first)
        return interval_of(gains, kind)

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


def judge(
    control: Interval | None, *own: Interval | bool | None, printed: float | None = None, at_scale: bool = True,
    claimed: bool = True,
) -> str:  # fmt: skip
    """Verdict by :data:`RULE`.

    Parameters
    ----------
    control : Interval or None
        Gain over the control that the paper lacks; None when it was not run, or with a single repeat.
    *own : Interval, bool or None
        The gain as the paper, or its code, measures it, or whether there is one.
    printed : float, optional
        The gain that the paper prints, in the same units.
    at_scale : bool
        Whether data and networks are near the paper's: see the fourth line of the rule.
    claimed : bool
        Whether the paper claims a gain.

    Examples
    --------
    >>> gain, doubtful = Interval(0.3, 0.1, 0.5, 10), Interval(0.0, -0.2, 0.2, 10)
    >>> judge(gain), judge(doubtful, gain), judge(doubtful, None, printed=0.4)
    ('holds', "holds under the paper's protocol only", 'does not hold')
    >>> judge(doubtful, printed=0.1), judge(gain, at_scale=False), judge(gain, claimed=False)
    ('not tested at this scale', 'not tested at this scale', 'not claimed by the paper')
    """
    if not claimed:
        return NOT_CLAIMED
    if not at_scale:
        return NOT_TESTED
    if is_gain(control):
        return HOLDS
    if any(is_gain(gain) for gain in own):
        return PROTOCOL
    return FAILS if control and control.n > 1 and control.high < max(printed or 0.0, 0.0) else NOT_TESTED


def is_gain(gain: Interval | bool | None) -> bool:
    """Whether a gain is significant; a single repeat never is."""
    return gain if isinstance(gain, bool) else gain is not None and gain.n > 1 and gain.low > 0


@dataclass(frozen=True)
class Claim:
    """One claim of the paper and what the lines say.

    ``own`` and ``controlled`` say whether there is a significant gain under the paper's own protocol and over the
    control, None where that was not tested.
    """

    claim: str
    paper: str
    printed: str
    honest: str
    verdict: str
    own: bool | None = None
    controlled: bool | None = None


def compare(
    title: str, paper: str, here: str, honest: str, own: Sequence[Interval | bool | None], control: Interval | None,
    **rule: Any,
) -> Claim:  # fmt: skip
    """A claim with the verdict of :func:`judge`."""
    verdict = judge(control, *own, **rule)
    unknown = verdict == NOT_TESTED and not rule.get("at_scale", True)
    return Claim(
        title, paper, here, honest, verdict,
        None if unknown or all(gain is None for gain in own) else any(is_gain(gain) for gain in own),
        None if unknown or control is None else is_gain(control),
    )  # fmt: skip


def seen(title: str, paper: str, said: str, holds: bool | None) -> Claim:
    """A claim without a control: a formula or a picture that is right or not; None leaves it open."""
    verdict = NOT_TESTED if holds is None else HOLDS if holds else FAILS
    return Claim(title, paper, said, "the same", verdict, holds, holds)


def not_run(claim: str, paper: str, *, claimed: bool = True) -> Claim:
    """A claim without lines."""
    return Claim(claim, paper, NOT_RUN, NOT_RUN, NOT_TESTED if claimed else NOT_CLAIMED)


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
