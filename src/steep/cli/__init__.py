"""The ``steep`` command: one file a command."""

from steep.cli.weigh import main

__all__ = ["main"]
