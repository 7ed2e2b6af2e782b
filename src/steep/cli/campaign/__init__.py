"""``steep campaign``: run an expensive simulator where it varies, from a shell, and look after it."""

from __future__ import annotations

import typer

from steep.cli.campaign import ask, export, failures, plot, run, status, tell
from steep.cli.options import add, example

__all__ = ["app"]

app = typer.Typer(help="Run an expensive simulator where it varies, and look after it.", epilog=example(status.EXAMPLE))
add(app, "run", run.run_command, run.EXAMPLE)
add(app, "ask", ask.ask_command, ask.EXAMPLE)
add(app, "tell", tell.tell_command, tell.EXAMPLE)
add(app, "status", status.status_command, status.EXAMPLE)
add(app, "failures", failures.failures_command, failures.EXAMPLE)
add(app, "export", export.export_command, export.EXAMPLE)
add(app, "plot", plot.plot_command, plot.EXAMPLE)
