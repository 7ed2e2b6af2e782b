"""Settings of all tests."""

import os

from hypothesis import settings

# How long an example takes depends on the machine, and decides nothing. Examples are the same in every run, so that
# tests pass or fail for everybody alike; STEEP_EXPLORE=1 draws new ones.
settings.register_profile("steep", deadline=None, derandomize="STEEP_EXPLORE" not in os.environ)
settings.load_profile("steep")
