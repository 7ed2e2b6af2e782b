"""What a campaign is: from a TOML file next to the solver, from options, or from both.

    store = "campaign.db"                       # all paths are relative to this file
    command = "./solver --u0 {u0} --t {t}"      # or: function = "simulator:run"
    outputs = "json"                            # or "csv", or a regular expression with a group an output
    runs = 200
    workers = 2
    timeout = 60

    [bounds]
    u0 = [0, 1]
    t = "0.1:10:log"
    material = ["steel", "copper"]

A constraint of the inputs is a Python function of X that returns booleans: ``constraint = "limits:allowed"``.

What is given on the command line comes before what is in the file.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steep.cli.bounds import axes_of
from steep.exceptions import InputError, StorageError

if TYPE_CHECKING:
    from steep.domain.axes import Axis


@dataclass(frozen=True)
class Settings:
    """Everything ``steep campaign run`` needs to know.

    Attributes
    ----------
    store : Path
        The campaign's file.
    command, function : str or None
        The simulator: a command line, or ``module:function``.
    bounds : dict of str to Axis, or None
        The inputs; None for those of the store.
    runs, n_initial : int or None
        Runs in all, and how many of them are the start.
    outputs : str
        How a program's answer is read.
    file, stdin : str or None
        File the answer is read from, and text a program is given.
    workers, retries, max_failures : int
        Runs at the same time, attempts after the first, and runs in a row that may fail alike (0 is any number).
    timeout, stop_error, stop_seconds : float or None
        Seconds a run may take, and when to stop early.
    measure : str or None
        What counts as variation.
    constraint : str or None
        Which points of the bounds may be run, as ``module:function``.
    seed : int or None
        Seed of the campaign.
    folder : Path
        What relative paths are relative to.
    """

    store: Path = Path("campaign.db")
    command: str | None = None
    function: str | None = None
    bounds: dict[str, Axis] | None = None
    runs: int | None = None
    n_initial: int | None = None
    outputs: str = "json"
    file: str | None = None
    stdin: str | None = None
    workers: int = 1
    retries: int = 1
    max_failures: int = 20
    timeout: float | None = None
    stop_error: float | None = None
    stop_seconds: float | None = None
    measure: str | None = None
    constraint: str | None = None
    seed: int | None = None
    folder: Path = field(default_factory=Path.cwd)

    def overridden(self, **given: Any) -> Settings:
        """The same with what the user gave in addition."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})


_KINDS: dict[str, tuple[type, ...]] = {
    "store": (str,), "command": (str,), "function": (str,), "bounds": (dict,), "runs": (int,), "n_initial": (int,),
    "outputs": (str,), "file": (str,), "stdin": (str,), "workers": (int,), "retries": (int,), "max_failures": (int,),
    "timeout": (int, float), "stop_error": (int, float), "stop_seconds": (int, float), "measure": (str,),
    "constraint": (str,), "seed": (int,),
}  # fmt: skip
assert {f.name for f in fields(Settings)} == {*_KINDS, "folder"}


def read_settings(path: Path) -> Settings:
    """Read a TOML file; paths in it are relative to its folder."""
    try:
        with path.open("rb") as file:
            entries = tomllib.load(file)
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}); need a TOML file; check its name") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML ({error}); see the page on campaign files") from error
    _check(path, entries)
    folder = path.resolve().parent
    found: dict[str, Any] = {**entries, "folder": folder}
    found["store"] = path.parent / entries.get("store", "campaign.db")
    if "bounds" in entries:
        try:
            found["bounds"] = axes_of(entries["bounds"])
        except (InputError, TypeError) as error:
            raise InputError(f"{path}: {error}") from error
    return Settings(**found)


def _check(path: Path, entries: Mapping[str, Any]) -> None:
    for name, value in entries.items():
        if name not in _KINDS:
            close = difflib.get_close_matches(name, _KINDS, n=1)
            meant = f"did you mean {close[0]!r}?" if close else f"it may have {', '.join(_KINDS)}"
            raise InputError(f"{path} has an unknown entry {name!r}; need known ones; {meant}")
        if not isinstance(value, _KINDS[name]) or isinstance(value, bool):
            kinds = " or ".join(
                {"str": "text", "int": "a whole number", "float": "a number", "dict": "a table"}[kind.__name__]
                for kind in _KINDS[name]
            )
            raise InputError(f"{path} has {name} = {value!r}; need {kinds}")
