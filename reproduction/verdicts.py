"""The rule of the verdicts, the intervals it reads, and claims that are judged by it.

A gain is signed so that larger is better. :func:`judge` gives every verdict by the rule that ``reproduction.md``
states, from an interval for each kind of repeat.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from steep._validation import FloatArray
from steep.metrics import Interval

NOT_RUN = "not run"
HOLDS, PROTOCOL, FAILS = "holds", "holds under the paper's protocol only", "does not hold"
NOT_TESTED, NOT_CLAIMED = "not tested at this scale", "not claimed by the paper"
VERDICTS = (HOLDS, PROTOCOL, FAILS, NOT_TESTED, NOT_CLAIMED)

Kind = Literal["starts", "splits", "networks", "ranks"]
# 80 % to train and 20 % to test, as everywhere in the reproduction; pictures of the test sets of MNIST and CIFAR-10.
TEST_RATIO, N_TEST = 0.25, 10_000


def interval_of(gains: FloatArray, kind: Kind = "starts", *, differ: float = 0.0) -> Interval | None:
    """95 % interval of the mean gain, or of its centre by ranks; None for fewer than two repeats, or six ranks.

    ``kind`` is what the repeats are. ``differ``, for "networks", is the per cent of the test pictures on
    which the two compared networks give different answers; at least the mean absolute gain.
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


def judge(
    control: Interval | None, *own: Interval | bool | None, printed: float | None = None, at_scale: bool = True,
    claimed: bool = True,
) -> str:  # fmt: skip
    """Verdict by the rule of ``reproduction.md``.

    ``control`` is the gain over the control that the paper lacks (None if it was not run, or once), ``own`` the gain as
    the paper, or its code, measures it, or whether there is one; ``printed`` is the gain that the paper prints, in the
    same units, and ``at_scale`` whether data and networks are near the paper's (fourth line of the rule).
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
    """One claim of the paper and what the lines say."""

    claim: str
    paper: str
    printed: str
    honest: str
    verdict: str
    own: bool | None = None  # whether there is a significant gain under the paper's own protocol; None: not tested
    controlled: bool | None = None  # and over the control


def compare(
    title: str, paper: str, here: str, honest: str, own: Sequence[Interval | bool | None], control: Interval | None,
    **rule: Any,
) -> Claim:  # fmt: skip
    """A claim with the verdict of :func:`judge`."""
    verdict = judge(control, *own, **rule)
    own_gain = None if all(gain is None for gain in own) else any(is_gain(gain) for gain in own)
    answers = (own_gain, None if control is None else is_gain(control)) if verdict != NOT_TESTED else (None, None)
    return Claim(title, paper, here, honest, verdict, *answers)


def joined(title: str, paper: str, parts: Mapping[str, Claim]) -> Claim:
    """One claim of several parts: it is as good as the worst part that the paper claims and that was tested."""
    claimed = [part for part in parts.values() if part.verdict != NOT_CLAIMED] or list(parts.values())
    tested = [part for part in claimed if part.verdict != NOT_TESTED] or claimed
    own, controlled = ([answer for part in claimed if (answer := getattr(part, which)) is not None]
                       for which in ("own", "controlled"))  # fmt: skip
    here, honest = ("; ".join(f"{name}: {getattr(part, which)}" for name, part in parts.items())
                    for which in ("printed", "honest"))  # fmt: skip
    if all(part.printed == NOT_RUN for part in parts.values()):
        here = honest = NOT_RUN
    worst = max((part.verdict for part in tested), key=VERDICTS.index)
    return Claim(title, paper, here, honest, worst, all(own) if own else None, all(controlled) if controlled else None)


def seen(title: str, paper: str, said: str, holds: bool | None) -> Claim:
    """A claim without a control: a formula or a picture that is right or not; None leaves it open."""
    verdict = NOT_TESTED if holds is None else HOLDS if holds else FAILS
    return Claim(title, paper, said, "the same", verdict, holds, holds)


def not_run(claim: str, paper: str, *, claimed: bool = True) -> Claim:
    """A claim without lines."""
    return Claim(claim, paper, NOT_RUN, NOT_RUN, NOT_TESTED if claimed else NOT_CLAIMED)
