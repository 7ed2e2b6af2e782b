"""Campaigns: expensive, failing, distributed simulators, run where they vary, with nothing lost."""

from steep.campaign.campaign import Campaign
from steep.campaign.command import command_simulator

__all__ = ["Campaign", "command_simulator"]
