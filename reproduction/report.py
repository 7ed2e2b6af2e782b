"""The page of the reproduction, written from the lines alone: ``docs/reproduction.md``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from reproduction.findings import write_findings
from reproduction.jobs import SCALES, Scale
from reproduction.registry import EXPERIMENTS, module
from reproduction.runner import check_lines, records_of
from reproduction.summary import CONDITIONS, FAILS, HOLDS, NOT_RUN, Claim, Lines, Section, markdown
from steep._files import write_whole
from steep._validation import check_choice
from steep.exceptions import StorageError

PAGE = "reproduction.md"
IMAGES = "images/reproduction"
HEADER = ["claim", "paper", "ours (paper's protocol)", "ours (honest)", "scale", "command", "CPU time", "verdict"]
_INTRODUCTION = """# The paper, reproduced

Written by `python -m reproduction --report` from the lines under `{results}/`; do not edit. Every claim of *Leveraging
Local Variation in Data* is shown twice. *Paper's protocol* is what the paper did: the best or mean over seeds, chosen
on the test set where the paper chose there. *Honest* is a paired comparison with the control the paper lacks (equal
weights, the same budget of runs), on data that took no part in any choice, with 95 % intervals. Gains are signed so
that larger is better.

*Holds*: the honest interval lies above zero. *Holds under conditions*: it includes zero, and the gain is significant
under the paper's own protocol or in a variant named beside it. *Does not hold*: otherwise; so too where the honest
interval lies below zero. *Not run*: no lines yet. What it all amounts to: [findings.md](findings.md).
"""


def collect(results: str | Path, scale: Scale) -> dict[str, Lines]:
    """Lines of every experiment at a scale; lines of something else are refused."""
    check_choice(scale, name="scale", choices=SCALES)
    found = {}
    for name in EXPERIMENTS:
        records = records_of(results, scale, name)
        check_lines(records, module(name).jobs(scale))
        found[name] = Lines(records, scale)
    return found


def best_scale(results: str | Path) -> Scale:
    """The largest scale that has lines."""
    found = [scale for scale in SCALES if any(records_of(results, scale, name).path.exists() for name in EXPERIMENTS)]
    if not found:
        raise StorageError(f"{results} holds no lines of a run; start with python -m reproduction all --scale smoke")
    return found[-1]


def page(results: str | Path, scale: Scale) -> str:
    """The page as text; pictures are named, not drawn."""
    lines = collect(results, scale)
    sections = {name: module(name).summarize(own) for name, own in lines.items()}
    rows = [_row(claim, name, lines[name]) for name, section in sections.items() for claim in section.claims]
    parts = [
        _INTRODUCTION.format(results=Path(results).name),
        "## Every claim\n",
        markdown(HEADER, rows),
        "",
        _counts(sections),
    ]
    for name, section in sections.items():
        parts += ["", f"## {module(name).TITLE}", "", _told(name, lines[name])]
        for table in section.tables:
            parts += ["", table]
        for figure in section.figures:
            parts += ["", f"![{figure.caption}]({IMAGES}/{figure.name}.png)", "", f"*{figure.caption}.*"]
    return "\n".join(parts) + "\n"


def fewer(name: str, scale: Scale) -> dict[str, str]:
    """What a scale has less of than the paper's counts, by experiment; empty when nothing.

    Examples
    --------
    >>> fewer("table1", "laptop")
    {}
    >>> fewer("figure3", "smoke")["tbs"]
    'n_points 60 of 50,000, epochs 60 of 40,000, n_test 500 of 50,000, n_grid 6 of 100'
    """
    full = {job.experiment: job.settings for job in module(name).jobs("paper")}
    found = {}
    for job in module(name).jobs(scale):
        differ = [
            f"{key} {_count(value)} of {_count(full[job.experiment][key])}"
            for key, value in job.settings.items()
            if job.experiment in full and full[job.experiment].get(key, value) != value
        ]
        if differ:
            found[job.experiment] = ", ".join(differ)
    return found


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _row(claim: Claim, name: str, lines: Lines) -> list[str]:
    ran = len(lines) > 0
    counts = "fewer than the paper, see below" if fewer(name, lines.scale) else "the paper's counts"
    time = hours(lines.cpu_seconds) if ran else NOT_RUN
    printed, honest = (NOT_RUN, NOT_RUN) if not ran else (claim.printed, claim.honest)
    return [claim.claim, claim.paper, printed, honest, f"{lines.scale}: {counts}" if ran else NOT_RUN,
            f"`python -m reproduction {name} --scale {lines.scale}`", time, claim.verdict]  # fmt: skip


def _told(name: str, lines: Lines) -> str:
    if not lines:
        return f"Not run at scale {lines.scale}."
    told = f"{len(lines):,} lines in `{lines.scale}/{name}.jsonl`, {hours(lines.cpu_seconds)} of CPU time."
    groups: dict[str, list[str]] = {}
    for experiment, text in fewer(name, lines.scale).items():
        groups.setdefault(text, []).append(experiment)
    if not groups:
        return f"{told} The paper's counts."
    parts = [f"{text} ({'; '.join(experiments)})" for text, experiments in groups.items()]
    return f"{told} Of the paper's scale: {'. '.join(parts)}."


def hours(seconds: float) -> str:
    """CPU time as people read it.

    Examples
    --------
    >>> hours(5), hours(600), hours(9000)
    ('5 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _counts(sections: dict[str, Section]) -> str:
    verdicts = [claim.verdict for section in sections.values() for claim in section.claims]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in (HOLDS, CONDITIONS, FAILS, NOT_RUN)) + "."


def write_report(results: str | Path = "results", docs: str | Path = "docs", scale: Scale | None = None) -> Path:
    """Write the page and its pictures, and the page of findings (:mod:`reproduction.findings`).

    Parameters
    ----------
    results, docs : path
        Folder of the lines, and folder of the page.
    scale : str, optional
        Default the largest scale that has lines.

    Returns
    -------
    Path
        The page.
    """
    os.environ.setdefault("MPLBACKEND", "Agg")
    from matplotlib import pyplot

    chosen = scale or best_scale(results)
    text = page(results, chosen)
    images = Path(docs) / IMAGES
    images.mkdir(parents=True, exist_ok=True)
    write_findings(collect(results, chosen), docs)
    for name, own in collect(results, chosen).items():
        for figure in module(name).summarize(own).figures:
            drawn = figure.draw()
            write_whole(images / f"{figure.name}.png", lambda path, drawn=drawn: drawn.savefig(path, dpi=110))  # type: ignore[misc]
            pyplot.close(drawn)
    return write_whole(Path(docs) / PAGE, lambda path: path.write_text(text, encoding="utf-8"))
