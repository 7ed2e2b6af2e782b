"""The paper, reproduced: every table and figure, under its own protocol and with the controls it lacked.

Run with ``python -m reproduction table1 --scale laptop`` at the top of the repository.
"""

from reproduction.runner import reproduce

__all__ = ["reproduce"]
