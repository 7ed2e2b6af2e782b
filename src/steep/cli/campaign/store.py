"""The store of a campaign: the SQLite file itself, or a TOML file that names it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.printing import aside
from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.campaign import Campaign
    from steep.cli.campaign.settings import Settings

Store = Annotated[
    Path,
    typer.Argument(
        metavar="STORE", help="The campaign's file (.db), or the TOML file it is described in.", show_default=True
    ),
]
DEFAULT = Path("campaign.db")


def find_store(path: Path) -> Path:
    """Return the store that a path means, which must be there."""
    return _existing(settings_of(path).store)


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise InputError(f"{path} is a folder; need the file of a campaign; name it")
    if not path.exists():
        raise InputError(f"{path} is not there; need the file of a campaign; start one with steep campaign run")
    return path


def open_campaign(path: Path) -> Campaign:
    """Open the campaign of a store."""
    from steep.campaign import Campaign

    settings = settings_of(path)
    return Campaign(storage=_existing(settings.store), constraint=constraint_of(settings))


def read_campaign(path: Path) -> Campaign:
    """Open the campaign of a store to look at it; nothing is written."""
    from steep.campaign.campaign import ReadCampaign

    settings = settings_of(path)
    return ReadCampaign(_existing(settings.store), constraint=constraint_of(settings))


def constraint_of(settings: Settings) -> Any:
    """The function that says which points may be run, or None."""
    if settings.constraint is None:
        return None
    from steep.cli.targets import load_target

    with aside():  # what its module prints is no part of the result
        return load_target(settings.constraint, folder=settings.folder)


def settings_of(path: Path) -> Settings:
    """What a TOML file says of a campaign; of a store, that it is the store."""
    from steep.cli.campaign.settings import Settings, read_settings

    return read_settings(path) if path.suffix.lower() == ".toml" else Settings(store=path)


def start_campaign(settings: Settings) -> Campaign:
    """Open the campaign of a store, or start one where there are bounds for it."""
    from steep.campaign import Campaign

    if settings.bounds is None and not settings.store.exists():
        raise InputError(
            f'{settings.store} is not there yet; need bounds for a new campaign; pass --bounds "u0=0:1,t=0.1:10:log"'
        )
    return Campaign(
        settings.bounds, storage=settings.store, n_initial=settings.n_initial, measure=settings.measure,
        random_state=settings.seed, constraint=constraint_of(settings),
    )  # fmt: skip
