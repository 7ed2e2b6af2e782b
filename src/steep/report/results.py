"""Pages of a design and a campaign: a sentence, figures, pictures by matplotlib, and tables."""

from __future__ import annotations

import base64
import io
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steep._validation import FloatArray, IntArray
from steep.campaign import Campaign
from steep.exceptions import InputTypeError
from steep.report.page import cell_of, check_text, verdict_of, write_page
from steep.sampling import Design

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Results and failed attempts that are listed, the last ones.
_MOST_ROWS, _MOST_FAILURES = 100, 200
_LONGEST_TEXT = 4000
_POINTS = "The points over one input, or over the two steepest."


def design_page(path: str | Path, design: Design, *, title: str | None = None) -> Path:
    """Write the page of a design: one HTML file that needs nothing else.

    Parameters
    ----------
    path : str or path
        The file to write.
    design : Design
        What :func:`steep.design` returned.
    title : str, optional
        Title of the page.

    Returns
    -------
    Path
        ``path``.

    Examples
    --------
    >>> import tempfile
    >>> from steep import design as choose
    >>> plan = choose(lambda X: X[:, 0] ** 3, [(0, 1)], 16, n_initial=8, random_state=0)
    >>> design_page(tempfile.mkdtemp() + "/design.html", plan).name
    'design.html'
    """
    if not isinstance(design, Design):
        raise InputTypeError(f"design is a {type(design).__name__}; expected a Design; pass what design() returned")
    n_points = len(design.X)
    return _write(
        path,
        check_text(title, name="title", default=f"A design of {n_points:,} points"),
        kind="design",
        verdict=verdict_of(f"{n_points:,} points: {design.parts}."),
        figures={"points": f"{n_points:,}", "evaluations in all": f"{design.n_evaluations:,}"},
        pictures=[_picture(design)],
        tables=[_results(design, np.arange(n_points), "point")],
    )


def campaign_page(path: str | Path, campaign: Campaign, *, title: str | None = None) -> Path:
    """Write the page of a campaign as it stands: one HTML file that needs nothing else.

    Parameters
    ----------
    path : str or path
        The file to write.
    campaign : Campaign
        An open campaign; another process may be running it.
    title : str, optional
        Title of the page.

    Returns
    -------
    Path
        ``path``.

    Examples
    --------
    >>> import tempfile
    >>> campaign = Campaign({"x": (0, 1)}, storage=":memory:")
    >>> campaign.run(lambda x: x**2, 12).n_done
    12
    >>> campaign_page(tempfile.mkdtemp() + "/campaign.html", campaign).name
    'campaign.html'
    """
    if not isinstance(campaign, Campaign):
        raise InputTypeError(f"campaign is a {type(campaign).__name__}; expected a Campaign")
    runs = [row for row in campaign.journal.all_runs() if row[2] != "forgotten"]
    counts = Counter(row[2] for row in runs)
    parts = {"done": counts["done"], "in flight": counts["pending"], "given up": counts["failed"]}
    pictures, tables = [], []
    if counts["done"]:
        plan = campaign.to_design()
        numbers = {x.tobytes(): row[6] for row, x in zip(runs, _inputs(campaign, runs), strict=True)}
        failed = campaign.journal.points("failed", campaign.box.n_features)
        pictures = [_picture(plan, failed=failed)]
        tables = [_results(plan, np.array([numbers.get(x.tobytes(), -1) for x in plan.X]), "run")]
    words = ", ".join(f"{n:,} {name}" for name, n in parts.items())
    stored = campaign.journal.path
    return _write(
        path,
        check_text(
            title, name="title", default="A campaign" if stored == ":memory:" else f"Campaign {Path(stored).stem}"
        ),
        kind="campaign",
        verdict=verdict_of(f"{words}." if counts["done"] else f"{words}. No result has come in yet."),
        note=_time_left(campaign),
        figures={name: f"{n:,}" for name, n in parts.items()},
        parts=[
            {"name": name, "n": n, "share": n / max(len(runs), 1), "words": said}
            for name, (said, n) in zip(("done", "flying", "failed"), parts.items(), strict=True)
        ],
        pictures=pictures,
        tables=[*tables, *_failures(campaign)],
    )


