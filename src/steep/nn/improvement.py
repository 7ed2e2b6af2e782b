"""What an improvement found: the network, the evidence, and one sentence about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from safetensors.torch import save_file
from torch import nn

from steep._files import write_whole
from steep._html import card
from steep._validation import FloatArray, check_count, one_line
from steep.evidence import NO_GAIN, Evidence, Score, Verdict
from steep.exceptions import InputError, InputTypeError, StorageError
from steep.metrics import Interval
from steep.nn.candidates import Candidate, Training
from steep.nn.head_search import Choice, Final, Kind, Search
from steep.nn.heads import Head
from steep.nn.known import Known
from steep.nn.scoring import MeanScore
from steep.nn.weightings import BALANCED, is_doubted, number_of
from steep.weighting.suspect_labels import Suspects

_ACCURACY = Score.named("accuracy")
# Rows of the table: the kind of a head, whether altered copies and whether reweighting data were used, and whether it
# was held near the original one.
_STAGES: tuple[tuple[str, Kind], ...] = (
    ("original", ("original", False, False, False)),
    ("equal weights", ("equal", False, False, False)),
    ("weighted", ("weighted", False, False, False)),
    ("equal weights, anchored", ("equal", False, False, True)),
    ("weighted, anchored", ("weighted", False, False, True)),
    ("equal weights, augmented", ("equal", True, False, False)),
    ("weighted, augmented", ("weighted", True, False, False)),
    ("equal weights, augmented, anchored", ("equal", True, False, True)),
    ("weighted, augmented, anchored", ("weighted", True, False, True)),
    ("equal weights, reweighting data", ("equal", False, True, False)),
    ("weighted, reweighting data", ("weighted", False, True, False)),
    ("equal weights, reweighting data, anchored", ("equal", False, True, True)),
    ("weighted, reweighting data, anchored", ("weighted", False, True, True)),
)


@dataclass(frozen=True)
class Improvement:
    """The outcome of :func:`steep.nn.improve`.

    Attributes
    ----------
    network : nn.Module
        The chosen network: a copy with a new head, or with the original one where no other was better.
    verdict : Verdict
        What was gained on held-out data, and by what: ``print(verdict)`` shows one sentence, ``verdict.interval``
        is the gain with its 95 % interval, which holds for all heads tried at once. For scores of groups and classes
        it is the gain on samples that the choice was not made by.
    table : DataFrame
        Best head of each kind and the chosen one: held-out score, gain over the original with that interval, and
        settings.
    candidates : DataFrame
        Every head tried, with its held-out score.
    chosen : Candidate
        Settings of the chosen head.
    rescored : float
        The deciding score of ``network`` itself, run on the held-out data once more (on the training
        data, to which its head was fitted, after cross-validation). That it is what the head alone promised is
        checked. NaN where features were given in place of those data: without inputs no network can be run.
    weights : ndarray of shape (n_samples,)
        The weights the chosen head was trained with, one for each training sample: all 1 for equal weights and for
        the original head, the mean of both for the mean of two heads. With altered copies they average one over
        samples and copies together, and those of the samples are given.
    variation : ndarray of shape (n_samples,) or None
        How much the labels vary around each training sample among the features, by the measure and k of the chosen
        head, or of the best weighted head where none was chosen; None where no weights were tried.
    heads : dict of str to Head
        Heads of the rows of ``table``; after cross-validation only that of the chosen row.
    score : Score
        The deciding score in words.
    advice : str or None
        What the data suggest to do next: data the network has not seen, where its training features have collapsed.
    known : Known or None
        Features and targets the heads were fitted to, for :meth:`suspects`.
    """

    network: nn.Module
    verdict: Verdict
    table: pd.DataFrame
    candidates: pd.DataFrame
    chosen: Candidate
    rescored: float
    weights: FloatArray
    variation: FloatArray | None
    heads: dict[str, Head]
    score: Score = _ACCURACY
    advice: str | None = None
    known: Known | None = None

    def __str__(self) -> str:
        told = f"\n\n{self.advice}" if self.advice else ""
        again = (
            f"run again: {self.rescored:.6g}" if self._is_rescored else "not run again: features were given"
        )
        return f"{self.verdict}\n\n{self.table.to_string()}\n\nThe network itself, {again}{told}"

    @property
    def _is_rescored(self) -> bool:
        return not np.isnan(self.rescored)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the gain of the best head of each kind over the original one, with its interval.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; default a new figure.

        Returns
        -------
        Axes
        """
        from steep.plotting import plot_gains

        gains = {
            str(name): Interval(row["gain"], row["gain_low"], row["gain_high"], self.verdict.interval.n)
            for name, row in self.table.to_dict("index").items()
            if name != "original"
        }
        return plot_gains(
            gains,
            chosen="chosen",
            label=f"gain over the original head: {self.gain_label}",
            factor=self.score.factor,
            ax=ax,
        )

    @property
    def gain_label(self) -> str:
        """What a gain is measured in: "points of accuracy", "mean squared error lowered by"."""
        title = self.score.title.removeprefix("the ")
        if self.score.unit:
            return f"points of {title}"
        return f"{title} lowered by" if self.score.is_error else title

    def _repr_html_(self) -> str:
        figures = {"the network itself, run again": float(self.rescored)} if self._is_rescored else {}
        interval = self.verdict.interval
        edge = "plain" if interval.mean == 0 else "sure" if interval.low > 0 else "unsure"
        return card("Improvement", str(self.verdict), figures, self.table, edge=edge)

    def hardest(self, n: int = 10) -> npt.NDArray[np.intp]:
        """Training samples of the largest variation, largest first: unusual, mislabelled or on a border."""
        check_count(n, name="n")
        if self.variation is None:
            raise InputError(
                "hardest needs the variation, and no weighted head was tried; pass a weight_ratio other than 1"
            )
        return np.argsort(-self.variation, kind="stable")[:n]

    def suspects(self, *, n_neighbors: int = 20, n_jobs: int | None = None) -> Suspects:
        """Rank the training labels by how probable it is that they are wrong; see :func:`steep.suspects`.

        The neighbours are those among the features, and the model asked is an equal-weight head that has not seen the
        sample. After ``reweighting=`` the labels are those of the data the chosen head was fitted to.

        Parameters
        ----------
        n_neighbors : int, default 20
            Neighbours asked.
        n_jobs : int, optional
            Threads of the search.

        Returns
        -------
        Suspects
        """
        if self.known is None:
            raise InputError(
                "the features are no longer known; need those the heads were fitted to; run improve"
            )
        return self.known.suspects(n_neighbors=n_neighbors, n_jobs=n_jobs)

    def save(self, path: str | Path) -> None:
        """Save the network's ``state_dict`` as safetensors, with verdict and settings as metadata.

        The file is written whole or not at all.
        """
        state = self.network.state_dict()
        if extra := [key for key, value in state.items() if not isinstance(value, torch.Tensor)]:
            raise InputTypeError(
                f"the state_dict holds {', '.join(extra)}, which is no tensor; safetensors keeps tensors alone; save "
                "result.network.state_dict() by torch.save"
            )
        tensors = {key: value.detach().cpu().clone().contiguous() for key, value in state.items()}
        about = {"verdict": str(self.verdict), "chosen": json.dumps(asdict(self.chosen))}
        try:
            write_whole(path, lambda temporary: save_file(tensors, temporary, metadata=about))
        except OSError as error:
            raise StorageError(
                f"{str(path)!r} cannot be written ({one_line(error)}); need a file in a folder that is there and may "
                "be written; create it first"
            ) from error
        except TypeError as error:
            raise InputTypeError(f"path is a {type(path).__name__}; need a str or a Path") from error


