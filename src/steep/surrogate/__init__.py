"""A fast replacement of a simulator that one can trust: fitted, chosen, certified, and watched in use."""

from steep.surrogate._emulate import emulate
from steep.surrogate._hybrid import Hybrid, HybridReport, hybrid
from steep.surrogate.certificate import Certificate, OutputError
from steep.surrogate.surrogate import Surrogate

__all__ = ["Certificate", "Hybrid", "HybridReport", "OutputError", "Surrogate", "emulate", "hybrid"]
