"""What all pictures share: colours, axes of the right kind, names as they are, and files of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steep._files import write_whole
from steep._validation import shown
from steep.domain.axes import Axis, Category
from steep.exceptions import InputTypeError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Colours that stay apart in print and for colour-blind readers (the paper's own blue and orange).
START, EVEN, DRAWN = "#235789", "#4f8cc4", "#d94800"
CURVE, QUIET, GRID = "#444444", "#5c6670", "#e3e7eb"
# Blue below the middle, grey at it, orange above, where it should catch the eye: apart for every reader.
_DIVERGING = ("#4f8cc4", "#8db4da", "#cfd7df", "#e5843a", "#8c3200")
# Text stays text, whatever opens the file; ids of an SVG are the same each time.
_FILES: dict[Any, Any] = {"svg.fonttype": "none", "pdf.fonttype": 42, "ps.fonttype": 42, "svg.hashsalt": "steep"}


# What is drawn: a steep.Design, or anything that offers the same points and labels.
Drawable = Any


def new_axes(n_rows: int = 1, n_columns: int = 1, *, size: tuple[float, float] = (6.0, 4.0), **options: Any) -> Any:
    """Axes on a new figure, one or an array of them."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib; pip install 'steep[report]'") from error
    return pyplot.subplots(n_rows, n_columns, figsize=size, layout="constrained", **options)[1]


def tidy(ax: Axes) -> Axes:
    """Fewer lines around, faint ones behind."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=GRID, lw=0.8)
    ax.set_axisbelow(True)
    return ax


def name_of(name: Any, longest: int = 40) -> str:
    r"""A name as text: one line, not too long, and no formula where it holds dollars."""
    text = " ".join(str(name).split())
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return text.replace("$", r"\$")


def legend(ax: Axes) -> None:
    """The legend above the axes, where its marks cannot be taken for points."""
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0.2, handletextpad=0.3)


def span(ax: Axes, axis: Axis, *, along: str) -> None:
    """Give one side of a picture the kind and the ends of an input."""
    if isinstance(axis, Category):
        places, names = range(len(axis.values)), [name_of(value) for value in axis.values]
        ax.set(**{f"{along}ticks": places, f"{along}ticklabels": names})
        ends = (-0.5, len(axis.values) - 0.5)
    elif axis.kind == "log":
        ax.set(**{f"{along}scale": "log"})
        edge = (axis.high / axis.low) ** 0.03
        ends = (axis.low / edge, axis.high * edge)
    else:
        margin = 0.5 if axis.n_values <= 20 else 0.03 * (axis.high - axis.low)
        ends = (axis.low - margin, axis.high + margin)
    ax.set(**{f"{along}lim": ends})


def diverging() -> Colormap:
    """Blue, grey, orange."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("steep", _DIVERGING)


def save_picture(picture: Any, path: str | Path) -> Path:
    """Write a picture, whole or not at all: vectors for ``.svg`` and ``.pdf``, with text that stays text.

    Parameters
    ----------
    picture : Figure, Axes or array of Axes
        What a ``plot`` returned.
    path : str or path
        The file; its ending says which kind.

    Returns
    -------
    Path
        ``path``.

    Examples
    --------
    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> file = save_picture(Figure().subplots(), tempfile.mkdtemp() + "/empty.svg")
    >>> file.read_text().startswith("<?xml")
    True
    """
    import matplotlib as mpl

    figure = figure_of(picture)
    path = Path(path)
    dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with mpl.rc_context(_FILES):
        return write_whole(
            path, lambda temporary: figure.savefig(temporary, dpi=150, metadata=dated.get(path.suffix.lower()))
        )


def figure_of(picture: Any) -> Figure:
    """The figure behind axes, an array of them, or a figure itself."""
    if isinstance(picture, np.ndarray | list | tuple):
        picture = next(iter(np.asarray(picture, dtype=object).flat), None)
    figure = picture if hasattr(picture, "savefig") else getattr(picture, "figure", None)
    if figure is None or not hasattr(figure, "savefig"):
        raise InputTypeError(f"picture is {shown(picture)}; expected a Figure or Axes; pass what plot() returned")
    return figure  # type: ignore[no-any-return]
