"""The pages of the reproduction, written from the lines alone.

``docs/reproduction.md`` opens with a figure and a table of about ten rows, then has one row per claim; the long tables
and the figures of each experiment are on pages of their own under ``docs/reproduction/``.
"""

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from reproduction.findings import PAGE as FINDINGS
from reproduction.findings import findings
from reproduction.jobs import EXPERIMENTS, SCALES, Scale, module
from reproduction.runner import check_lines, records_of
from reproduction.summary import Figure, Lines, Section, markdown
from reproduction.verdicts import NOT_CLAIMED, NOT_RUN, VERDICTS
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


def collect(results: str | Path, scale: Scale) -> dict[str, Lines]:
    """Lines of every experiment at a scale; lines of something else are rejected."""
    check_choice(scale, name="scale", choices=SCALES)
    found = {name: records_of(results, scale, name) for name in EXPERIMENTS}
    for name, records in found.items():
        check_lines(records, module(name).jobs(scale))
    return {name: Lines(records, scale) for name, records in found.items()}


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
    rows = [[f"[{c.claim}]({FOLDER}/{name}.md)", c.paper, c.printed, c.honest, c.verdict] for name, c in claims]
    first = files("reproduction").joinpath(PAGE).read_text(encoding="utf-8").format(
        results=Path(results).name, images=IMAGES, glance=_glance_table(sections, lines), n_claims=len(claims),
        counts=counts, claims=markdown(HEADER, rows),
    )  # fmt: skip
    return {PAGE: first, **{f"{FOLDER}/{name}.md": _details(name, lines[name], sections[name]) for name in EXPERIMENTS}}


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
        less = any(fewer(name, lines[name].scale) or _missing(name, lines[name]) for name in names)
        ran = any(len(lines[name]) for name in names)
        scale = NOT_RUN if not ran else "fewer than the paper" if less else "the paper's counts"
        rows.append([title, paper, *(f"{MARKS[colour]} {text}" for colour, text in cells), scale])
    return markdown([*HEADER[:4], "scale"], rows)


def _missing(name: str, lines: Lines) -> int:
    """Lines of the paper's counts that were not run."""
    return sum(len(job.lines) for job in module(name).jobs("paper")) - len(lines)


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
    """What a scale has less of than the paper's counts, by experiment; empty when nothing."""
    full = {job.experiment: job.settings for job in module(name).jobs("paper")}
    found = {}
    for job in module(name).jobs(scale):
        of = {key: full.get(job.experiment, {}).get(key, value) for key, value in job.settings.items()}
        differ = [key for key, value in job.settings.items() if value != of[key]]
        if differ:
            found[job.experiment] = ", ".join(
                f"{key} {_count(job.settings[key])} of {_count(of[key])}" for key in differ
            )
    return found


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _told(name: str, lines: Lines) -> str:
    """How many lines, by which version, and what there is less of than at the paper's scale."""
    run = f"Run it with `python -m reproduction {name} --scale {lines.scale}`."
    if not lines:
        return f"Not run at scale {lines.scale}. {run}"
    versions = lines.versions()
    made = ", ".join(f"{count:,} by {which}" for which, count in versions.items())
    told = f"{len(lines):,} lines in `{lines.scale}/{name}.jsonl` ({made}), {hours(lines.cpu_seconds)} of CPU. {run}"
    if old := sum(versions.get(which, 0) for which in OLD):
        told += f" **{old:,} lines are old:** arms with steep's own choices may come out differently today."
    groups: dict[str, list[str]] = {}
    for experiment, text in fewer(name, lines.scale).items():
        groups.setdefault(text, []).append(experiment)
    parts = [text + f" ({'; '.join(own)})" * (len(groups) > 1) for text, own in groups.items()]
    missing = _missing(name, lines)
    if not parts:
        return f"{told} The counts of the paper{f', {missing:,} lines missing' if missing else ''}."
    return f"{told} Of the full scale: {'. '.join(parts)}."


def hours(seconds: float) -> str:
    """CPU time as people read it."""
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
    texts[FINDINGS] = findings(lines)
    for path, text in texts.items():
        write_whole(folder / path, lambda target, text=text: target.write_text(text, encoding="utf-8"))  # type: ignore[misc]
    return folder / PAGE
