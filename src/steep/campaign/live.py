"""A picture of a running campaign that is drawn again as results come in: in a notebook, or in a file."""

from __future__ import annotations

import io
import time
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from steep._progress import in_notebook
from steep._validation import check_real
from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign

# Longest time that is followed in one call: a day.
_LONGEST = 86_400.0


class LivePlot:
    """A picture of a campaign that refreshes; call it, or let it follow.

    Parameters
    ----------
    campaign : Campaign
        What is drawn.
    interval : float, default 2
        Seconds between two pictures, at least.
    path : str or path, optional
        A file to write each picture to. Needed where there is no notebook.

    Attributes
    ----------
    n_drawn : int
        Pictures drawn so far.

    Examples
    --------
    >>> import tempfile
    >>> from steep import Campaign
    >>> campaign = Campaign([(0, 1)], storage=":memory:")
    >>> live = campaign.watch(path=tempfile.mkdtemp() + "/now.svg", interval=0)
    >>> campaign.run(lambda x: float(x[0]) ** 2, n_initial=8, n_samples=4, live=live).n_done
    12
    >>> live.n_drawn > 0
    True
    """

    def __init__(self, campaign: Campaign, *, interval: float = 2.0, path: str | PathLike[str] | None = None) -> None:
        self.campaign, self.path = campaign, path
        self.interval = check_real(interval, name="interval", minimum=0.0, maximum=3600.0)
        if path is None and not in_notebook():
            raise InputError("there is no notebook to draw in; need one, or a file; pass path='campaign.svg'")
        self.n_drawn = 0
        self._next = 0.0
        self._handle: Any = None

    def __call__(self, campaign: Campaign | None = None) -> None:
        """Draw the picture again, if the last one is old enough."""
        if time.monotonic() < self._next or self.campaign.n_done < 2:
            return
        self._draw()
        # Counted from the end of drawing: pictures of many points never hold up the runs.
        self._next = time.monotonic() + self.interval

    def follow(self, seconds: float = 600.0) -> None:
        """Redraw until no run is in flight, or the time is over.

        Parameters
        ----------
        seconds : float, default 600
            How long to follow, at most a day.
        """
        end = time.monotonic() + check_real(seconds, name="seconds", minimum=0.0, maximum=_LONGEST)
        while True:
            self()
            left = end - time.monotonic()
            if left <= 0 or not len(self.campaign.pending):
                break
            time.sleep(min(left, max(self.interval, 0.05)))
        self._next = 0.0
        self()

    def _draw(self) -> None:
        from matplotlib.figure import Figure

        from steep.campaign.views import plot_campaign

        figure = Figure(figsize=(9.0, 3.8), layout="constrained")
        plot_campaign(self.campaign, figure=figure)
        figure.suptitle(self._title(), fontsize="medium", x=0.01, ha="left")
        if self.path is not None:
            from steep.plotting import save_picture

            save_picture(figure, fspath(self.path))
        if in_notebook():
            self._show(figure)
        self.n_drawn += 1

    def _title(self) -> str:
        n_pending = len(self.campaign.pending)
        return f"{self.campaign.n_done} runs done, {n_pending} in flight, {self.campaign.n_failed} failed"

    def _show(self, figure: Any) -> None:
        """Put the picture in the place of the last one."""
        # By name: notebooks bring IPython along, and nothing else here needs it.
        shown: Any = import_module("IPython.display")
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=100)
        picture = shown.Image(data=file.getvalue(), format="png", alt=self._title())
        if self._handle is None:
            self._handle = shown.display(picture, display_id=True)
        else:
            self._handle.update(picture)
