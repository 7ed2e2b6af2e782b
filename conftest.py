"""What every test room shares."""

import os
import signal
import sys
from importlib.util import find_spec

import pytest

# steep.nn and reproduction need torch: without it neither their doctests nor their tests can be collected.
_NEED_TORCH = [
    "src/steep/nn/*",
    "tests/nn/*",
    "tests/architectures.py",
    "reproduction/*",
    "tests/reproduction/*",
    "tests/cli/test_improve.py",
]
collect_ignore_glob = [] if find_spec("torch") else _NEED_TORCH
# So do these files what they are about.
_NEED_DASK = ["src/steep/campaign/dask_cluster.py", "src/steep/dask/*", "tests/dask/*"]
collect_ignore_glob += [] if find_spec("distributed") else _NEED_DASK

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so would every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Pictures are drawn into memory; no test opens a window.
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True)
def _closed_figures():
    """Pictures of one test are gone before the next: matplotlib keeps them, and warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
