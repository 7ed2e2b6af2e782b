"""What an improvement found: the network, the evidence, and one honest sentence about it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from safetensors.torch import save_file
from torch import nn

from steep._validation import FloatArray, check_count
from steep.metrics import paired_interval
from steep.nn.candidates import Candidate
from steep.nn.heads import Head
from steep.nn.tasks import HeadTask

_STAGES = (
    ("original", "original", False),
    ("equal weights", "equal", False),
    ("weighted", "weighted", False),
    ("equal weights, augmented", "equal", True),
    ("weighted, augmented", "weighted", True),
)


@dataclass(frozen=True)
class Improvement:
    """The outcome of :func:`steep.nn.improve`.

    Attributes
    ----------
    network : nn.Module
        The chosen network: a copy with a new head, or with the original one where no other was better.
    verdict : str
        One sentence: what was gained on held-out data, and by what.
    table : DataFrame
        Best head of each kind and the chosen one: held-out score, gain over the original with its paired 95 %
        interval, and settings.
    candidates : DataFrame
        Every head tried, with its held-out score.
    chosen : Candidate
        Settings of the chosen head.
    weights : ndarray of shape (n_samples,)
        Weights of the training samples by the chosen settings, or by the best weighted ones where equal weights
        or the original head were chosen.
    heads : dict of str to Head
        Heads of the rows of ``table``; after cross-validation only that of the chosen row.
    """

    network: nn.Module
    verdict: str
    table: pd.DataFrame
    candidates: pd.DataFrame
    chosen: Candidate
    weights: FloatArray
    heads: dict[str, Head]

    def __str__(self) -> str:
        return f"{self.verdict}\n\n{self.table.to_string()}"

    def hardest(self, n: int = 10) -> npt.NDArray[np.intp]:
        """Training samples of the largest weight, largest first: unusual, mislabelled or on a border."""
        return np.argsort(-self.weights, kind="stable")[: check_count(n, name="n")]

    def save(self, path: str | Path) -> None:
        """Save the network's ``state_dict`` as safetensors, with verdict and settings as metadata."""
        tensors = {
            key: value.detach().cpu().clone().contiguous() for key, value in self.network.state_dict().items()
        }
        save_file(
            tensors, path, metadata={"verdict": self.verdict, "chosen": json.dumps(asdict(self.chosen))}
        )


@dataclass(frozen=True)
class Choice:
    """Which candidate was taken, and the best of each kind: numbers of rows of the scores."""

    chosen: int
    best: dict[tuple[str, bool], int]

    def rows(self) -> dict[str, int]:
        """The candidates of the table's rows."""
        picked = {name: self.best.get((kind, augmented)) for name, kind, augmented in _STAGES}
        return {name: number for name, number in picked.items() if number is not None} | {
            "chosen": self.chosen
        }


def choose(candidates: list[Candidate], scores: FloatArray) -> Choice:
    """Choose by held-out scores, leaving the simpler head only for a gain above one standard error.

    Of the equal-weight heads the best is taken; a weighted one takes its place, and the winner that of the
    original head, only if its mean paired gain is larger than the gain's standard error. ``scores`` is
    (n_candidates, n_samples), larger is better; ties go to the stronger λ.
    """
    means = scores.mean(axis=1)
    best: dict[tuple[str, bool], int] = {}
    for number in sorted(range(len(candidates)), key=lambda i: (-means[i], -(candidates[i].l2 or 0.0))):
        best.setdefault((candidates[number].kind, candidates[number].augmented), number)
    original = best[("original", False)]
    chosen = _best_of("equal", best, means)
    weighted = _best_of("weighted", best, means)
    if chosen is None or (weighted is not None and _beats(scores[chosen], scores[weighted])):
        chosen = weighted
    if chosen is None or not _beats(scores[original], scores[chosen]):
        chosen = original
    return Choice(chosen, best)


def _best_of(kind: str, best: dict[tuple[str, bool], int], means: FloatArray) -> int | None:
    numbers = [best[(kind, augmented)] for augmented in (False, True) if (kind, augmented) in best]
    return max(numbers, key=lambda number: means[number]) if numbers else None


def _beats(first: FloatArray, second: FloatArray) -> bool:
    """Whether the mean paired gain is larger than its standard error if there were none (as in McNemar's test)."""
    gain = second - first
    return bool(gain.sum() > np.sqrt((gain**2).sum()) * (1 + 1e-9))


def evidence_table(
    candidates: list[Candidate], scores: FloatArray, choice: Choice, task: HeadTask
) -> pd.DataFrame:
    """One row for the best head of each kind, and one for the chosen head."""
    rows = choice.rows()
    original = choice.best[("original", False)]
    sign = -1.0 if task.name == "regression" else 1.0
    return pd.DataFrame.from_dict(
        {name: _row(candidates[i], scores[i], scores[original], sign, task) for name, i in rows.items()},
        orient="index",
    )


def _row(
    candidate: Candidate, score: FloatArray, original: FloatArray, sign: float, task: HeadTask
) -> dict[str, Any]:
    gain = paired_interval(original, score)
    return {
        task.unit: sign * float(score.mean()), "gain": gain.mean, "gain_low": gain.low, "gain_high": gain.high,
        "l2": candidate.l2, "weight_ratio": candidate.weight_ratio, "n_neighbors": candidate.n_neighbors,
    }  # fmt: skip


def write_verdict(table: pd.DataFrame, chosen: Candidate, task: HeadTask, held_out: str) -> str:
    """Say in one sentence what was gained on held-out data and by what."""
    factor, unit = (
        (100.0, " points of accuracy") if task.unit == "accuracy" else (1.0, " of mean squared error")
    )
    row, start = table.loc["chosen"], table.loc["original"]
    if chosen.kind == "original":
        rivals = table.drop(index=["original", "chosen"])
        best = rivals.sort_values("gain").iloc[-1]
        return (
            f"The original head is kept: on {held_out} no re-trained head gains more than one standard error; the best "
            f"({best.name}) gains {factor * best['gain']:+.3g}{unit} "
            f"(95 % interval {factor * best['gain_low']:+.3g} to {factor * best['gain_high']:+.3g})."
        )
    return (
        f"The new head gains {factor * row['gain']:+.3g}{unit} on {held_out} (95 % interval "
        f"{factor * row['gain_low']:+.3g} to {factor * row['gain_high']:+.3g}; {factor * start[task.unit]:.4g} before, "
        f"{factor * row[task.unit]:.4g} after): {_parts(table, chosen, factor)}."
    )


def gain_parts(table: pd.DataFrame, chosen: Candidate) -> dict[str, float]:
    """Split the chosen head's gain into re-training, augmented copies and weights, in that order."""
    if chosen.kind == "original":
        return {"retraining": 0.0, "augmentation": 0.0, "weighting": 0.0}
    gains: dict[str, float] = table["gain"].to_dict()  # type: ignore[assignment]
    equal = gains["equal weights"]
    before_weights = gains["equal weights, augmented"] if chosen.augmented else equal
    return {
        "retraining": equal,
        "augmentation": before_weights - equal,
        "weighting": gains["chosen"] - before_weights,
    }


def _parts(table: pd.DataFrame, chosen: Candidate, factor: float) -> str:
    parts = gain_parts(table, chosen)
    said = [f"{factor * parts['retraining']:+.3g} from re-training with equal weights"]
    if chosen.augmented:
        said.append(f"{factor * parts['augmentation']:+.3g} from augmented copies")
    if chosen.kind == "weighted":
        said.append(f"{factor * parts['weighting']:+.3g} from the weights (ratio {chosen.weight_ratio:g})")
    return ", ".join(said)
