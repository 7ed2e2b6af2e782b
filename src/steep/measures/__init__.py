"""Measures: how much a function varies around each point. :mod:`steep.measures.registry` lists them."""

from steep.measures.neighborhood import FunctionAround, Neighborhood
from steep.measures.registry import MEASURES, Measure, resolve

__all__ = ["MEASURES", "FunctionAround", "Measure", "Neighborhood", "resolve"]
