"""What an improvement found: the network, the evidence, and one sentence about it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from safetensors.torch import save_file
from scipy.optimize import minimize_scalar
from torch import nn

from steep._files import write_whole
from steep._suspects import Suspects, suspects
from steep._validation import FloatArray
from steep.evidence import NO_GAIN, Score, Verdict
from steep.exceptions import InputError, InputTypeError
from steep.metrics import Interval, paired_interval
from steep.nn.candidates import HeadCandidate, HeadTraining, ScoredHeads, best_of_rows
from steep.nn.choose import Choice
from steep.nn.heads import Head, HeadTask
from steep.nn.scores import MeanScore, classes_of, log_likelihoods
from steep.nn.weightings import FeatureSpace

_N_BINS = 15
# Logarithms of the temperatures that are looked at.
_RANGE = (-4.0, 4.0)


@dataclass(frozen=True)
class Improvement:
    """The outcome of :func:`steep.nn.improve`.

    Attributes
    ----------
    network : nn.Module
        The chosen network: a copy with a new head, or with the original one if no other was better.
    verdict : Verdict
        The gain with its 95 % interval (``verdict.interval``), on held-out samples that the choice was not made by,
        and its source: ``print(verdict)`` shows it.
    table : DataFrame
        Best head of each kind and the chosen one: held-out score, gain over the original head with its 95 % interval,
        and settings. The gain of the row "chosen" is that of the verdict; those of the other rows are a little too
        high, since they were found to be best on the same samples.
    candidates : DataFrame
        Every head tried, with its held-out score.
    chosen : HeadCandidate
        Settings of the chosen head.
    rescored : float
        The deciding score of ``network`` itself, run on the held-out data once more; an error is raised if it is not
        what the head alone promised. NaN if features were given in place of the data.
    weights : ndarray of shape (n_samples,)
        The weights the chosen head was trained with, one per training sample: all 1 for equal weights and for
        the original head, the mean of both for the mean of two heads.
    heads : dict of str to Head
        Heads of the rows of ``table``.
    score : Score
        The deciding score in words.
    space : FeatureSpace
        Features and labels the heads were fitted to, for :meth:`suspects`.
    calibration : DataFrame or None
        For one class per sample: log loss and calibration error (ECE) of the original and the chosen head, on samples
        that did not make the choice; the temperature T that makes the log loss of outputs / T least, and that log loss.
        The network is left as it is: divide its outputs by T if its probabilities matter.

    Examples
    --------
    >>> import torch
    >>> from steep.nn import HeadSearch, improve
    >>> X = torch.randn(600, 2, generator=torch.Generator().manual_seed(0))
    >>> y = (X[:, 0] * X[:, 1] > 0).long()
    >>> network = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    >>> search = HeadSearch(l2=(1e-4,), weight_ratio=(5.0,))
    >>> result = improve(network, (X[:400], y[:400]), (X[400:], y[400:]), search=search)
    >>> result.verdict.interval.excludes_zero
    True
    """

    network: nn.Module
    verdict: Verdict
    table: pd.DataFrame
    candidates: pd.DataFrame
    chosen: HeadCandidate
    rescored: float
    weights: FloatArray
    heads: dict[str, Head]
    score: Score
    space: FeatureSpace
    calibration: pd.DataFrame | None = None

    def __str__(self) -> str:
        calibration = "" if self.calibration is None else self.calibration.to_string()
        parts = (str(self.verdict), f"{self.table.to_string()}\n{self.note}", calibration)
        return "\n\n".join(part for part in parts if part)

    @property
    def note(self) -> str:
        """Which samples the scores and the stated gain are of."""
        stated = "; the stated gain is of samples that did not" if self.chosen.kind != "original" else ""
        return f"Scores in the table are of all validation samples, which also made the choice{stated}."

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the gain of the best head of each kind over the original one, with its interval.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default a new figure.

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
        what = "points of " if self.score.unit else "lower " if self.score.is_error else ""
        label = f"gain over the original head: {what}{self.score.title.removeprefix('the ')}"
        return plot_gains(gains, chosen="chosen", label=label, factor=self.score.factor, ax=ax)

    def _repr_html_(self) -> str:
        return f"{self.verdict._repr_html_()}<small>{self.note}</small>"

    def suspects(self, *, n_neighbors: int = 20, n_jobs: int | None = None) -> Suspects:
        """Rank the training labels by how probable it is that they are wrong; see :func:`steep.suspects`.

        The neighbours are those among the features; predictions are those of equal-weight heads that have not seen the
        sample. After ``reweighting=`` the labels are those of the data the chosen head was fitted to.

        Parameters
        ----------
        n_neighbors : int, default 20
            Neighbours that are compared.
        n_jobs : int, optional
            Threads of the search.

        Returns
        -------
        Suspects
        """
        samples, task = self.space.samples, self.space.task
        if task.name == "multilabel" or (task.name == "regression" and task.n_outputs > 1):
            raise InputError(
                f"suspects needs one label per sample, got a {task.name} head of {task.n_outputs} outputs; call "
                "steep.suspects once for every column"
            )
        features, outputs = np.asarray(samples.features), self.space.cross_fitted_outputs()
        how: dict[str, Any] = {"embedding": None, "n_neighbors": n_neighbors, "n_jobs": n_jobs}
        if task.name == "regression":
            numbers = outputs[:, 0].astype(np.float64)
            return suspects(features, samples.targets[:, 0], predictions=numbers, task="regression", **how)
        labels = samples.targets.reshape(-1).astype(np.int64)
        shares = task.probabilities(outputs)[:, np.unique(labels)] + 1e-12
        shares /= shares.sum(axis=1, keepdims=True)
        return suspects(features, labels, pred_probs=shares, task="classification", **how)

    def save(self, path: str | Path) -> None:
        """Save the network's ``state_dict`` as safetensors, with verdict and settings as metadata.

        The file is written whole or not at all.
        """
        state = self.network.state_dict()
        if extra := [key for key, value in state.items() if not isinstance(value, torch.Tensor)]:
            raise InputTypeError(
                f"the state_dict holds {', '.join(extra)}, which is not a tensor; safetensors stores only tensors; "
                "save result.network.state_dict() by torch.save"
            )
        tensors = {key: value.detach().cpu().clone().contiguous() for key, value in state.items()}
        about = {"verdict": str(self.verdict), "chosen": json.dumps(asdict(self.chosen))}
        try:
            write_whole(path, lambda temporary: save_file(tensors, temporary, metadata=about))
        except TypeError as error:
            raise InputTypeError(f"path is a {type(path).__name__}; expected a str or a Path") from error


def judged(
    network: nn.Module, rescored: float, found: ScoredHeads, choice: Choice, trainings: list[HeadTraining]
) -> Improvement:
    """What was found, put together."""
    table = evidence_table(found, choice)
    chosen = found.heads[choice.chosen]
    space = trainings[-1 if chosen.candidate.reweighted else 0].space
    parts = [found.heads[found.candidates.index(candidate)] for candidate in chosen.candidate.blend or ()] or [chosen]
    weights = [np.ones(len(space.samples)) if p.weighting is None else p.weighting.weight for p in parts]
    equal = [fitted for fitted in found.heads if fitted.candidate.kind == "equal" and not fitted.candidate.anchored]
    best = max(equal, key=lambda fitted: fitted.values[0])
    calibration = calibration_table(found, choice)
    return Improvement(
        network=network,
        verdict=write_verdict(table, found, choice, calibration),
        table=table,
        candidates=found.table(),
        chosen=chosen.candidate,
        rescored=found.scores[0].shown(rescored) + 0.0,  # not −0
        weights=np.mean(weights, axis=0),
        heads={
            name: found.heads[i].head for name, i in (best_of_rows(found.heads) | {"chosen": choice.chosen}).items()
        },
        score=found.scores[0].words,
        space=replace(space, l2=best.candidate.l2 or 0.0),
        calibration=calibration,
    )


def evidence_table(found: ScoredHeads, choice: Choice) -> pd.DataFrame:
    """One row for the best head of each kind, and one for the chosen head."""
    gains = {0: NO_GAIN} | choice.rows
    rows = {name: _row(found, number, gains[number]) for name, number in best_of_rows(found.heads).items()}
    rows["chosen"] = _row(found, choice.chosen, choice.gain if choice.chosen else NO_GAIN)
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table if table["rule"].notna().any() else table.drop(columns="rule")


def _row(found: ScoredHeads, number: int, gain: Interval) -> dict[str, Any]:
    candidate = found.heads[number].candidate
    deciding, *others = ((score.unit, found.value(number, i)) for i, score in enumerate(found.scores))
    return dict([deciding]) | {
        "gain": gain.mean, "gain_low": gain.low, "gain_high": gain.high, "l2": candidate.l2, "rule": candidate.rule,
        "weight_ratio": candidate.weight_ratio, "n_neighbors": candidate.n_neighbors, "measure": candidate.measure,
    } | dict(others)  # fmt: skip


# ------------------------------------------------------------------------------- the verdict


def write_verdict(
    table: pd.DataFrame, found: ScoredHeads, choice: Choice, calibration: pd.DataFrame | None = None
) -> Verdict:
    """Say what was gained, by what, and at which price."""
    score, chosen, gain = found.scores[0], found.heads[choice.chosen].candidate, choice.gain
    where = f"{len(found.held_out):,} held-out samples"
    if chosen.kind == "original":
        sentence = f"The original head is kept: {_kept(found, choice, where)}."
    else:
        start = found.value(0, 0)
        end = start - gain.mean if score.words.is_error else start + gain.mean
        course = f"from {_value(start, score)} to {_value(end, score)}"
        described = score.words.describe(gain, start, where=where)
        sentence = f"The new head {described}, {course}: {_parts(score, chosen, choice)}."
        sentence = " ".join([sentence, *_others(found, choice), *_calibration(found, choice, calibration)])
    return Verdict(sentence, gain if choice.chosen else NO_GAIN, score.unit, table)


def _kept(found: ScoredHeads, choice: Choice, where: str) -> str:
    score = found.scores[0]
    start = score.shown(found.heads[0].values[0])
    if not choice.is_beaten:
        return f"on {where} no re-trained head is better than its {score.unit} of {_value(start, score)}"
    if choice.doubt is not None:
        return f"{where} cannot tell whether a re-trained one is better; {choice.doubt}. Pass more validation data"
    return (
        f"on {where} no re-trained head is reliably better; the best choice among them, on samples that did not make "
        f"it, {score.words.describe(choice.gain, start)}"
    )


def _value(value: float, score: MeanScore) -> str:
    return f"{100 * value:z.4g} %" if score.words.unit else f"{value:z.4g}"


def _parts(score: MeanScore, chosen: HeadCandidate, choice: Choice) -> str:
    """What the gain comes from; the parts add up to the gain as it is printed."""
    if chosen.kind == "equal" and chosen.layer is None:
        return "all of it from re-training with equal weights"
    total = float(f"{score.words.factor * choice.gain.mean:.3g}")
    decimals = 0 if total == 0 else max(0, 2 - int(np.floor(np.log10(abs(total)))))
    equal = round(score.words.factor * choice.retraining, decimals)
    return (
        f"{equal:z.{decimals}f} from re-training with equal weights and {total - equal:z.{decimals}f} more from the "
        f"choice ({chosen})"
    )


def _others(found: ScoredHeads, choice: Choice) -> list[str]:
    """What happened to the scores that did not decide, on samples that did not make the choice."""
    assert choice.outputs is not None
    sentences = []
    for number, score in list(enumerate(found.scores))[1:]:
        before, after = found.value(0, number), score.shown(score.value(choice.outputs))
        start, end = _value(before, score), _value(after, score)
        course = f"{'rises' if after > before else 'falls'} from {start} to {end}"
        title = score.words.title[0].upper() + score.words.title[1:]
        sentences.append(f"{title} {f'stays at {end}' if start == end else course}.")
    return sentences


def _calibration(found: ScoredHeads, choice: Choice, calibration: pd.DataFrame | None) -> list[str]:
    """A warning if the probabilities are significantly worse than those of the original head."""
    if calibration is None or any(score.name == "neg_log_loss" for score in found.scores):
        return []
    likelihoods, held_out = log_likelihoods(found.task), found.held_out
    assert choice.outputs is not None
    outputs = found.heads[0].head.outputs(held_out.features), choice.outputs
    with np.errstate(invalid="ignore"):  # outputs may be infinite
        old, new = (-likelihoods(own, held_out.targets) for own in outputs)
    if not np.isfinite([old, new]).all() or paired_interval(old, new).low <= 0:
        return []
    temperature, least = calibration.to_numpy()[1, 2:]
    return [
        f"The log loss rises from {old.mean():.4g} to {new.mean():.4g}: its probabilities are less reliable; dividing "
        f"the outputs by {temperature:.3g} gives a log loss of {least:.4g}."
    ]


def calibration_table(found: ScoredHeads, choice: Choice) -> pd.DataFrame | None:
    """Calibration of the original and the chosen head."""
    if not found.task.has_classes:
        return None
    outputs = {"original": found.heads[0].head.outputs(found.held_out.features)}
    outputs["chosen"] = outputs["original"] if choice.outputs is None else choice.outputs
    rows = {name: calibration_of(found.task, own, found.held_out.targets) for name, own in outputs.items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def calibration_of(task: HeadTask, outputs: FloatArray, targets: npt.NDArray[Any]) -> dict[str, float]:
    """Log loss and ECE of outputs, the fitted temperature, and the log loss with it; NaN for outputs not finite.

    log loss    −mean_i log p_i(y_i)
    ECE         Σ_b n_b/n |share right in b − mean confidence in b|, b fifteen bins of equal width of max_c p_c
    T           argmin of the log loss of z / T: above 1 the head is too sure of itself (Guo et al. 2017)

    Examples
    --------
    >>> sure = np.log([[0.99, 0.01]] * 10)  # right in eight of ten
    >>> found = calibration_of(HeadTask("multiclass", 2), sure, np.repeat([0, 1], [8, 2]))
    >>> {name: round(value, 2) for name, value in found.items()}
    {'log loss': 0.93, 'ECE': 0.19, 'temperature': 3.31, 'log loss with it': 0.5}
    """
    names = ("log loss", "ECE", "temperature", "log loss with it")
    if not np.isfinite(outputs).all():
        return dict.fromkeys(names, np.nan)
    likelihoods = log_likelihoods(task)

    def loss(power: float) -> float:
        return -float(likelihoods(outputs / np.exp(power), targets).mean())

    shares = task.probabilities(outputs)
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == classes_of(targets)
    place = np.minimum((confidence * _N_BINS).astype(int), _N_BINS - 1)
    error = np.abs(np.bincount(place, right - confidence, _N_BINS)).sum() / len(right)
    best = minimize_scalar(loss, bounds=_RANGE, method="bounded")
    return dict(zip(names, (loss(0.0), float(error), float(np.exp(best.x)), float(best.fun)), strict=True))
