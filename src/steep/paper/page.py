"""The page of the reproduction: every claim beside the paper's, as one HTML file written from the lines alone.

It stands here and not in :mod:`steep.report` because it reads the lines; that package only fills in the template.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steep._validation import check_choice
from steep.exceptions import MissingExtraError
from steep.paper.jobs import SCALES
from steep.paper.registry import module
from steep.paper.report import best_scale, collect, hours
from steep.paper.summary import CONDITIONS, FAILS, HOLDS, NOT_RUN, Claim, Figure, Lines, Section
from steep.plotting.style import FILES
from steep.report.page import check_text, write_page

if TYPE_CHECKING:
    from markupsafe import Markup

# A picture of more bytes than this is drawn in dots.
_MOST_VECTORS = 400_000
# Verdict: class of the style, and the words of the bar.
_STATES = {HOLDS: "holds", CONDITIONS: "conditions", FAILS: "fails", NOT_RUN: "open"}


def reproduction_page(
    path: str | Path, *, results: str | Path = "results", scale: str | None = None, title: str | None = None
) -> Path:
    """Write the page of the reproduction: one HTML file that needs nothing else.

    Parameters
    ----------
    path : str or path
        The file to write.
    results : str or path, default "results"
        Folder of the lines.
    scale : str, optional
        Default the largest scale that has lines.
    title : str, optional
        Title of the page.

    Returns
    -------
    Path
        ``path``.
    """
    chosen = (
        best_scale(results) if scale is None else check_choice(scale, name="scale", choices=tuple(SCALES))
    )
    lines = collect(results, chosen)
    sections = {name: module(name).summarize(own) for name, own in lines.items()}
    claims = [
        _claim(claim, name, lines[name]) for name, section in sections.items() for claim in section.claims
    ]
    counts = Counter(claim["verdict"] for claim in claims)
    return write_page(
        path,
        "reproduction.html",
        title=check_text(title, name="title", default="The paper, reproduced"),
        verdict={"sentence": _sentence(counts, chosen), "state": "none"},
        parts=[
            {
                "name": state,
                "n": counts[verdict],
                "share": counts[verdict] / max(len(claims), 1),
                "words": verdict,
            }
            for verdict, state in _STATES.items()
        ],
        claims=claims,
        sections=[_section(name, section, lines[name]) for name, section in sections.items() if lines[name]],
        scale=chosen,
    )


def _sentence(counts: Counter[str], scale: str) -> str:
    n_run = sum(n for verdict, n in counts.items() if verdict != NOT_RUN)
    return (
        f"Of {n_run} claims that were run at scale {scale}, {counts[HOLDS]} hold, {counts[CONDITIONS]} hold under "
        f"conditions and {counts[FAILS]} do not hold; {counts[NOT_RUN]} were not run."
    )


def _claim(claim: Claim, name: str, lines: Lines) -> dict[str, Any]:
    ran = len(lines) > 0
    return {
        "experiment": name,
        "ran": ran,
        "claim": claim.claim,
        "paper": claim.paper,
        "printed": claim.printed if ran else NOT_RUN,
        "honest": claim.honest if ran else NOT_RUN,
        "verdict": claim.verdict,
        "state": _STATES[claim.verdict],
        "seconds": lines.cpu_seconds,
        "time": hours(lines.cpu_seconds) if ran else NOT_RUN,
        "command": f"steep reproduce {name} --scale {lines.scale}",
    }


def _section(name: str, section: Section, lines: Lines) -> dict[str, Any]:
    """Tables and pictures of one experiment."""
    return {
        "id": name,
        "title": module(name).TITLE,
        "told": f"{len(lines)} lines, {hours(lines.cpu_seconds)} of CPU time.",
        "tables": [_table(text) for text in section.tables],
        "figures": [{"uri": _picture(figure), "caption": figure.caption} for figure in section.figures],
    }


def _table(text: str) -> Markup:
    """Markdown as HTML; markup in it is shown, not obeyed."""
    try:
        from markdown_it import MarkdownIt
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtraError(
            f"pages of the reproduction need {error.name}; pip install 'steep[paper]'"
        ) from error
    rendered = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    opened = '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>'
    return Markup(
        rendered.replace("<table>", opened)
        .replace("</table>", "</table></div>")
        .replace(' style="', ' data-style="')
    )


def _picture(figure: Figure) -> str:
    """A picture as a data URI: vectors, or dots where they would be too many."""
    import matplotlib as mpl
    from matplotlib import pyplot

    drawn = figure.draw()
    try:
        with mpl.rc_context(FILES):
            vectors, dots = io.BytesIO(), io.BytesIO()
            drawn.savefig(vectors, format="svg", metadata={"Date": None})
            if len(vectors.getvalue()) <= _MOST_VECTORS:
                return f"data:image/svg+xml;base64,{base64.b64encode(vectors.getvalue()).decode('ascii')}"
            drawn.savefig(dots, format="png", dpi=130)
            return f"data:image/png;base64,{base64.b64encode(dots.getvalue()).decode('ascii')}"
    finally:
        pyplot.close(drawn)
