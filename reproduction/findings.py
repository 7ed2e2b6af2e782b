"""The page of findings, written from the template ``findings.md`` and the lines: ``docs/findings.md``.

A slot ``[[what table; experiment; …]]`` of the template is replaced by what the lines say:

    [[mean table1; experiment; arm; value]]              mean of an arm ± half of its 95 % interval
    [[score table3; experiment; arm; value]]             best, mean ± standard error
    [[gain table3; experiment; control; arm; value]]     mean paired gain over the control, with its 95 % interval
    [[said table3; experiment; control; arm; value]]     nothing, or that the lines do not say what the sentence says
    [[ratio table2; experiment; control; arm; value]]    mean of an arm over that of the control
    [[value figure1; experiment; arm; value]]            one value of the first line
    [[setting table4; experiment; name]]                 what the lines were run with
    [[per_model table4; experiment; control; arm]]       the paper's gain per model: best, mean ± standard error
    [[paper table3; row; column]]                        what the paper prints
    [[claims holds]]                                     every claim with this verdict

Further words: ``error`` (smaller is better), ``x100`` (times 100), and ``up``, ``down`` or ``none``: what the sentence
says of a gain. Where the lines say otherwise the page does, too (:data:`DISAGREES`); where there are none yet it says
:data:`NOT_YET`. A table, experiment or arm that does not exist is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from reproduction.jobs import SCALES
from reproduction.registry import EXPERIMENTS, module
from reproduction.summary import CONDITIONS, FAILS, HOLDS, NOT_RUN, Lines, show, show_gain, show_scores
from steep.exceptions import InputError
from steep.metrics import Interval

PAGE = "findings.md"
NOT_YET = "not run yet"
DISAGREES = "**(the lines do not say so)**"
_SLOT = re.compile(r"\[\[(\w+)\s([^\]]*)\]\]")
_VERDICTS = {"holds": HOLDS, "conditions": CONDITIONS, "fails": FAILS, "missing": NOT_RUN}
_SAID: dict[str, Callable[[Interval], bool]] = {
    "up": lambda gain: gain.low > 0,
    "down": lambda gain: gain.high < 0,
    "none": lambda gain: not gain.excludes_zero,
}


def template() -> str:
    """The text with its slots."""
    return files("reproduction").joinpath(PAGE).read_text(encoding="utf-8")


def findings(lines: Mapping[str, Lines], text: str | None = None) -> str:
    """Fill the slots of the template.

    Parameters
    ----------
    lines : mapping of str to Lines
        Of every experiment; see :func:`reproduction.report.collect`.
    text : str, optional
        Another template.

    Examples
    --------
    >>> none = {name: Lines([], "laptop") for name in EXPERIMENTS}
    >>> findings(none, "VBSW: [[score table3; boston; VBSW; score]].")
    'VBSW: not run yet.'
    """
    return _SLOT.sub(lambda slot: _fill(slot, lines), template() if text is None else text)


def _fill(slot: re.Match[str], lines: Mapping[str, Lines]) -> str:
    what, words = slot[1], [" ".join(word.split()) for word in slot[2].split(";")]
    options = [word for word in words if word == "error" or word in _SAID or re.fullmatch(r"x\d+", word)]
    names = [word for word in words if word not in options]
    try:
        if what == "claims":
            return _claims(lines, _VERDICTS[names[0]])
        if what == "paper":
            return _paper(*names)
        table, experiment, *rest = names
        _check_known(table, experiment, rest if what == "per_model" else rest[:-1])
        return _FILLERS[what](lines[table], experiment, *rest, options=options)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"{PAGE} holds {slot[0]} ({error!r}); need a slot as in findings.py") from error


def _check_known(table: str, experiment: str, arms: list[str]) -> None:
    """A typing error is no missing line: the names have to be those of some scale."""
    known = {(job.experiment, arm) for scale in SCALES for job in module(table).jobs(scale) for arm, _ in job.lines}
    for arm in arms:
        if (experiment, arm) not in known:
            raise KeyError(f"{experiment}; {arm}")
    if experiment not in {name for name, _ in known}:
        raise KeyError(experiment)


@cache
def _known(table: str) -> frozenset[tuple[str, str]]:
    """Experiments and arms of a table."""
    jobs = [job for scale in SCALES for job in module(table).jobs(scale)]
    return frozenset((job.experiment, arm) for job in jobs for arm, _ in job.lines)


def _paper(table: str, *keys: str) -> str:
    found = vars(module(table))["PAPER"]
    for key in keys:
        found = found[int(key)] if key.isdigit() else found[key]
    return str(found)


def _factor(options: list[str]) -> float:
    return next((float(word[1:]) for word in options if word[0] == "x"), 1.0)


def _mean(lines: Lines, experiment: str, arm: str, value: str, *, options: list[str]) -> str:
    found = lines.interval(experiment, arm, value) if lines.seeds(experiment, arm) else None
    return NOT_YET if found is None else show(found, _factor(options))


def _score(lines: Lines, experiment: str, arm: str, value: str, *, options: list[str]) -> str:
    found = lines.summary(experiment, arm, value, is_error="error" in options)
    return NOT_YET if found is None else show(found, _factor(options), digits=4)


def _gain(lines: Lines, experiment: str, control: str, arm: str, value: str, *, options: list[str]) -> str:
    found = lines.gain(experiment, control, arm, value, is_error="error" in options)
    if found is None:
        return NOT_YET
    return show_gain(found, _factor(options)) + _doubt(found, options)


def _said(lines: Lines, experiment: str, control: str, arm: str, value: str, *, options: list[str]) -> str:
    found = lines.gain(experiment, control, arm, value, is_error="error" in options)
    return "" if found is None else _doubt(found, options)


def _doubt(found: Interval, options: list[str]) -> str:
    wrong = [word for word in options if word in _SAID and not _SAID[word](found)]
    return f" {DISAGREES}" if wrong else ""


def _ratio(lines: Lines, experiment: str, control: str, arm: str, value: str, *, options: list[str]) -> str:
    first, second = lines.paired(experiment, control, arm, value)
    return f"{second.mean() / first.mean():.2f}" if len(first) else NOT_YET


def _per_model(lines: Lines, experiment: str, control: str, arm: str, *, options: list[str]) -> str:
    found = lines.gains_per_model(experiment, control, arm)
    return show_scores(found) if len(found) else NOT_YET


def _value(lines: Lines, experiment: str, arm: str, value: str, *, options: list[str]) -> str:
    found = lines.result(experiment, arm)
    return NOT_YET if found is None else show(float(found[value]), _factor(options))


def _setting(lines: Lines, experiment: str, name: str, *, options: list[str]) -> str:
    found: dict[str, Any] = lines.settings(experiment)
    return f"{found[name]:,}" if found else NOT_YET


def _claims(lines: Mapping[str, Lines], verdict: str) -> str:
    """One item a claim: what the paper has, and what both protocols give."""
    items = []
    for name in EXPERIMENTS:
        for claim in module(name).summarize(lines[name]).claims:
            if claim.verdict != verdict:
                continue
            told = [f"paper: {claim.paper}"]
            if verdict != NOT_RUN:
                told.append(f"ours: {claim.printed}")
                told += [f"honest: {claim.honest}"] if claim.honest != claim.printed else []
            items.append(f"- **{claim.claim}** (`{name}`). " + ". ".join(_capital(part) for part in told) + ".")
    return "\n".join(items) if items else "- None."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_FILLERS: dict[str, Callable[..., str]] = {
    "mean": _mean,
    "score": _score,
    "gain": _gain,
    "said": _said,
    "ratio": _ratio,
    "per_model": _per_model,
    "value": _value,
    "setting": _setting,
}


def write_findings(lines: Mapping[str, Lines], docs: str | Path) -> Path:
    """Write the page."""
    from steep._files import write_whole

    text = findings(lines)
    return write_whole(Path(docs) / PAGE, lambda path: path.write_text(text, encoding="utf-8"))
