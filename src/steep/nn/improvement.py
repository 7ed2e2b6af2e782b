"""What an improvement found: the network, the evidence, and one sentence about it."""

from __future__ import annotations

import json
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
from steep._suspects import Suspects
from steep._validation import FloatArray, check_count, one_line
from steep.evidence import NO_GAIN, Score, Verdict
from steep.exceptions import InputError, InputTypeError, StorageError
from steep.metrics import Interval, paired_interval
from steep.nn.candidates import Candidate, Training
from steep.nn.crossed_choice import Choice
from steep.nn.head_search import ORIGINAL, Final, Kind, Search, settings_table
from steep.nn.heads import Head, Samples
from steep.nn.known import Known
from steep.nn.score_names import log_likelihoods
from steep.nn.scoring import MeanScore
from steep.nn.weightings import BALANCED, is_doubted, number_of

_ACCURACY = Score.named("accuracy")
# Rows of the table: the kind of a head, whether reweighting data were used, and whether it was held near the original
# one.
_STAGES: tuple[tuple[str, Kind], ...] = (
    ("original", ("original", False, False)),
    ("equal weights", ("equal", False, False)),
    ("weighted", ("weighted", False, False)),
    ("equal weights, anchored", ("equal", False, True)),
    ("weighted, anchored", ("weighted", False, True)),
    ("equal weights, reweighting data", ("equal", True, False)),
    ("weighted, reweighting data", ("weighted", True, False)),
    ("equal weights, reweighting data, anchored", ("equal", True, True)),
    ("weighted, reweighting data, anchored", ("weighted", True, True)),
)


