"""``steep campaign``: run an expensive simulator where it varies, from a shell, and look after it."""

from __future__ import annotations

import typer

from steep.cli.campaign.change import correct_command, events_command, forget_command, import_command, retry_command
from steep.cli.campaign.run import init_command, run_command, submit_command
from steep.cli.campaign.status import export_command, failures_command, page_command, status_command
from steep.cli.campaign.tell import ask_command, tell_command
from steep.cli.options import add, example

__all__ = ["app"]

_STATUS = "steep campaign status campaign.db --watch"

app = typer.Typer(help="Run an expensive simulator where it varies, and look after it.", epilog=example(_STATUS))
add(app, "init", init_command, "steep campaign init case.toml")
add(app, "run", run_command, 'steep campaign run --command "./solver --u0 {u0}" --bounds u0=0:1 --runs 24')
add(app, "submit", submit_command, "steep campaign submit case.toml --in-flight 50 --time 2:00:00")
add(app, "ask", ask_command, 'steep campaign ask campaign.db -n 20 --lease "12 h" -o points.csv')
add(app, "tell", tell_command, "steep campaign tell campaign.db --run 25 --value 0.36")
add(app, "status", status_command, _STATUS)
add(app, "failures", failures_command, "steep campaign failures campaign.db")
add(app, "export", export_command, "steep campaign export campaign.db -o results.csv")
add(app, "page", page_command, "steep campaign page campaign.db -o campaign.html --watch")
add(app, "import", import_command, "steep campaign import campaign.db earlier.csv --outputs y0")
add(app, "correct", correct_command, "steep campaign correct campaign.db --run 3 --value 0.36")
add(app, "retry", retry_command, "steep campaign retry campaign.db")
add(app, "forget", forget_command, "steep campaign forget campaign.db --run 3")
add(app, "events", events_command, "steep campaign events campaign.db")
