"""Labels that are probably wrong."""

from steep._suspects.result import Suspects
from steep._suspects.suspects import suspects

__all__ = ["Suspects", "suspects"]
