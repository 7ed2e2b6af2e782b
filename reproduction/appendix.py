"""Table 8 (Appendix B): the hyper-parameters of every experiment, read from ``appendix_b.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from steep._validation import check_choice


@dataclass(frozen=True)
class Row:
    """One row of Table 8; ``code`` holds what the authors' code uses instead, where that differs."""

    m: float
    k: int
    learning_rate: float
    batch_size: int
    epochs: int
    optimizer: str
    seeds: int
    code: dict[str, Any]


@cache
def table8() -> dict[str, Row]:
    """All rows by name.

    Examples
    --------
    >>> table8()["mnist"].m
    40
    """
    text = files("reproduction").joinpath("appendix_b.toml").read_text(encoding="utf-8")
    return {name: Row(**{"code": {}, **row}) for name, row in tomllib.loads(text).items()}


def row(name: str) -> Row:
    """One row of Table 8."""
    check_choice(name, name="name", choices=tuple(table8()))
    return table8()[name]
