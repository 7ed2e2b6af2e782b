"""Run the joined network for real, and compare it with what its head alone promised.

Candidates are scored by W z + b on stored features. What counts is the network a user gets: it is run on the same
data once more. If it does not say what its head says, its figures would be those of another network, and an error is
raised in place of a verdict.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from steep._progress import progress_bar
from steep.exceptions import FunctionError
from steep.nn._random import kept_random_state
from steep.nn.batches import iterate_batches, label_array, move, n_samples
from steep.nn.heads import Head, HeadTask, Samples
from steep.nn.network import Split, output_logits, response_of, same_up_to_rounding, undisturbed
from steep.nn.projection import device_of
from steep.nn.scoring import MeanScore

# Where 0 and 1 part in the output of a sigmoid head, by what follows it.
_THRESHOLD = {"logits": 0.0, "sigmoid": 0.5, "softmax": 0.5, "log-softmax": float(np.log(0.5))}
# Outputs that differ by rounding may put a sample on either side of a border: this share of the samples, and this
# share of a squared error, is let pass. Half precision keeps three digits.
_ROUNDING, _ROUNDING_HALF = 2e-3, 3e-2
_UNITS = {"regression": "mean squared error"}


def rescore(
    parts: Split,
    joined: nn.Module,
    head: Head,
    data: Any,
    known: Samples,
    score: MeanScore,
    *,
    batch_size: int | None = None,
    progress: bool | None = None,
    seed: int = 0,
) -> float:
    """Score of the joined network on the data, larger is better.

    Parameters
    ----------
    parts, joined, head
        The split network, the copy with the new head, and that head.
    data : as for :func:`project`
        What the head was scored on.
    known : Samples
        Features and targets of the same data, from the first pass.
    score : MeanScore
        The score that decided, on those samples.
    batch_size, progress, seed
        As in the first pass.

    Returns
    -------
    float
    """
    whole = Split(joined, parts.name, parts.forward)
    task = score.task
    scores: list[npt.NDArray[Any]] = []
    logits: list[npt.NDArray[Any]] = []
    seen: list[npt.NDArray[Any]] = []
    with (
        kept_random_state(joined, seed=seed),
        undisturbed(joined),
        torch.no_grad(),
        progress_bar(total=n_samples(data), label="re-scoring", shown=progress) as bar,
    ):
        for inputs, labels in iterate_batches(data, batch_size):
            targets = task.targets(label_array(labels))
            found_scores, found_logits = _batch_scores(whole, head, move(inputs, device_of(whole)), targets, task)
            scores.append(found_scores)
            logits.append(found_logits)
            seen.append(targets)
            bar.update(len(targets))
    found = np.concatenate(scores)
    is_repeated = np.array_equal(np.concatenate(seen), known.targets)
    promised = task.scores(head.outputs(known.features), known.targets)
    _compare(found, promised, whole, task, is_repeated=is_repeated)
    return score.value(np.concatenate(logits)) if is_repeated else score.value(head.outputs(known.features))


def _batch_scores(
    whole: Split, head: Head, inputs: Any, targets: npt.NDArray[Any], task: HeadTask
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Scores by the output of the network itself, which must be what its head says or a known response to it.

    What its head says is returned beside them.
    """
    seen = whole.run(inputs)
    features = seen.features.float() if seen.features.dtype != torch.float64 else seen.features
    promised = torch.from_numpy(head.outputs(features.cpu().numpy()))
    if not same_up_to_rounding(seen.logits.cpu(), promised):
        raise FunctionError(
            f"head {whole.name!r} of the joined network does not return what was fitted; need a head that is W z + b "
            "for every batch; remove what changes it, or name another layer by head='...'"
        )
    output = output_logits(seen.output)
    response = response_of(whole.name, seen.logits, output)
    values = output.float().cpu().numpy().reshape(len(targets), -1)
    return (
        task.scores(values, targets, threshold=_THRESHOLD[response]),
        seen.logits.float().cpu().numpy().reshape(len(targets), -1),
    )


def _compare(
    found: npt.NDArray[Any], promised: npt.NDArray[Any], whole: Split, task: HeadTask, *, is_repeated: bool
) -> None:
    """Raise if the network scores other than its head beyond rounding."""
    ours, theirs = (float(scores.mean(dtype=np.float64)) for scores in (found, promised))
    spread = float(found.std(dtype=np.float64))
    share = _ROUNDING if whole.head.weight.dtype in (torch.float32, torch.float64) else _ROUNDING_HALF
    allowed = share * (abs(theirs) + spread if task.name == "regression" else 1.0) + share / len(found)
    if not is_repeated:  # a loader drew other samples than before: two means of n may differ by chance
        allowed += 6 * spread * np.sqrt(1 / len(found) + 1 / len(promised))
    # Where either is not a number the head is the original one, kept, and says so itself.
    if np.isfinite(ours - theirs) and abs(ours - theirs) > allowed:
        raise FunctionError(
            f"the {_UNITS.get(task.name, 'accuracy')} of the joined network is {abs(ours):.4g} where that of its head "
            f"alone is {abs(theirs):.4g}; need a network that gives the same outputs in every pass; look for dropout "
            "that stays on in eval mode, and for data that change from pass to pass"
        )
