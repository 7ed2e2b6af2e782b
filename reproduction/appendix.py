"""Table 8 (Appendix B): the hyper-parameters of every experiment, read from ``appendix_b.toml``."""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from steep._validation import check_choice


@dataclass(frozen=True)
class Row:
    """One row of Table 8; ``code`` holds what the authors' code uses instead, if it differs."""

    m: float
    k: int
    learning_rate: float
    batch_size: int
    epochs: int
    optimizer: str
    seeds: int
    code: dict[str, Any] = field(default_factory=dict)


@cache
def _rows() -> dict[str, Row]:
    text = files("reproduction").joinpath("appendix_b.toml").read_text(encoding="utf-8")
    return {name: Row(**row) for name, row in tomllib.loads(text).items()}


def row(name: str) -> Row:
    """One row of Table 8."""
    check_choice(name, name="name", choices=tuple(_rows()))
    return _rows()[name]
