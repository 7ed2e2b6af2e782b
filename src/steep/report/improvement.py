"""The page of an improvement: what a new head gains, and every head tried."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steep.exceptions import InputTypeError
from steep.report.page import cell_of, check_text, verdict_of, write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Heads that are listed, the best first.
_MOST_HEADS = 300


def improvement_page(path: str | Path, improvement: Any, *, title: str | None = None) -> Path:
    """Write a report of an improvement: the gain of the new head, and every head that was tried.

    Parameters
    ----------
    path : str or path
        The file to write.
    improvement : Improvement
        What :func:`steep.nn.improve` returned.
    title : str, optional
        Title of the page.

    Returns
    -------
    Path
        ``path``.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> from torch import nn
    >>> from steep.nn import improve
    >>> X = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    >>> y = (X[:, 0] > 0).long()
    >>> result = improve(nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2)), (X[:200], y[:200]), (X[200:], y[200:]))
    >>> improvement_page(tempfile.mkdtemp() + "/improvement.html", result).name
    'improvement.html'
    """
    if not all(hasattr(improvement, name) for name in ("verdict", "candidates", "note", "plot")):
        raise InputTypeError(
            f"improvement is a {type(improvement).__name__}; expected an Improvement; pass what steep.nn.improve "
            "returned"
        )
    heads = improvement.candidates
    return write_page(
        path,
        "improvement.html",
        title=check_text(title, name="title", default="What a new head gains"),
        verdict=verdict_of(improvement.verdict),
        note=improvement.note.replace("in the table", "on this page"),
        picture=_inline(improvement.plot().figure),
        names=[str(name) for name in heads.columns],
        rows=[[cell_of(value) for value in row] for row in heads.head(_MOST_HEADS).itertuples(index=False)],
        n_heads=len(heads),
    )


def _inline(figure: Figure) -> str:
    """The picture as vectors inside an address; the same figure gives the same bytes."""
    from matplotlib import rc_context

    text = io.BytesIO()
    with rc_context({"svg.hashsalt": "steep", "svg.fonttype": "path"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
    return f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue()).decode()}"
