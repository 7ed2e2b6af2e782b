"""``steep campaign``: run an expensive simulator where it varies, from a shell, and look after it."""

from __future__ import annotations

import typer

from steep.cli.campaign.ask import ask_command
from steep.cli.campaign.export import export_command, plot_command
from steep.cli.campaign.run import run_command
from steep.cli.campaign.status import failures_command, status_command
from steep.cli.campaign.tell import tell_command
from steep.cli.options import add, example

__all__ = ["app"]

_STATUS = "steep campaign status campaign.db --watch"

app = typer.Typer(help="Run an expensive simulator where it varies, and look after it.", epilog=example(_STATUS))
add(app, "run", run_command, 'steep campaign run --command "./solver --u0 {u0}" --bounds u0=0:1 --runs 24')
add(app, "ask", ask_command, 'steep campaign ask campaign.db -n 20 --lease "12 h" -o points.csv')
add(app, "tell", tell_command, "steep campaign tell campaign.db --run 25 --value 0.36")
add(app, "status", status_command, _STATUS)
add(app, "failures", failures_command, "steep campaign failures campaign.db")
add(app, "export", export_command, "steep campaign export campaign.db -o runs.csv")
add(app, "plot", plot_command, "steep campaign plot campaign.db -o campaign.svg")
