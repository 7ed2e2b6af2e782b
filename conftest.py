"""What every test room shares."""

from importlib.util import find_spec

# steep.nn and steep.paper need torch: without it neither their doctests nor their tests can be collected.
_NEED_TORCH = ["src/steep/nn/*", "tests/nn/*", "tests/architectures.py", "src/steep/paper/*", "tests/paper/*"]
collect_ignore_glob = [] if find_spec("torch") else _NEED_TORCH
