"""The pages of the reproduction, written from the lines alone.

``docs/reproduction.md`` opens with a figure and a table of about ten rows, then has one row per claim; the long tables
and the figures of each experiment are on pages of their own under ``docs/reproduction/``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reproduction.findings import write_findings
from reproduction.jobs import SCALES, Scale
from reproduction.registry import EXPERIMENTS, module
from reproduction.runner import check_lines, records_of
from reproduction.summary import (
    HOW,
    NOT_CLAIMED,
    NOT_RUN,
    RULE,
    VERDICTS,
    Claim,
    Figure,
    Lines,
    Section,
    markdown,
)  # fmt: skip
from steep._files import write_whole
from steep._validation import check_choice
from steep.exceptions import StorageError

PAGE, FOLDER, IMAGES = "reproduction.md", "reproduction", "images/reproduction"
HEADER = ["claim", "paper", "its own protocol here", "with the missing control", "verdict"]
# Rows of the first table: what is claimed, what the paper has, and the experiments that test it.
GLANCE: dict[str, tuple[str, tuple[str, ...]]] = {
    "Points where f is steep lower the bound; Df² is the variance (Lemma 1)": ("proofs", ("figure1", "lemma1")),
    "TBS draws where f is steep (Fig. f1)": ("pictures", ("figure2",)),
    "TBS lowers the errors on Runge and tanh": ("Table 1", ("table1",)),
    "TBS lowers the errors on the Bateman equations": ("Table 2, Fig. tbs", ("table2", "figure3")),
    "VBSW gains on double moon, Boston, breast cancer": ("Table 3, Fig. doublem", ("table3", "figure4")),
    "Many (m, k) gain": ("Fig. hyp-search", ("figure5",)),
    "VBSW heads gain on MNIST and CIFAR-10": ("Table 4", ("table4",)),
    "VBSW heads gain on text": ("Table 5", ("table5",)), "VBSW gains with wrong labels": ("Table 6", ("table6",)),
    "VBSW gains with Active Bias and TCL": ("Table 7", ("table7",)),
    "Cost, and what the paper leaves open": ("§ Cost, § Further studies", ("open", "surrogates")),
}  # fmt: skip
MARKS = {"all": "🟢", "some": "🟠", "none": "🔴", "untested": "⚪"}
COLOURS = {"all": "#7fbf7b", "some": "#f5c26b", "none": "#e07b6a", "untested": "#d9d9d9"}
# Versions whose designs, searches or heads differ from today's; lines of the paper's own arms agree.
OLD = ("steep 0.1.0", "unknown")
_INTRODUCTION = """# The paper, reproduced

Written by `python -m reproduction --report` from the lines under `{results}/`; do not edit. *Its own protocol* is what
the paper, or its authors' code, did: starts of one split, or the best head or epoch on the test set. *The missing
control* is what the paper does not compare with: equal weights re-trained the same way, restarts, new splits.

