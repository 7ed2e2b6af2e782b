"""The page of findings, written from the template ``findings.md`` and the lines: ``docs/findings.md``.

A slot ``[[what table; experiment; …]]`` of the template is replaced by what the lines say:

    [[gain table3; experiment; control; arm; value]]     paired gain over the control, with its 95 % interval
    [[ratio table2; experiment; control; arm; value]]    geometric mean of the ratio of an arm to the control
    [[value figure1; experiment; arm; value]]            mean over the lines
    [[count table2; experiment; arm]]                    how many lines
    [[per_model table4; experiment; control; arm]]       the paper's gain per model: best, mean ± standard error

Further words: ``error`` (smaller is better), ``x100`` (times 100), a kind of interval (``splits``, ``networks``,
``ranks``), and ``up``, ``down`` or ``none``: what the sentence says of a gain. If the lines differ, the page says so
(:data:`DISAGREES`); without lines it says :data:`NOT_YET`. An unknown table, experiment or arm is an error.
"""

import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from reproduction.jobs import SCALES, module
from reproduction.summary import Lines, show, show_gain, show_scores
from steep.exceptions import InputError
from steep.metrics import Interval

PAGE, NOT_YET, DISAGREES = "findings.md", "not run yet", "**(the lines do not say so)**"
_SLOT = re.compile(r"\[\[(\w+)\s([^\]]*)\]\]")
_OPTION = re.compile(r"error|splits|networks|ranks|up|down|none|x\d+")
_SAID: dict[str, Callable[[Interval], bool]] = {
    "up": lambda gain: gain.low > 0, "down": lambda gain: gain.high < 0, "none": lambda gain: not gain.excludes_zero,
}  # fmt: skip
_N_ARMS = {"gain": 2, "ratio": 2, "per_model": 2, "value": 1, "count": 1}


def template() -> str:
    """The text with its slots."""
    return files("reproduction").joinpath(PAGE).read_text(encoding="utf-8")


def findings(lines: Mapping[str, Lines], text: str | None = None) -> str:
    """Fill the slots of the template, or of another text."""
    return _SLOT.sub(lambda slot: _fill(slot, lines), template() if text is None else text)


def _fill(slot: re.Match[str], lines: Mapping[str, Lines]) -> str:
    words = [" ".join(word.split()) for word in slot[2].split(";")]
    options = [word for word in words if _OPTION.fullmatch(word)]
    table, *names = [word for word in words if word not in options]
    try:
        arms = names[1 : 1 + _N_ARMS[slot[1]]]
        jobs = [job for scale in SCALES for job in module(table).jobs(scale)]
        if unknown := {(names[0], arm) for arm in arms} - {(job.experiment, a) for job in jobs for a, _ in job.lines}:
            raise KeyError(*unknown)
        if not all(lines[table].seeds(names[0], arm) for arm in arms):
            return NOT_YET
        return _value(slot[1], lines[table], names, options)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"{PAGE} holds {slot[0]} ({error!r}); expected a slot as in findings.py") from error


def _value(what: str, lines: Lines, names: list[str], options: list[str]) -> str:
    factor = next((float(word[1:]) for word in options if word[0] == "x"), 1.0)
    if what == "gain":
        kind: Any = next((word for word in options if word in ("splits", "networks", "ranks")), "starts")
        gain = lines.gain(*names, is_error="error" in options, kind=kind)
        wrong = gain and any(word in _SAID and not _SAID[word](gain) for word in options)
        return show_gain(gain, factor) + (f" {DISAGREES}" if wrong else "") if gain else NOT_YET
    if what == "ratio":
        first, second = lines.paired(*names)
        return f"{np.exp(np.mean(np.log(second / first))):.2f}" if len(first) else NOT_YET
    if what == "per_model":
        return show_scores(lines.gains_per_model(*names))
    return (
        str(len(lines.seeds(*names)))
        if what == "count"
        else show(float(lines.values(names[0], names[1], names[2]).mean()), factor)
    )