@dataclass(frozen=True)
class Improvement:
    """The outcome of :func:`steep.nn.improve`.

    Attributes
    ----------
    network : nn.Module
        The chosen network: a copy with a new head, or with the original one where no other was better.
    verdict : Verdict
        What was gained on held-out data, and by what: ``print(verdict)`` shows it, ``verdict.interval`` is the gain
        with its 95 % interval. It is measured on held-out samples that the choice was not made by; see
        :mod:`steep.nn.crossed_choice`.
    table : DataFrame
        Best head of each kind and the chosen one: held-out score, gain over the original head with its 95 % interval,
        and settings. The gain of the row "chosen" is that of the verdict. The other rows are scored on the samples
        that they were found to be best on, so their gains are a little too high.
    candidates : DataFrame
        Every head tried, with its held-out score.
    chosen : Candidate
        Settings of the chosen head.
    rescored : float
        The deciding score of ``network`` itself, run on the held-out data once more. That it is what the head alone
        promised is checked. NaN without held-out data, and where features were given in their place.
    weights : ndarray of shape (n_samples,)
        The weights the chosen head was trained with, one for each training sample: all 1 for equal weights and for
        the original head, the mean of both for the mean of two heads.
    variation : ndarray of shape (n_samples,) or None
        How much the labels vary around each training sample among the features, by the measure and k of the chosen
        head, or of the best weighted head where none was chosen; None where no weights were tried.
    heads : dict of str to Head
        Heads of the rows of ``table``.
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
        again = f"run again: {self.rescored:.6g}" if self._is_rescored else "not run again: no held-out inputs"
        note = f"\n{self.note}" if self.note else ""
        return f"{self.verdict}\n\n{self.table.to_string()}{note}\n\nThe network itself, {again}{told}"

    @property
    def note(self) -> str:
        """Which samples the scores and the stated gain are of; empty without held-out data."""
        if np.isnan(self.table[self.verdict.unit].to_dict()["chosen"]):
            return ""
        has_gain = self.chosen.kind != "original" and np.isfinite(self.verdict.interval.mean)
        stated = "; the stated gain is of samples that did not" if has_gain else ""
        return f"Scores in the table are of all validation samples, which also made the choice{stated}."

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
        note = f"<small>{self.note}</small>" if self.note else ""
        return card("Improvement", str(self.verdict), figures, self.table, edge=edge) + note

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
            raise InputError("the features are no longer known; need those the heads were fitted to; run improve")
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
    held_out: Samples,
    advice: str | None = None,
) -> Improvement:
    """Put together what was found."""
    score, table, rows = search.scores[0], evidence_table(search, choice), table_rows(choice)
    return Improvement(
        network=network,
        verdict=write_verdict(table, search, choice, held_out, is_broken=not training.original.is_finite),
        table=table,
        candidates=search.table(),
        chosen=search.candidates[choice.chosen],
        rescored=score.shown(rescored) + 0.0,  # not −0
        weights=final.weights,
        variation=final.variation,
        heads={row: search.heads[search.candidates[i]] for row, i in rows.items()} | {"chosen": final.head},
        score=score.words,
        advice=advice,
        known=Known.of(training, search),
    )


def report_unjudged(network: nn.Module, training: Training, score: Score) -> Improvement:
    """Say that the gain cannot be estimated, and keep the original head; what is known of the data is kept too."""
    unit = score.title.removeprefix("the ")
    row = {unit: np.nan, "gain": 0.0, "gain_low": 0.0, "gain_high": 0.0}
    table = pd.DataFrame.from_dict({"original": row, "chosen": row}, orient="index")
    sentence = (
        f"The original head is kept: what a new one would gain in {unit} cannot be estimated without held-out data, "
        "because the network was fitted to the training data. Pass validation=, labelled data that it has not seen."
    )
    if not training.original.is_finite:
        sentence = f"The original head holds NaN or infinite weights. {sentence}"
    measured = [w.variation for group in training.groups() for w in group.weightings if w.variation is not None]
    samples, original = training.samples, training.original
    return Improvement(
        network=network,
        verdict=Verdict(sentence, NO_GAIN, unit, table),
        table=table,
        candidates=settings_table([ORIGINAL]).assign(**{unit: np.nan}),
        chosen=ORIGINAL,
        rescored=np.nan,
        weights=np.ones(len(samples)),
        variation=measured[0] if measured else None,
        heads={"original": original, "chosen": original},
        score=score,
        known=Known(samples, training.task, original, training.grid.middle),
    )


def evidence_table(search: Search, choice: Choice) -> pd.DataFrame:
    """One row for the best head of each kind, and one for the chosen head."""
    gains = {0: NO_GAIN} | choice.rows
    rows = {name: _row(search, i, gains[i]) for name, i in table_rows(choice).items() if name != "chosen"}
    rows["chosen"] = _row(search, choice.chosen, choice.gain if choice.chosen else NO_GAIN)
    return pd.DataFrame.from_dict(rows, orient="index")


def table_rows(choice: Choice) -> dict[str, int]:
    """Number of the candidate in each row of the table."""
    picked = {name: choice.best.get(kind) for name, kind in _STAGES}
    return {name: number for name, number in picked.items() if number is not None} | {"chosen": choice.chosen}


def _row(search: Search, number: int, gain: Interval) -> dict[str, Any]:
    candidate = search.candidates[number]
    deciding, *others = (
        (score.unit, score.shown(float(row[number])) + 0.0)  # not −0
        for score, row in zip(search.scores, search.values, strict=True)
    )
    return dict([deciding]) | {
        "gain": gain.mean, "gain_low": gain.low, "gain_high": gain.high,
        "l2": candidate.l2, "weight_ratio": candidate.weight_ratio, "n_neighbors": candidate.n_neighbors,
        "measure": candidate.measure,
    } | dict(others)  # fmt: skip


# ------------------------------------------------------------------------------- the verdict


def write_verdict(
    table: pd.DataFrame, search: Search, choice: Choice, held_out: Samples, *, is_broken: bool
) -> Verdict:
    """Say what was gained and by what, and at which price; ``is_broken`` says that the original head holds NaN."""
    score, chosen, gain = search.scores[0], search.candidates[choice.chosen], choice.gain
    where = f"{len(held_out):,} held-out samples"
    is_comparable = bool(np.isfinite(search.values[0][0]))
    if chosen.kind == "original":
        sentence = _kept(search, choice, where)
    elif not is_comparable:
        sentence = f"The new head has a {score.unit} of {_cell(table, 'chosen', score.unit):.4g} on {where}."
    else:
        start = _cell(table, "original", score.unit)
        end = start - gain.mean if score.words.is_error else start + gain.mean
        course = f"from {_value(start, score)} to {_value(end, score)}"
        described = score.words.describe(gain, start, where=where)
        sentence = f"The new head {described}, {course}: {_parts(choice, chosen, score)}."
        sentence = " ".join([sentence, *_others(search, choice), *_calibration(search, choice, held_out)])
    if is_broken:
        scored = "" if is_comparable else ", so that its outputs are not numbers"
        sentence = f"The original head holds NaN or infinite weights{scored}. {sentence}"
    return Verdict(sentence, gain if choice.chosen else NO_GAIN, score.unit, table)


def _cell(table: pd.DataFrame, row: str, column: str) -> float:
    return float(table[column].to_dict()[row])


def _kept(search: Search, choice: Choice, where: str) -> str:
    score = search.scores[0]
    if not np.isfinite(search.values[0][1:]).any():
        return f"The original head is kept: no re-trained head gives numbers on {where}."
    start = score.shown(float(search.values[0][0]))
    if not choice.is_beaten:
        return (
            f"The original head is kept: on {where} no re-trained head is better than its {score.unit} of "
            f"{_value(start, score)}."
        )
    if choice.doubt is not None:
        return (
            f"The original head is kept: {where} cannot tell whether a re-trained one is better; {choice.doubt}. Pass "
            "more validation data."
        )
    return (
        f"The original head is kept: on {where} no re-trained head is reliably better; the best choice among them, "
        f"on samples that did not make it, {score.words.describe(choice.gain, start)}."
    )


def _value(value: float, score: MeanScore) -> str:
    return f"{100 * value:z.4g} %" if score.words.unit else f"{value:z.4g}"


def _parts(choice: Choice, chosen: Candidate, score: MeanScore) -> str:
    """What the gain comes from; the parts add up to the gain as it is printed."""
    if chosen.kind == "equal":
        return "all of it from re-training with equal weights"
    factor = score.words.factor
    total = float(f"{factor * choice.gain.mean:.3g}")
    decimals = 0 if total == 0 else max(0, 2 - int(np.floor(np.log10(abs(total)))))
    equal = round(factor * choice.retraining, decimals)
    return (
        f"{equal:z.{decimals}f} from re-training with equal weights, {total - equal:z.{decimals}f} from the weights "
        f"({_weights(chosen)})"
    )


def _others(search: Search, choice: Choice) -> list[str]:
    """What happened to the scores that did not decide, on samples that did not make the choice."""
    assert choice.outputs is not None
    return [
        _course(score, *(score.shown(value) for value in (float(row[0]), score.value(choice.outputs))))
        for score, row in zip(search.scores[1:], search.values[1:], strict=True)
    ]


def _course(score: MeanScore, start: float, end: float) -> str:
    title = score.words.title[0].upper() + score.words.title[1:]
    if _value(start, score) == _value(end, score):
        return f"{title} stays at {_value(end, score)}."
    verb = "rises" if end > start else "falls"
    return f"{title} {verb} from {_value(start, score)} to {_value(end, score)}."


def _calibration(search: Search, choice: Choice, held_out: Samples) -> list[str]:
    """A warning where the probabilities are significantly worse than those of the original head."""
    task = search.scores[0].task
    known = {score.name for score in search.scores}
    if task.name not in ("multiclass", "binary") or "neg_log_loss" in known:
        return []
    log_loss = MeanScore("neg_log_loss", task, held_out.targets, log_likelihoods(task))
    assert choice.outputs is not None
    outputs = search.heads[search.candidates[0]].outputs(held_out.features), choice.outputs
    old, new = (-log_loss.keep(own, np.arange(len(held_out))) for own in outputs)
    if not np.isfinite([old, new]).all() or paired_interval(old, new).low <= 0:
        return []
    return [f"The log loss rises from {old.mean():.4g} to {new.mean():.4g}: its probabilities are less reliable."]


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