def report(
    search: Search,
    choice: Choice,
    final: Final,
    network: nn.Module,
    rescored: float,
    training: Training,
    where: str,
    advice: str | None = None,
) -> Improvement:
    """Put together what was found."""
    score, table = search.scores[0], evidence_table(search, choice)
    fitted = {
        row: search.heads[search.candidates[i]] for row, i in table_rows(choice).items() if search.heads
    }
    is_broken = not training.original.is_finite
    return Improvement(
        network=network,
        verdict=write_verdict(table, search.candidates, choice, score, where, is_broken=is_broken),
        table=table,
        candidates=search.table(),
        chosen=search.candidates[choice.chosen],
        rescored=score.shown(rescored),
        weights=final.weights,
        variation=final.variation,
        heads=fitted | {"chosen": final.head},
        score=score.words,
        advice=advice,
        known=Known.of(training, search, choice),
    )


def evidence_table(search: Search, choice: Choice) -> pd.DataFrame:
    """One row for the best head of each kind, and one for the chosen head."""
    rows = {
        name: _row(search, i, chosen_gain(choice) if name == "chosen" else gain_of(i, choice.evidence))
        for name, i in table_rows(choice).items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def table_rows(choice: Choice) -> dict[str, int]:
    """Number of the candidate in each row of the table."""
    picked = {name: choice.best.get(kind) for name, kind in _STAGES}
    return {name: number for name, number in picked.items() if number is not None} | {"chosen": choice.chosen}


def _row(search: Search, number: int, gain: Interval) -> dict[str, Any]:
    candidate = search.candidates[number]
    deciding, *others = (
        (score.unit, score.shown(float(row[number])))
        for score, row in zip(search.scores, search.values, strict=True)
    )
    return dict([deciding]) | {
        "gain": gain.mean, "gain_low": gain.low, "gain_high": gain.high,
        "l2": candidate.l2, "weight_ratio": candidate.weight_ratio, "n_neighbors": candidate.n_neighbors,
        "measure": candidate.measure,
    } | dict(others)  # fmt: skip


def gain_of(number: int, evidence: Evidence | None) -> Interval:
    """Gain over the original head; unknown where that head's scores are no numbers."""
    if number == 0:
        return NO_GAIN
    if evidence is None:
        return Interval(np.nan, np.nan, np.nan, 0)
    return evidence.interval(number - 1)


def chosen_gain(choice: Choice) -> Interval:
    """Gain of the chosen head: by samples the choice was not made by, where it was made so."""
    return gain_of(choice.chosen, choice.evidence) if choice.gain is None else choice.gain


def write_verdict(
    table: pd.DataFrame,
    candidates: Sequence[Candidate],
    choice: Choice,
    score: MeanScore,
    where: str,
    *,
    is_broken: bool,
) -> Verdict:
    """Say in one sentence what was gained and by what; ``is_broken`` tells of NaN in the original head."""
    chosen, gain = candidates[choice.chosen], chosen_gain(choice)
    if chosen.kind == "original":
        sentence = _kept(table, choice, score, where)
    elif choice.evidence is None:
        sentence = f"The new head has a {score.unit} of {_cell(table, 'chosen', score.unit):.4g} on {where}."
    else:
        start = _cell(table, "original", score.unit)
        end = start - gain.mean if score.words.is_error else start + gain.mean
        told = score.words.describe(gain, start, where=where)
        course = f"from {_value(start, score)} to {_value(end, score)}"
        sentence = f"The new head {told}, {course}: {_parts(table, chosen, score)}."
    if is_broken:
        scored = ", so that its outputs are no numbers" if choice.evidence is None else ""
        sentence = f"The original head holds NaN or infinite weights{scored}. {sentence}"
    return Verdict(sentence, gain, score.unit, table)


def _cell(table: pd.DataFrame, row: str, column: str) -> float:
    return float(table[column].to_dict()[row])


def _kept(table: pd.DataFrame, choice: Choice, score: MeanScore, where: str) -> str:
    rivals = {name: i for name, i in table_rows(choice).items() if name not in ("original", "chosen")}
    if choice.evidence is None or not rivals:
        return f"The original head is kept: no re-trained head gives numbers on {where}."
    nearest = max(rivals, key=lambda name: _cell(table, name, "gain"))
    gain = gain_of(rivals[nearest], choice.evidence)
    told = score.words.describe(gain, _cell(table, "original", score.unit))
    return (
        f"The original head is kept: on {where} no re-trained head is reliably better; the best one ({nearest}) "
        f"{told}."
    )


def _value(value: float, score: MeanScore) -> str:
    return f"{100 * value:.4g} %" if score.words.unit else f"{value:.4g}"


def gain_parts(table: pd.DataFrame, chosen: Candidate) -> dict[str, float]:
    """Split the chosen head's gain into re-training, augmented copies and weights, in that order."""
    if chosen.kind == "original":
        return {"retraining": 0.0, "augmentation": 0.0, "weighting": 0.0}
    gains: dict[str, float] = table["gain"].to_dict()  # type: ignore[assignment]
    equal = gains["equal weights, reweighting data" if chosen.reweighted else "equal weights"]
    if chosen.anchored and chosen.kind == "equal" and not chosen.augmented:
        equal = gains["chosen"]
    before_weights = gains["equal weights, augmented"] if chosen.augmented else equal
    return {
        "retraining": equal,
        "augmentation": before_weights - equal,
        "weighting": gains["chosen"] - before_weights,
    }


def _parts(table: pd.DataFrame, chosen: Candidate, score: MeanScore) -> str:
    factor, parts = score.words.factor, gain_parts(table, chosen)
    said = [f"{factor * parts['retraining']:.3g} from re-training with equal weights"]
    if chosen.augmented:
        said.append(f"{factor * parts['augmentation']:.3g} from augmented copies")
    if chosen.kind in ("weighted", "blended"):
        said.append(f"{factor * parts['weighting']:.3g} from the weights ({_weights(chosen)})")
    return ", ".join(said)


def _weights(chosen: Candidate) -> str:
    if chosen.blend is not None:
        return f"the mean of two heads: {'; '.join(_weights(part) for part in chosen.blend)}"
    near = ", held near the original head" if chosen.anchored else ""
    return _weighting(chosen) + near


def _weighting(chosen: Candidate) -> str:
    if chosen.kind != "weighted":
        return "the original head" if chosen.kind == "original" else "equal weights"
    if not isinstance(chosen.weight_ratio, str):
        return f"ratio {chosen.weight_ratio:g}"
    if chosen.weight_ratio == BALANCED:
        return "classes of equal mass"
    if is_doubted(chosen.weight_ratio):
        return f"samples by the original head's doubt, γ = {number_of(chosen.weight_ratio):g}"
    return f"contradicted samples with {number_of(chosen.weight_ratio):.0%} of the mass of their class"
