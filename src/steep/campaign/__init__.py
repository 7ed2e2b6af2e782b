"""Campaigns: expensive, failing, distributed simulators, run where they vary, with nothing lost."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign
    from steep.campaign.command import command_simulator
    from steep.campaign.slurm import Slurm

__all__ = ["Campaign", "Slurm", "command_simulator"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: a task on a node needs a program, and no pandas."""
    from importlib import import_module

    homes = {"Campaign": "campaign", "Slurm": "slurm", "command_simulator": "command"}
    if name not in homes:
        raise AttributeError(f"module 'steep.campaign' has no attribute {name!r}")
    return getattr(import_module(f"steep.campaign.{homes[name]}"), name)
