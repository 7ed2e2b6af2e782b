"""Any program as a simulator: one command for each point, its answer read from stdout or a file."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shlex
import signal
import string
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from steep._validation import check_real
from steep.exceptions import FunctionError, InputError, InputTypeError

# How much of a failed program's stderr is kept: its end, where the reason usually is.
_KEPT = 4000


class command_simulator:  # noqa: N801 - used as a function; a class so that executors can send it
    r"""Make a function of a command line, to be run once for each point.

    Parameters
    ----------
    command : str or sequence of str
        The program and its arguments; ``{name}`` stands for an input. A string is split into
        arguments *before* the inputs are put in, and no shell is involved: an input is always part
        of one argument, whatever characters it holds.
    outputs : {"json", "csv"} or str
        How to read the answer: a JSON object (by name), array or number; the last line of a CSV with
        its header (by name); or a regular expression, one output for each group.
    file : str, optional
        Read this file, in the directory the command runs in, instead of stdout.
    timeout : float, optional
        Seconds after which the program is killed.
    env : mapping of str, optional
        Its environment; default that of this process.
    input : str, optional
        Text for its stdin, with ``{name}`` for the inputs.

    Notes
    -----
    Each run has a fresh temporary directory of its own, so runs in parallel never share files; a
    relative path to the program is taken from the directory where the simulator was made.

    Examples
    --------
    >>> import sys
    >>> double = command_simulator([sys.executable, "-c", "print(2 * {u0})"], outputs=r"(\S+)")
    >>> double(u0=1.5)
    [3.0]
    """

    def __init__(
        self,
        command: str | list[str] | tuple[str, ...],
        *,
        outputs: str = "json",
        file: str | None = None,
        timeout: float | None = None,
        env: dict[str, str] | None = None,
        input: str | None = None,  # noqa: A002 - the name subprocess uses
    ) -> None:
        if not isinstance(command, str | list | tuple):
            raise InputTypeError(f"command is a {type(command).__name__}; need a string or a list of strings")
        parts = shlex.split(command) if isinstance(command, str) else [str(part) for part in command]
        if not parts:
            raise InputError("command is empty; need a program and its arguments")
        if os.sep in parts[0]:  # a path; a bare name is looked up in PATH
            parts[0] = str(Path.cwd() / parts[0])
        self.parts = parts
        self.names = sorted({name for part in [*parts, input or ""] for name in _fields(part)})
        self.outputs = outputs
        if outputs not in ("json", "csv"):
            _check_pattern(outputs)
        self.file = file
        self.timeout = None if timeout is None else check_real(timeout, name="timeout", above=0.0)
        self.env = env
        self.input = input

    def __call__(self, **inputs: Any) -> Any:
        """Run the program for one point and return its outputs: a dict, a list or a number."""
        missing = [name for name in self.names if name not in inputs]
        if missing:
            raise InputError(f"command needs inputs {missing}, got {sorted(inputs)}; name them in the bounds")
        texts = {name: _text(value) for name, value in inputs.items()}
        arguments = [_fill(part, texts) for part in self.parts]
        with tempfile.TemporaryDirectory(prefix="steep-") as directory:
            answer = self._run(arguments, None if self.input is None else _fill(self.input, texts), directory)
            if self.file is not None:
                answer = _read(Path(directory, self.file), answer)
        return self._parse(answer)

    def _run(self, arguments: list[str], text: str | None, directory: str) -> str:
        try:
            program = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                errors="replace", cwd=directory, env=self.env, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise FunctionError(f"{arguments[0]} did not start: {error}; check its path") from error
        with program:
            try:
                stdout, stderr = program.communicate(text or "", timeout=self.timeout)
            except BaseException as error:
                _kill_group(program)
                if isinstance(error, subprocess.TimeoutExpired):
                    message = f"{arguments[0]} took more than {self.timeout:g} s and was killed"
                    raise TimeoutError(message) from error
                raise
        if program.returncode != 0:
            shown = shlex.join(arguments)
            raise FunctionError(
                f"{shown} ended with code {program.returncode}; its stderr:\n{stderr[-_KEPT:]}"
            )
        return stdout

    def _parse(self, answer: str) -> Any:
        try:
            if self.outputs == "json":
                return json.loads(answer)
            if self.outputs == "csv":
                rows = list(csv.DictReader(io.StringIO(answer.strip())))
                return {name: float(value) for name, value in rows[-1].items()}
            found = re.search(self.outputs, answer)
            if found is None:
                raise ValueError("no match")
            return [float(group) for group in found.groups()]
        except (ValueError, TypeError, IndexError) as error:
            raise FunctionError(
                f"the answer is not readable as {self.outputs!r} ({error}); it ends with {answer[-200:]!r}"
            ) from error


def _kill_group(program: subprocess.Popen[str]) -> None:
    """Kill a program and what it started: a child left behind would keep its pipes open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


def _fields(template: str) -> list[str]:
    """Names in ``{}`` of a template; other braces, as in a JSON argument, are doubled by the caller."""
    try:
        return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise InputError(
            f"command part {template!r} is no template ({error}); write a literal brace twice"
        ) from error


def _fill(template: str, texts: dict[str, str]) -> str:
    """Put the inputs in; only plain names are looked up, never attributes or items."""
    filled = [
        literal + ("" if name is None else texts[name])
        for literal, name, _, _ in string.Formatter().parse(template)
    ]
    return "".join(filled)


def _text(value: Any) -> str:
    # repr of a float is the shortest text that reads back as the same number.
    return repr(float(value)) if isinstance(value, float) else str(value)


def _read(path: Path, stdout: str) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise FunctionError(
            f"the program left no file {path.name!r} ({error.strerror}); its stdout ends with {stdout[-200:]!r}"
        ) from error


def _check_pattern(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except (re.error, TypeError) as error:
        raise InputError(
            f"outputs={pattern!r} is neither 'json', 'csv' nor a regular expression ({error})"
        ) from error
    if groups == 0:
        raise InputError(f"outputs={pattern!r} has no group; put each output in (…)")
