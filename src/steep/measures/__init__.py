"""Measures: how much a function varies around each point."""
