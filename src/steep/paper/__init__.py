"""The paper, reproduced: every table and figure, under its own protocol and under one that cannot flatter."""

from steep.paper.runner import reproduce

__all__ = ["reproduce"]
