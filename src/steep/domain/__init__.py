"""The space S: a box of real, logarithmic, whole-numbered or categorical inputs, with or without a constraint."""

from steep.domain.axes import Axis, Category, Integer, Log
from steep.domain.box import Bounds, Box, Constraint

__all__ = ["Axis", "Bounds", "Box", "Category", "Constraint", "Integer", "Log"]
