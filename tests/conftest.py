"""Settings of all tests."""

from hypothesis import settings

# How long an example takes depends on the machine, and decides nothing.
settings.register_profile("steep", deadline=None)
settings.load_profile("steep")
