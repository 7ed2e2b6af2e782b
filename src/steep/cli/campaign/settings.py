"""What a campaign is: from a TOML file next to the solver, and from options, which come first.

A constraint is text, ``constraint = "u0 * t <= 5"``, or a Python function of X that returns booleans,
``constraint = "limits:allowed"``.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli import options
from steep.cli.printing import aside, note
from steep.exceptions import InputError, SteepError, StorageError

if TYPE_CHECKING:
    from steep.campaign import Campaign
    from steep.domain.axes import Axis

# How a file writes the entries of each type, in words and in Python's types.
_KINDS: dict[str, tuple[str, Any]] = {
    "Path": ("text", str), "str": ("text", str), "int": ("a whole number", int), "float": ("a number", int | float),
    "dict[str, Axis]": ("a table", dict), "dict[str, Any]": ("a table", dict),
}  # fmt: skip
_STORE = "The campaign's file (.db), or the TOML file it is described in."
_PROGRAM = 'Your simulator as a program: "./solver --u0 {u0}". No shell is involved.'
_FUNCTION = "Your simulator as a Python function."
_RUNS = "Runs in all, those made before included."
_INITIAL = "Runs of the even start of a new campaign; default a quarter."
Store = Annotated[Path, typer.Argument(metavar="STORE", help=_STORE, show_default=True)]
Function = Annotated[str | None, typer.Argument(metavar="MODULE:FUNCTION", help=_FUNCTION, show_default=False)]
Program = Annotated[str | None, typer.Option("--command", help=_PROGRAM)]
Runs = Annotated[int | None, typer.Option("-n", "--runs", help=_RUNS)]
Initial = Annotated[int | None, typer.Option("--initial", help=_INITIAL)]
NewSeed = Annotated[int | None, typer.Option("--seed", help="Seed of a new campaign; default 0.")]
DEFAULT = Path("campaign.db")


@dataclass(frozen=True)
class Settings:
    """Entries of a campaign file, and the folder that relative paths start from; None is what the store decides."""

    store: Path = DEFAULT
    command: str | None = None
    function: str | None = None
    bounds: dict[str, Axis] | None = None
    runs: int | None = None
    initial: int | None = None
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
    rejects: int | None = None
    keep: str | None = None
    templates: dict[str, Any] | None = None
    slurm: dict[str, Any] | None = None
    seed: int | None = None
    folder: Path = field(default_factory=Path.cwd)

    def overridden(self, bounds: str | None = None, **given: Any) -> Settings:
        """The same with what the user gave in addition."""
        axes = None if bounds is None else options.parse_bounds(bounds)
        return replace(self, **{name: value for name, value in {"bounds": axes, **given}.items() if value is not None})

    def stop_when(self) -> dict[str, float] | None:
        """When to stop before the budget is spent, as :meth:`Campaign.run` takes it."""
        given = {"error": self.stop_error, "seconds": self.stop_seconds}
        return {name: value for name, value in given.items() if value is not None} or None

    def check_bounds(self) -> None:
        """A new campaign needs bounds."""
        if self.bounds is None and not self.store.exists():
            raise InputError(
                f'{self.store} does not exist yet; a new campaign needs bounds; pass --bounds "u0=0:1,t=0.1:10:log"'
            )


def read_settings(path: Path) -> Settings:
    """Read a TOML file; paths in it are relative to its folder."""
    try:
        with path.open("rb") as file:
            entries = tomllib.load(file)
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}); expected a TOML file; check its name") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML ({error}); see the page on campaign files") from error
    _check(path, entries)
    folder = path.resolve().parent
    found: dict[str, Any] = {**entries, "folder": folder}
    if "keep" in entries:
        found["keep"] = str(folder / entries["keep"])
    found["store"] = path.parent / entries.get("store", "campaign.db")
    if "bounds" in entries:
        try:
            found["bounds"] = options.axes_of(entries["bounds"])
        except (InputError, TypeError) as error:
            raise InputError(f"{path}: {error}") from error
    return Settings(**found)


def _check(path: Path, entries: dict[str, Any]) -> None:
    known = {f.name: _KINDS[str(f.type).removesuffix(" | None")] for f in fields(Settings) if f.name != "folder"}
    for name, value in entries.items():
        if name not in known:
            raise InputError(f"{path} has an unknown entry {name!r}; it may have {', '.join(known)}")
        words, kinds = known[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise InputError(f"{path} has {name} = {value!r}; expected {words}")


def _existing(path: Path) -> Path:
    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {what}; expected the file of a campaign; start one with steep campaign run")
    return path


def open_campaign(path: Path) -> Campaign:
    """Open the campaign of a store."""
    from steep.campaign import Campaign

    settings = settings_of(path)
    return Campaign(storage=_existing(settings.store), constraint=constraint_of(settings))


def read_campaign(path: Path, *, warns: bool = True) -> Campaign:
    """Open the campaign of a store to look at it; nothing is written. Without ``warns`` it needs no constraint."""
    from steep.campaign.campaign import ReadCampaign

    settings = settings_of(path)
    constraint = constraint_of(settings) if warns else None
    move_on(settings)
    return ReadCampaign(_existing(settings.store), constraint=constraint, warns=warns)


def move_on(settings: Settings) -> None:
    """Record what has ended in SLURM and fill its queue, where the campaign uses it; whatever goes wrong is a note."""
    if not settings.store.is_file() or not settings.store.with_suffix(".slurm").exists():
        return
    from steep.campaign import Campaign, slurm

    try:
        with Campaign(storage=settings.store, constraint=constraint_of(settings)) as campaign:
            slurm.advance(campaign, wait=False)
    except SteepError as wrong:
        note(f"the queue of SLURM was left alone: {wrong}")


def constraint_of(settings: Settings) -> Any:
    """What says which points may be run: text over the inputs, a function, or None."""
    if settings.constraint is None or not re.fullmatch(r"[\w./]+:[\w.]+", settings.constraint.strip()):
        return settings.constraint
    with aside():  # what its module prints is not part of the result
        return options.load_target(settings.constraint, folder=settings.folder)


def settings_of(path: Path) -> Settings:
    """What a TOML file says of a campaign; of a store, that it is the store."""
    return read_settings(path) if path.suffix.lower() == ".toml" else Settings(store=path)


def start_campaign(settings: Settings) -> Campaign:
    """Open the campaign of a store, or start one where there are bounds for it."""
    from steep.campaign import Campaign
    from steep.sampling import Adaptive

    settings.check_bounds()
    strategy = None if settings.measure is None else Adaptive(settings.measure)
    return Campaign(
        settings.bounds, storage=settings.store, n_initial=settings.initial, strategy=strategy,
        random_state=settings.seed, constraint=constraint_of(settings),
    )  # fmt: skip
