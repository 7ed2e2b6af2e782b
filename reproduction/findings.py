"""The page of findings, written from the template ``findings.md`` and the lines: ``docs/findings.md``.

A slot ``[[what table; experiment; …]]`` of the template is replaced by what the lines say:

    [[mean table1; experiment; arm; value]]              mean of an arm ± half of its 95 % interval
    [[score table3; experiment; arm; value]]             best, mean ± standard error
    [[gain table3; experiment; control; arm; value]]     paired gain over the control, with its 95 % interval
    [[ratio table2; experiment; control; arm; value]]    mean of an arm over that of the control
    [[value figure1; experiment; arm; value]]            one value of the first line
    [[per_model table4; experiment; control; arm]]       the paper's gain per model: best, mean ± standard error
    [[paper table3; row; column]]                        what the paper prints

Further words: ``error`` (smaller is better), ``x100`` (times 100), a kind of interval (``splits``, ``networks``,
``ranks``), and ``up``, ``down`` or ``none``: what the sentence says of a gain. If the lines differ, the page says so
(:data:`DISAGREES`); without lines it says :data:`NOT_YET`. An unknown table, experiment or arm is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from reproduction.jobs import SCALES
from reproduction.registry import module
from reproduction.summary import Lines, show, show_gain, show_scores
from steep._files import write_whole
from steep.exceptions import InputError
from steep.metrics import Interval

PAGE, NOT_YET, DISAGREES = "findings.md", "not run yet", "**(the lines do not say so)**"
_SLOT = re.compile(r"\[\[(\w+)\s([^\]]*)\]\]")
_OPTION = re.compile(r"error|splits|networks|ranks|up|down|none|x\d+")
_SAID: dict[str, Callable[[Interval], bool]] = {
    "up": lambda gain: gain.low > 0, "down": lambda gain: gain.high < 0, "none": lambda gain: not gain.excludes_zero,
}  # fmt: skip


def template() -> str:
    """The text with its slots."""
    return files("reproduction").joinpath(PAGE).read_text(encoding="utf-8")


def findings(lines: Mapping[str, Lines], text: str | None = None) -> str:
    """Fill the slots of the template, or of another text.

    Examples
    --------
    >>> from reproduction.registry import EXPERIMENTS
    >>> none = {name: Lines([], "laptop") for name in EXPERIMENTS}
    >>> findings(none, "VBSW: [[score table3; boston; VBSW; score]].")
    'VBSW: not run yet.'
    """
    return _SLOT.sub(lambda slot: _fill(slot, lines), template() if text is None else text)


def _fill(slot: re.Match[str], lines: Mapping[str, Lines]) -> str:
    words = [" ".join(word.split()) for word in slot[2].split(";")]
    options = [word for word in words if _OPTION.fullmatch(word)]
    table, *names = [word for word in words if word not in options]
    try:
        if slot[1] == "paper":
            found = vars(module(table))["PAPER"]
            for name in names:
                found = found[int(name)] if name.isdigit() else found[name]
            return str(found)
        fill = _VALUES[slot[1]]
        arms = names[1:] if slot[1] == "per_model" else names[1:-1]
        if unknown := [arm for arm in arms if (names[0], arm) not in _known(table)]:
            raise KeyError(*unknown)
        if not all(lines[table].seeds(names[0], arm) for arm in arms):
            return NOT_YET
        return fill(lines[table], names, options) or NOT_YET
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"{PAGE} holds {slot[0]} ({error!r}); expected a slot as in findings.py") from error


@cache
def _known(table: str) -> frozenset[tuple[str, str]]:
    """Experiments and arms of a table."""
    jobs = [job for scale in SCALES for job in module(table).jobs(scale)]
    return frozenset((job.experiment, arm) for job in jobs for arm, _ in job.lines)


def _factor(options: list[str]) -> float:
    return next((float(word[1:]) for word in options if word[0] == "x"), 1.0)


def _gain(lines: Lines, names: list[str], options: list[str]) -> str:
    kind = next((word for word in options if word in ("splits", "networks", "ranks")), "starts")
    found = lines.gain(*names, is_error="error" in options, kind=kind)  # type: ignore[arg-type]
    if found is None:
        return ""
    wrong = any(word in _SAID and not _SAID[word](found) for word in options)
    return show_gain(found, _factor(options)) + (f" {DISAGREES}" if wrong else "")


def _mean(lines: Lines, names: list[str], options: list[str]) -> str:
    found = lines.interval(*names)
    return "" if found is None else show(found, _factor(options))


def _score(lines: Lines, names: list[str], options: list[str]) -> str:
    found = lines.summary(*names, is_error="error" in options)
    return show(found, _factor(options), digits=4) if found else ""


def _ratio(lines: Lines, names: list[str], options: list[str]) -> str:
    first, second = lines.paired(*names)
    return f"{second.mean() / first.mean():.2f}" if len(first) else ""


def _value(lines: Lines, names: list[str], options: list[str]) -> str:
    result = lines.result(names[0], names[1]) or {}
    return show(float(result[names[2]]), _factor(options))


def _per_model(lines: Lines, names: list[str], options: list[str]) -> str:
    found = lines.gains_per_model(*names)
    return show_scores(found) if len(found) else ""


_VALUES: dict[str, Callable[[Lines, list[str], list[str]], str]] = {
    "mean": _mean, "score": _score, "gain": _gain, "ratio": _ratio, "value": _value, "per_model": _per_model
}  # fmt: skip


def write_findings(lines: Mapping[str, Lines], docs: str | Path) -> Path:
    """Write the page."""
    text = findings(lines)
    return write_whole(Path(docs) / PAGE, lambda path: path.write_text(text, encoding="utf-8"))
