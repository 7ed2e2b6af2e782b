"""Pages for ``--report``: written by :mod:`steep.report`, which is loaded only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steep.cli.destinations import check_destination
from steep.exceptions import InputError, MissingExtraError


def check_page(path: Path | None, *, force: bool, option: str = "--report") -> None:
    """Check before any work is done that a page can be written; its folder is created."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{option} must end in .html, for example page.html; got {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{option} {path}: the folder {path.parent} cannot be created ({error.strerror}); choose another one"
        ) from error
    check_destination(path, force=force, option=option)
    writer_of("weighting_page")


def writer_of(name: str) -> Any:
    """The function of :mod:`steep.report` that writes a page."""
    try:
        from steep import report
    except ImportError as error:
        raise MissingExtraError(
            f"pages need more packages ({error}); need the extra 'report'; run pip install 'steep[report]'"
        ) from error
    return getattr(report, name)
