"""The ``steep`` command: one file a command.

steep weigh table.csv --target price
steep reproduce table1
steep demo
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

import steep
from steep.cli.demo import demo_command
from steep.cli.reproduce import reproduce_command
from steep.cli.weigh import weigh_command
from steep.exceptions import SteepError

__all__ = ["app", "main"]

# The shell's own numbers for a program that was interrupted or terminated.
_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
# What Typer raises for arguments it cannot read; its name has moved between versions.
_ParsingError: Any = typer.BadParameter.__base__

app = typer.Typer(
    help="Put the training effort where the function is steep.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("weigh")(weigh_command)
app.command("reproduce")(reproduce_command)
app.command("demo")(demo_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"steep {steep.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Put the training effort where the function is steep."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; what goes wrong ends with one line on stderr and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _terminable(), _short_warnings():
            code = app(args=given, prog_name="steep", standalone_mode=False)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        _silence_stdout()
        return 1
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except _ParsingError as error:
        return _fail(f"{error.format_message().rstrip('.')}; see steep --help")
    except Exception as error:
        if "--debug" in given:
            traceback.print_exc()
        return _fail(_describe(error))
    if code == _INTERRUPTED:
        _fail("interrupted")
    return code or 0


def _describe(error: Exception) -> str:
    """Put it into one line; what steep did not expect comes with its kind and a way to see more."""
    text = " ".join(str(error).split())
    if isinstance(error, SteepError | OSError):
        return text
    return f"{type(error).__name__}: {text}; --debug shows where it came from"


def _fail(text: str) -> int:
    print(f"steep: {text}", file=sys.stderr)
    return 2


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM unwind the stack, as an interrupt does, so that no temporary file is left behind."""

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(_TERMINATED)

    ignored = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show a warning as one line, without the place in our code that it came from."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        print(f"steep: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _silence_stdout() -> None:
    """Python flushes stdout once more at exit, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
