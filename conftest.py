"""What every test room shares."""

from importlib.util import find_spec

# steep.nn is the only door to torch: without it neither its doctests nor its tests can be collected.
collect_ignore_glob = [] if find_spec("torch") else ["src/steep/nn/*", "tests/nn/*", "tests/architectures.py"]
