"""Any program as a simulator: one command for each point, its answer read from stdout or a file."""

from __future__ import annotations

import contextlib
import csv
import inspect
import io
import json
import os
import re
import shlex
import string
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from steep._validation import check_count, check_real
from steep.campaign import _guard
from steep.exceptions import CampaignError, FunctionError, InputError, InputTypeError, RejectedError

# How much of a failed program's stderr is kept: its end, where the reason usually is.
_KEPT = 4000
# Seconds a guard gets to kill what a program left behind and to remove its folder.
_GRACE = 15.0
# Lines at the end of an answer among which its JSON may begin.
_LINES = 10_000


class command_simulator:  # noqa: N801 - used as a function; a class so that executors can send it
    r"""Turn a command line into a function that runs it once per point.

    Parameters
    ----------
    command : str or sequence of str
        The program and its arguments; ``{name}`` stands for an input, ``{name:.3f}`` for one in a
        format of Python's. A string is split into arguments *before* the inputs are put in, and no
        shell is involved: an input is always part of one argument, whatever characters it holds.
    outputs : {"json", "csv"} or str
        How to read the answer: a JSON object (by name), array or number; the last line of a CSV with
        its header (by name); or a regular expression, one output for each group, by name where groups
        are written ``(?P<name>…)``. Lines of something else may come before JSON and CSV.
    timeout : float, optional
        Seconds after which the program is killed.
    templates : mapping of str to str, optional
        Text files to write into the folder of each run, by name, with ``{name}`` or ``{name:12.4e}`` for the inputs.

    Other Parameters
    ----------------
    file : str, optional
        Read this file, in the directory the command runs in, instead of stdout.
    env : mapping of str, optional
        Its environment; default that of this process.
    input : str, optional
        Text for its stdin, with ``{name}`` for the inputs.
    rejects : int, optional
        Exit code by which the program says that it does not accept these inputs: they are not tried again.
    keep : path, optional
        A folder in which the folder of each run is kept, with its inputs and output.

    Notes
    -----
    Each run has a fresh temporary directory of its own, so runs in parallel never share files; a
    relative path to the program is taken from the directory where the simulator was made. Processes
    that the program leaves behind end with it, and so does the program when this process ends, even
    by ``kill -9``; the directory is then removed, too. Windows lacks what this needs: use WSL there.

    Examples
    --------
    >>> import sys
    >>> double = command_simulator([sys.executable, "-c", "print(2 * {u0})"], outputs=r"(\S+)")
    >>> double(u0=1.5)
    [3.0]
    >>> print(command_simulator(["echo", "{u0:.2f}"])(u0=0.125))
    0.12
    """

    def __init__(
        self,
        command: str | list[str] | tuple[str, ...],
        *,
        outputs: str = "json",
        file: str | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        input: str | None = None,  # noqa: A002 - the name subprocess uses
        rejects: int | None = None,
        templates: Mapping[str, str] | None = None,
        keep: str | os.PathLike[str] | None = None,
    ) -> None:
        if sys.platform == "win32":
            raise CampaignError("command_simulator needs fork, which Windows lacks; run it under WSL")
        self.parts = command_parts(command)
        if os.sep in self.parts[0]:  # a path; a bare name is looked up in PATH
            self.parts[0] = str(Path.cwd() / self.parts[0])
        _check_texts(file=file, input=input)
        self.templates = _checked_templates(templates or {})
        texts = [*self.parts, input or "", *self.templates.values()]
        self.names = sorted({name for part in texts for name in _fields(part)})
        # What a call needs, for callers that ask before the first run.
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in self.names if name.isidentifier()]
            + [inspect.Parameter("inputs", inspect.Parameter.VAR_KEYWORD)]
        )
        self.outputs = outputs
        if outputs not in ("json", "csv"):
            _check_pattern(outputs)
        self.file = file
        self.timeout = None if timeout is None else check_real(timeout, name="timeout", above=0.0)
        self.env = None if env is None else _checked_texts("env", env)
        self.input = input
        self.keep = None if keep is None else str(Path(keep).absolute())
        self.rejects = None if rejects is None else check_count(rejects, name="rejects", minimum=1)

    def described(self) -> dict[str, Any]:
        """The arguments that make it again, as JSON holds them."""
        names = ("outputs", "file", "timeout", "env", "input", "rejects", "templates", "keep")
        return {"command": self.parts} | {name: getattr(self, name) for name in names}

    def __call__(self, **inputs: Any) -> Any:
        """Run the program for one point and return its outputs: a dict, a list or a number."""
        missing = [name for name in self.names if name not in inputs]
        if missing:
            raise InputError(f"command needs inputs {missing}, got {sorted(inputs)}; name them in the bounds")
        return self._parse(_run_guarded(self, inputs))

    def _parse(self, answer: str) -> Any:
        try:
            if self.outputs == "json":
                return last_json(answer)
            if self.outputs == "csv":
                return last_row(answer)
            found = re.search(self.outputs, answer)
            if found is None:
                raise ValueError("no match")
            named = {name: float(group) for name, group in found.groupdict().items()}
            return named or [float(group) for group in found.groups()]
        except (ValueError, TypeError, IndexError, RecursionError, csv.Error) as error:
            raise FunctionError(
                f"the answer is not readable as {self.outputs!r} ({error}); it ends with {answer[-200:]!r}"
            ) from error


