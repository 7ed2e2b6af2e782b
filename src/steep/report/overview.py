"""A page of several answers: a question, a verdict and a picture each, with a link to the page that tells more."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steep.report.page import write_page
from steep.report.verdicts import verdict_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Answer:
    """One section of an overview.

    Attributes
    ----------
    question : str
        Its heading, as a reader would ask.
    told : str
        What was done, in a sentence or two.
    verdict : Verdict or str
        The answer; what is certain of it shows in its colour.
    figure : matplotlib Figure, optional
        A picture, drawn into the page.
    caption : str
        What the picture shows; also what a screen reader reads.
    page : str
        File name of the page with more, beside this one.
    helps : bool, optional
        For a verdict in words alone: whether it helps, does nothing (False), or neither can be said.
    heading : str
        What stands above the verdict; default follows from how sure it is.
    """

    question: str
    told: str
    verdict: Any
    figure: Figure | None = None
    caption: str = ""
    page: str = ""
    helps: bool | None = None
    heading: str = ""


def overview_page(
    path: str | Path, answers: Sequence[Answer], *, title: str, lead: str = "", kind: str = "overview"
) -> Path:
    """Write the answers into one self-contained HTML file.

    Parameters
    ----------
    path : str or path
        The file to write.
    answers : sequence of Answer
        Sections, in order.
    title, lead : str
        Heading of the page, and what stands below it.
    kind : str
        What the page is, shown beside the name of the library.

    Returns
    -------
    Path
        ``path``.
    """
    sections = [
        {
            "question": answer.question,
            "told": answer.told,
            "verdict": _verdict(answer),
            "picture": "" if answer.figure is None else _inline(answer.figure),
            "caption": answer.caption,
            "page": answer.page,
        }
        for answer in answers
    ]
    return write_page(path, "overview.html", title=title, lead=lead, kind=kind, sections=sections)


def _verdict(answer: Answer) -> dict[str, Any]:
    verdict = verdict_of(answer.verdict)
    if answer.helps is not None:
        verdict["state"] = "sure" if answer.helps else "kept"
    return verdict | ({"heading": answer.heading} if answer.heading else {})


def _inline(figure: Figure) -> str:
    """The picture as vectors inside an address; the same figure gives the same bytes."""
    from matplotlib import rc_context

    text = io.BytesIO()
    with rc_context({"svg.hashsalt": "steep", "svg.fonttype": "path"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
    return f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue()).decode()}"
