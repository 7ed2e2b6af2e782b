"""Run the joined network for real, and compare it with what its head alone promised.

Candidates are scored by W z + b on stored features. What counts is the network a user gets: it is run on the same
data once more. If its outputs are not those of its head, its figures would be those of another network, and an error is
raised in place of a verdict.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from steep._progress import progress_bar
from steep.exceptions import FunctionError
from steep.nn._arguments import kept_random_state
from steep.nn.batches import iterate_batches, label_array, move, n_samples
from steep.nn.candidates import ScoredHeads
from steep.nn.heads import Head, HeadTask
from steep.nn.network import Split, output_logits, response_of, same_up_to_rounding, undisturbed
from steep.nn.projection import device_of, rows_of_labels

# The threshold between 0 and 1 in the output of a sigmoid head, by what follows it.
_THRESHOLD = {"logits": 0.0, "sigmoid": 0.5, "softmax": 0.5, "log-softmax": float(np.log(0.5))}
# Outputs that differ by rounding may put a sample on either side of a border: this share of the samples, and this
# share of a squared error, is let pass. Half precision keeps three digits.
_ROUNDING, _ROUNDING_HALF = 2e-3, 3e-2
Array = npt.NDArray[Any]


def rescore(parts: Split, joined: nn.Module, found: ScoredHeads, chosen: int, data: Any) -> float:
    """The deciding score of the joined network on the data that its head was scored on, larger is better."""
    head, task, known, score = found.heads[chosen].head, found.task, found.held_out, found.scores[0]
    whole = replace(parts, network=joined)
    batches: list[tuple[Array, Array, Array]] = []
    with (
        kept_random_state(joined, seed=0),
        undisturbed(joined),
        torch.no_grad(),
        progress_bar(total=n_samples(data), label="re-scoring", shown=None) as bar,
    ):
        for inputs, labels in iterate_batches(data, parts.batch_size):
            batches.append(_batch_scores(whole, head, move(inputs, device_of(whole)), label_array(labels), task))
            bar.update(len(batches[-1][0]))
    scores, logits, targets = (np.concatenate(column) for column in zip(*batches, strict=True))
    is_repeated = np.array_equal(targets, known.targets)
    outputs = head.outputs(known.features)
    _compare(scores, task.scores(outputs, known.targets), whole, task, is_repeated=is_repeated)
    return score.value(logits if is_repeated else outputs)


def _batch_scores(whole: Split, head: Head, inputs: Any, labels: Array, task: HeadTask) -> tuple[Array, Array, Array]:
    """Scores by the output of the network itself, which must be what its head says or a known response to it.

    The outputs of its head and the targets are returned as well.
    """
    seen = whole.run(inputs)
    features = seen.features.float() if seen.features.dtype != torch.float64 else seen.features
    promised = torch.from_numpy(head.outputs(features.cpu().numpy()))
    if not same_up_to_rounding(seen.logits.cpu(), promised):
        raise FunctionError(
            f"head {whole.name!r} of the joined network does not return what was fitted; expected W z + b for every "
            "batch; remove what changes it, or name another layer with split(network, head='...')"
        )
    output = output_logits(seen.output)
    response = response_of(whole.name, seen.logits, output)
    values, logits = (part.float().cpu().numpy().reshape(len(promised), -1) for part in (output, seen.logits))
    values, own = rows_of_labels(whole, values, labels)
    logits, _ = rows_of_labels(whole, logits, labels)
    targets = task.targets(own)
    return task.scores(values, targets, threshold=_THRESHOLD[response]), logits, targets


def _compare(found: Array, promised: Array, whole: Split, task: HeadTask, *, is_repeated: bool) -> None:
    """Raise if the network scores other than its head beyond rounding."""
    ours, theirs = (float(scores.mean(dtype=np.float64)) for scores in (found, promised))
    spread = float(found.std(dtype=np.float64))
    share = _ROUNDING if whole.head.weight.dtype in (torch.float32, torch.float64) else _ROUNDING_HALF
    allowed = share * (abs(theirs) + spread if task.name == "regression" else 1.0) + share / len(found)
    if not is_repeated:  # a loader drew other samples than before: two means of n may differ by chance
        allowed += 6 * spread * np.sqrt(1 / len(found) + 1 / len(promised))
    # If either is not a number the head is the original one, kept, and the verdict says so.
    if np.isfinite(ours - theirs) and abs(ours - theirs) > allowed:
        unit = "mean squared error" if task.name == "regression" else "accuracy"
        raise FunctionError(
            f"the {unit} of the joined network is {abs(ours):.4g} where that of its head alone is {abs(theirs):.4g}; "
            "expected the same outputs in every pass; look for dropout that stays on in eval mode, and for data that "
            "change from pass to pass"
        )