def _run_guarded(program: command_simulator, inputs: Mapping[str, Any]) -> str:
    """Run a program under a guard, which makes and removes its folder; the text of its answer."""
    arguments = [_fill(part, inputs) for part in program.parts]
    text = "" if program.input is None else _fill(program.input, inputs)
    wanted = {
        "arguments": arguments,
        "env": dict(os.environ) if program.env is None else program.env,
        "scratch": os.environ.get(_guard.SCRATCH),
        "file": program.file,
        "files": {name: _fill(deck, inputs) for name, deck in program.templates.items()},
        "keep": program.keep,
    }
    timeout, file = program.timeout, program.file
    theirs, order = os.pipe()
    report, ours = os.pipe()
    with contextlib.ExitStack() as stack:
        reports = stack.enter_context(open(report, encoding="utf-8"))
        try:
            guard = subprocess.Popen(
                # Isolated and without site: a guard needs nothing but the standard library.
                [sys.executable, "-I", "-S", _guard.__file__, "program", str(theirs), str(ours)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                pass_fds=(theirs, ours), start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(order)
            raise
        finally:
            os.close(theirs)
            os.close(ours)
        stack.callback(_see_off, guard)
        # Closing this end tells the guard to kill whatever still runs.
        line = stack.enter_context(open(order, "wb", buffering=0))
        with contextlib.suppress(BrokenPipeError):  # a guard that is gone has nothing to report
            line.write(json.dumps(wanted).encode() + b"\n")
        try:
            stdout, stderr = guard.communicate(text.encode(errors="surrogateescape"), timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{arguments[0]} took more than {timeout:g} s and was killed") from error
        told = json.loads(reports.readline() or '{"error": "its guard was killed"}')
    if "error" in told:
        raise FunctionError(f"{arguments[0]} did not start: {told['error']}; check its path")
    if program.keep is not None:
        _keep_output(Path(told["folder"]), inputs, stdout[: len(stdout) - told.get("size", 0)], stderr)
    if told["code"] != 0:
        shown = stderr[-_KEPT:].decode(errors="replace")
        if told["code"] == program.rejects:
            raise RejectedError(f"{shlex.join(arguments)} does not accept these inputs; its stderr:\n{shown}")
        raise FunctionError(f"{shlex.join(arguments)} {_guard.ended(told['code'])}; its stderr:\n{shown}")
    if "missing" in told:
        shown = stdout[-200:].decode(errors="replace")
        raise FunctionError(f"the program left no file {file!r} ({told['missing']}); its stdout ends with {shown!r}")
    return (stdout[len(stdout) - told["size"] :] if "size" in told else stdout).decode(errors="replace")


def _keep_output(folder: Path, inputs: Mapping[str, Any], stdout: bytes, stderr: bytes) -> None:
    """Write what a program was given, and what it said, into the folder that is kept."""
    with contextlib.suppress(OSError):  # a result is worth more than its traces
        (folder / "steep-inputs.json").write_text(json.dumps(dict(inputs), default=str), encoding="utf-8")
        (folder / "steep-stdout.txt").write_bytes(stdout)
        (folder / "steep-stderr.txt").write_bytes(stderr)


def _see_off(guard: subprocess.Popen[bytes]) -> None:
    """Let go of the pipes of a guard, and wait until it has cleared up."""
    # Pipes first: a guard that still writes an answer that no one reads would wait as well.
    for pipe in (guard.stdin, guard.stdout, guard.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        guard.wait(_GRACE)
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.wait(_GRACE)


def command_parts(command: Any) -> list[str]:
    """The arguments of a command."""
    if not isinstance(command, str | list | tuple):
        raise InputTypeError(f"command is a {type(command).__name__}; expected a string or a list of strings")
    try:
        parts = shlex.split(command) if isinstance(command, str) else [str(part) for part in command]
    except ValueError as error:
        raise InputError(
            f"command {command!r} cannot be split ({error}); close its quotes, or pass a list of strings"
        ) from error
    if not parts or not parts[0]:
        raise InputError("command is empty; expected a program and its arguments")
    return parts


def _fields(template: str) -> list[str]:
    """Names in ``{}`` of a template; other braces, as in a JSON argument, are doubled by the caller."""
    try:
        fields = [field for field in string.Formatter().parse(template) if field[1] is not None]
    except ValueError as error:
        raise InputError(
            f"command part {template!r} is not a template ({error}); write a literal brace twice"
        ) from error
    for _, name, form, conversion in fields:
        if not name or any(mark in name for mark in ".[]") or name.isdigit():
            raise InputError(
                f"command part {template!r} has the field {{{name}}}; expected the plain name of an input in it; write "
                "a literal brace twice"
            )
        if "{" in (form or "") or conversion not in (None, "r", "s", "a"):
            raise InputError(
                f"command part {template!r} formats {name!r} by another field or an unknown conversion; write the "
                "format out, as {" + str(name) + ":.3f}"
            )
    return [str(name) for _, name, _, _ in fields]


def _fill(template: str, inputs: Mapping[str, Any]) -> str:
    """Put the inputs in: the fields are plain names, never attributes or items."""
    try:
        return template.format(**inputs)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"{template!r} does not fit the inputs {dict(inputs)} ({error}); change its formats"
        ) from error


def _check_texts(**texts: Any) -> None:
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise InputTypeError(f"{name} is a {type(text).__name__}; expected a string")


def _checked_texts(name: str, texts: Any) -> dict[str, str]:
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for entry in texts.items() for text in entry):
        raise InputTypeError(f"{name} is {texts!r}; expected a mapping of strings to strings")
    return dict(texts)


def _checked_templates(templates: Any) -> dict[str, str]:
    found = _checked_texts("templates", templates)
    for name in found:
        if not name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise InputError(f"templates names the file {name!r}; expected a name inside the folder of the run")
    return found


def _check_pattern(pattern: str) -> None:
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise InputError(f"outputs={pattern!r} is neither 'json', 'csv' nor a regular expression ({error})") from error
    if compiled.groups == 0:
        raise InputError(f"outputs={pattern!r} has no group; put each output in (…)")
    if 0 < len(compiled.groupindex) < compiled.groups:
        raise InputError(
            f"outputs={pattern!r} names some of its groups; name all of them as (?P<name>…), and write (?:…) for a "
            "group that is not an output"
        )


def last_json(text: str) -> Any:
    """Return the JSON value a text consists of, or ends with after other lines."""
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    try:
        return decoder.decode(text)
    except _TwiceError:
        raise
    except (ValueError, RecursionError) as error:
        first = error
    last_object = None
    for start in _line_starts(text):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            if isinstance(error, _TwiceError) and last_object is None:
                raise
            continue
        rest = text[end:].strip() if len(text) - end < 1000 else "more"
        if not rest:
            return value
        if last_object is None and isinstance(value, dict) and text[end] in "\r\n":
            last_object = value
    if last_object is None:
        raise first
    return last_object


def _line_starts(text: str) -> Iterator[int]:
    """Offsets of the last lines, blanks skipped, from the last one up; the lines before are not read."""
    end = len(text)
    for _ in range(_LINES):
        start = text.rfind("\n", 0, end) + 1
        while start < len(text) and text[start] in " \t":
            start += 1
        yield start
        end = text.rfind("\n", 0, end)
        if end < 0:
            return


class _TwiceError(ValueError):
    """An answer that has a name twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError(f"outputs are named {[name for name, _ in pairs]}; expected each name once")
    return found


def last_row(text: str) -> dict[str, float]:
    """Return the last row of a CSV, by the names in its header; other lines may come before it."""
    last: list[str] = []
    headers: dict[int, list[str]] = {}  # the last row of each length without a number
    for row in csv.reader(io.StringIO(text)):
        if row:
            last = row
            if not any(map(_is_number, row)):
                headers[len(row)] = row
    values = [float(entry) for entry in last]
    if not values or len(values) not in headers:
        raise ValueError("no header with a name for each number")
    names = [name.strip() for name in headers[len(values)]]
    if len(set(names)) < len(names):
        raise _TwiceError(f"outputs are named {names}; expected each name once")
    return dict(zip(names, values, strict=True))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
