"""The paper, reproduced: every table and figure, under its own protocol and under one that cannot flatter."""

from steep.paper.page import reproduction_page
from steep.paper.runner import reproduce

__all__ = ["reproduce", "reproduction_page"]