![Each group of claims under the paper's own protocol and against the missing control]({images}/glance.png)

{glance}

🟢 every tested claim gains significantly, 🟠 some do, 🔴 none does, ⚪ not tested at this scale. {counts} What
follows from it: [findings](findings.md). Mistakes in formulas: [errata](errata.md). In the code: [paper
map](paper-map.md).

## The rule of the verdicts

{rule}
{how}
## Every claim

Gains are signed so that larger is better, with 95 % intervals. The first column links to the tables and figures.

{claims}
"""


def collect(results: str | Path, scale: Scale) -> dict[str, Lines]:
    """Lines of every experiment at a scale; lines of something else are rejected."""
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


def pages(results: str | Path, scale: Scale, lines: Mapping[str, Lines] | None = None) -> dict[str, str]:
    """Every page as text, by its path under the folder of the docs; pictures are named, not drawn."""
    if scale == "smoke":
        raise StorageError(
            "smoke lines are made from stand-in data and give no verdicts; expected scale laptop or paper"
        )
    lines = lines or collect(results, scale)
    sections = {name: module(name).summarize(own) for name, own in lines.items()}
    claims = [(name, claim) for name, section in sections.items() for claim in section.claims]
    verdicts = [claim.verdict for _, claim in claims]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)
    first = _INTRODUCTION.format(
        results=Path(results).name, images=IMAGES, glance=_glance_table(sections, lines), rule=RULE, how=HOW,
        counts=f"Of {len(claims)} claims: {counts}.", claims=markdown(HEADER, [_row(name, c) for name, c in claims]),
    )  # fmt: skip
    return {PAGE: first, **{f"{FOLDER}/{name}.md": _details(name, lines[name], sections[name]) for name in EXPERIMENTS}}


def _row(name: str, claim: Claim) -> list[str]:
    return [f"[{claim.claim}]({FOLDER}/{name}.md)", claim.paper, claim.printed, claim.honest, claim.verdict]


def print_claims(names: list[str], results: str | Path, scale: Scale, say: Any = print) -> None:
    """The claims of some experiments, as plain text; smoke lines give no verdict."""
    lines = {name: Lines(records_of(results, scale, name), scale) for name in names}
    for name, own in lines.items():
        for claim in module(name).summarize(own).claims:
            say(f"{claim.claim}\n  paper: {claim.paper}\n  here: {claim.printed}")
            if claim.honest not in (claim.printed, "the same"):
                say(f"  with the missing control: {claim.honest}")
            say(f"  verdict: {'none (stand-in data, or far too few epochs)' if scale == 'smoke' else claim.verdict}")


def _share(sections: Mapping[str, Section], names: tuple[str, ...], which: str) -> tuple[str, str]:
    """Colour and text of a cell: how many of the tested claims gain."""
    claims = [claim for name in names for claim in sections[name].claims if claim.verdict != NOT_CLAIMED]
    known = [answer for claim in claims if (answer := getattr(claim, which)) is not None]
    if not known:
        return "untested", "not tested"
    colour = "all" if all(known) else "some" if any(known) else "none"
    return colour, f"{sum(known)} of {len(known)}"


def _glance_table(sections: Mapping[str, Section], lines: Mapping[str, Lines]) -> str:
    rows = []
    for title, (paper, names) in GLANCE.items():
        cells = [_share(sections, names, which) for which in ("own", "controlled")]
        rows.append([title, paper, *(f"{MARKS[colour]} {text}" for colour, text in cells), _scale_of(names, lines)])
    return markdown([*HEADER[:4], "scale"], rows)


def _scale_of(names: tuple[str, ...], lines: Mapping[str, Lines]) -> str:
    ran = [name for name in names if len(lines[name])]
    if not ran:
        return NOT_RUN
    return "the paper's counts" if not any(fewer(name, lines[name].scale) for name in ran) else "fewer than the paper"


def draw_glance(sections: Mapping[str, Section]) -> Any:
    """The first table as coloured cells."""
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(9, 0.36 * len(GLANCE) + 0.9), layout="constrained")
    for row, (title, (_, names)) in enumerate(GLANCE.items()):
        ax.text(-0.02, row, title, ha="right", va="center", fontsize=9)
        for column, which in enumerate(("own", "controlled")):
            colour, text = _share(sections, names, which)
            ax.barh(row, 0.96, left=column, height=0.86, color=COLOURS[colour])
            ax.text(column + 0.48, row, text, ha="center", va="center", fontsize=9)
    for column, text in enumerate(HEADER[2:4]):
        ax.text(column + 0.48, -0.75, text, ha="center", va="center", fontsize=9, weight="bold")
    ax.set(xlim=(-2.6, 2), ylim=(len(GLANCE) - 0.4, -1.1))
    ax.axis("off")
    return figure


def _details(name: str, lines: Lines, section: Section) -> str:
    parts = [f"# {module(name).TITLE}", "", f"Back to [every claim](../{PAGE}). {_told(name, lines)}"]
    for table in section.tables:
        parts += ["", table]
    for figure in section.figures:
        parts += ["", f"![{figure.caption}](../{IMAGES}/{figure.name}.png)", "", f"*{figure.caption}.*"]
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


def _told(name: str, lines: Lines) -> str:
    """How many lines, by which version, and what there is less of than at the paper's scale."""
    run = f"Run it with `python -m reproduction {name} --scale {lines.scale}`."
    if not lines:
        return f"Not run at scale {lines.scale}. {run}"
    made = ", ".join(f"{count:,} by {which}" for which, count in lines.versions().items())
    told = (
        f"{len(lines):,} lines in `{lines.scale}/{name}.jsonl` ({made}), {hours(lines.cpu_seconds)} of CPU time. {run}"
    )
    if len(lines) > sum(count for which, count in lines.versions().items() if which not in OLD):
        told += " **Lines of an old version:** arms that use steep's own choices may come out differently today."
    groups: dict[str, list[str]] = {}
    for experiment, text in fewer(name, lines.scale).items():
        groups.setdefault(text, []).append(experiment)
    parts = [f"{text} ({'; '.join(experiments)})" for text, experiments in groups.items()]
    return f"{told} {'Of the full scale: ' + '. '.join(parts) if parts else 'The counts of the paper'}."


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


def write_report(results: str | Path = "results", docs: str | Path = "docs", scale: Scale | None = None) -> Path:
    """Write the pages and their pictures, and the page of findings (:mod:`reproduction.findings`)."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    from matplotlib import pyplot

    chosen = scale or best_scale(results)
    lines = collect(results, chosen)
    texts = pages(results, chosen, lines)
    folder = Path(docs)
    for part in (FOLDER, IMAGES):
        (folder / part).mkdir(parents=True, exist_ok=True)
    sections = {name: module(name).summarize(own) for name, own in lines.items()}
    glance = Figure("glance", "", lambda: draw_glance(sections))
    for figure in [glance, *(figure for section in sections.values() for figure in section.figures)]:
        drawn = figure.draw()
        write_whole(folder / IMAGES / f"{figure.name}.png", lambda path, drawn=drawn: drawn.savefig(path, dpi=110))  # type: ignore[misc]
        pyplot.close(drawn)
    write_findings(lines, folder)
    for path, text in texts.items():
        write_whole(folder / path, lambda target, text=text: target.write_text(text, encoding="utf-8"))  # type: ignore[misc]
    return folder / PAGE
