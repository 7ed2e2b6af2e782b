"""The ``steep`` command: one file per command, which parses, calls a public function and prints its result.

Each command's own libraries are loaded when it runs, so that ``--help`` and the shell's completion answer at once.
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

from steep.cli import campaign, design, improve, surrogate, suspects, weight
from steep.cli.options import EXIT_CODES, Debug, add, example, paragraphs
from steep.cli.printing import Terminated, has_lost_its_reader, in_shell_words, is_unicode, note
from steep.exceptions import SteepError

__all__ = ["app", "main"]

# The shell's own numbers for a program that was interrupted, was terminated, or lost its reader.
_INTERRUPTED, _TERMINATED, _NO_READER = 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + 13
# What Typer raises for arguments it cannot read; its name has moved between versions.
_ParsingError: Any = typer.BadParameter.__base__

_HELP = f"""Put the training effort where the function is steep.

Each command has a --help of its own, which ends with an example. --json prints the result as JSON and nothing
else on stdout.

{EXIT_CODES}
"""

app = typer.Typer(help=paragraphs(_HELP), pretty_exceptions_enable=False, epilog=example(weight.EXAMPLE))
add(app, "weight", weight.weight_command, weight.EXAMPLE)
add(app, "suspects", suspects.suspects_command, suspects.EXAMPLE)
add(app, "design", design.design_command, design.EXAMPLE)
add(app, "emulate", surrogate.emulate_command, surrogate.EMULATE_EXAMPLE)
add(app, "surrogate", surrogate.surrogate_command, surrogate.EXAMPLE)
app.add_typer(campaign.app, name="campaign")
add(app, "improve", improve.improve_command, improve.EXAMPLE)


def _show_version(wanted: bool) -> None:
    if wanted:
        import steep

        print(f"steep {steep.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Debug = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; what goes wrong ends with one line on stderr and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_debugging = "--debug" in given
    given = [word for word in given if word != "--debug"]
    _open_streams()
    if given[:1] == ["weigh"]:
        note("steep weigh is now called steep weight")
        given[0] = "weight"
    try:
        with _terminable(), _short_warnings():
            code = app(args=given or ["--help"], prog_name="steep", standalone_mode=False)
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:
        # The reader of our output has gone, as with `| head`; Typer and Rich turn that into an exit.
        if not has_lost_its_reader(end):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at exit
        return _NO_READER
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except _ParsingError as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "steep")
        return _fail(f"{error.format_message().rstrip('.')}; see {command} --help")
    except Exception as error:
        if is_debugging:
            traceback.print_exc()
        return _fail(_describe(error))
    if code == _INTERRUPTED:
        _fail("interrupted")
    return code if isinstance(code, int) else 0


def _describe(error: Exception) -> str:
    """Say what is wrong; what steep did not expect comes with its kind and a way to see more."""
    if isinstance(error, SteepError):
        return in_shell_words(str(error))
    if isinstance(error, MemoryError):
        return f"out of memory ({error}); use a smaller table, or close other programs"
    return str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}; --debug shows more"


def _fail(text: str) -> int:
    note(text)
    return 2


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM unwind the stack, as an interrupt does, so that no temporary file is left behind."""

    def stop(number: int, frame: Any) -> None:
        raise Terminated(_TERMINATED)

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
    """Show each warning once, as one line, without the place in our code that it came from."""
    seen: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        if (text := in_shell_words(str(message))) not in seen:
            note(f"warning: {text}")
        seen.add(text)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _open_streams() -> None:
    """A closed stream leads nowhere, and one that cannot show all characters spells them out."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            os.dup2(nowhere.fileno(), number)  # or the next file to be opened would get this number
            setattr(sys, name, nowhere)
        elif not is_unicode(stream) and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