def _write(path: str | Path, title: str, **content: Any) -> Path:
    whole: dict[str, Any] = {"figures": {}, "parts": [], "note": "", "pictures": [], "tables": []} | content
    whole["figures"] = [{"name": name, "value": value, "id": ""} for name, value in whole["figures"].items()]
    return write_page(path, "results.html", title=title, **whole)


def _time_left(campaign: Campaign) -> str:
    """How long a campaign that runs now will take; nothing for one that does not run."""
    status = campaign.status()
    if not (status.is_running and status.seconds_left >= 0):
        return ""
    left = timedelta(seconds=round(status.seconds_left))
    return f"About {left} (hours:minutes:seconds) left for {status.n_left:,} runs."


def _picture(plan: Design, **options: Any) -> dict[str, str]:
    return {"source": _inline(plan.plot(**options)), "about": _POINTS}


def _inline(drawn: Any) -> str:
    """A picture as vectors inside an address; the same picture gives the same bytes."""
    from matplotlib import pyplot, rc_context

    from steep.plotting.style import figure_of

    figure: Figure = figure_of(drawn)
    text = io.BytesIO()
    with rc_context({"svg.hashsalt": "steep", "svg.fonttype": "path"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of inputs that leave no room
        figure.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)
    return f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue()).decode()}"


def _table(key: str, heading: str, names: Sequence[Any], rows: list[list[Any]], note: str = "") -> dict[str, Any]:
    """A table whose columns sort as numbers where their first cell is one."""
    kinds = ["text" if not rows or rows[0][place]["key"] is None else "number" for place in range(len(names))]
    heads = [{"name": str(name), "kind": kind} for name, kind in zip(names, kinds, strict=True)]
    return {"id": key, "heading": heading, "heads": heads, "rows": rows, "note": note}


def _cut_at(n_listed: int, n: int, what: str) -> str:
    return f"{n_listed:,} of {n:,} {what} are listed." if n_listed < n else ""


def _results(plan: Design, numbers: IntArray, word: str) -> dict[str, Any]:
    """The latest results."""
    listed = np.arange(len(plan.X))[::-1][:_MOST_ROWS]
    rows = [
        [cell_of(value) for value in (numbers[row], *point.values(), *plan.labels[row])]
        for row, point in zip(listed, plan.box.decode(plan.X[listed]), strict=True)
    ]
    names = [word, *plan.box.names, *plan.output_names]
    return _table("runs", "The latest results", names, rows, _cut_at(len(rows), len(plan.X), "results"))


def _inputs(campaign: Campaign, rows: Sequence[Any]) -> FloatArray:
    return campaign.journal.numbers([row[0] for row in rows], campaign.box.n_features)


def _failures(campaign: Campaign) -> Iterable[dict[str, Any]]:
    """The last attempts that failed, each with its traceback; nothing where all went well."""
    every, box = campaign.journal.all_failures(), campaign.box
    if not every:
        return
    listed = every[-_MOST_FAILURES:][::-1]
    X = _inputs(campaign, listed)
    rows = [
        [
            cell_of(int(row[1])),
            cell_of(str(row[4])),
            {"text": str(row[5])[:_LONGEST_TEXT], "key": None, "more": str(row[6] or "")[-_LONGEST_TEXT:]},
            cell_of("given up" if row[2] == "failed" else row[2]),
            *(cell_of(value) for value in (box.decode(x[None])[0].values() if inside else x.tolist())),
        ]
        for row, x, inside in zip(listed, X, box.contains(X), strict=True)
    ]
    kinds = pd.Series([str(row[4]) for row in every]).value_counts().head(6)
    told = ", ".join(f"{n:,} × {kind}" for kind, n in kinds.items())
    note = f"{len(every):,} attempts went wrong: {told}. {_cut_at(len(rows), len(every), 'attempts')}"
    yield _table("failures", "What failed", ["run", "kind", "message", "now", *box.names], rows, note)
