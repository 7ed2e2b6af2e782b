"""Laws of the compiled kernels: who needs them, and where they are kept."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def run_python(code, **env):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_and_small_data_touch_no_compiler():
    code = (
        "import sys, numpy as np\n"
        "from steep.neighbors import neighbor_graph\n"
        "neighbor_graph(np.random.default_rng(0).normal(size=(1000, 13)), n_jobs=2)\n"
        "assert 'numba' not in sys.modules"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("n_points", [20_000, pytest.param(1_001, marks=pytest.mark.slow)])
def test_few_features_touch_no_compiler(n_points):
    code = (
        "import sys, numpy as np\n"
        "from steep.neighbors import neighbor_graph\n"
        f"neighbor_graph(np.random.default_rng(0).normal(size=({n_points}, 3)))\n"
        "assert 'numba' not in sys.modules"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


KERNEL = """
import numpy as np
from steep.neighbors.kernels.panels import sort_pairs
values, indices = np.array([2.0, 1.0]), np.array([0, 1])
sort_pairs(values, indices, 1)
assert indices.tolist() == [1, 0]
"""


@pytest.fixture
def read_only_install(tmp_path):
    """A copy of the package that no cache can be written to; the superuser is not bound by permissions."""
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("", "kernels"):
        (tmp_path / "src/steep/neighbors" / folder / "__pycache__").write_text("")
    return {"PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": ""}


@pytest.mark.slow
def test_a_read_only_install_caches_with_the_user(read_only_install, tmp_path):
    cache = tmp_path / "cache"
    done = run_python(KERNEL, **read_only_install, XDG_CACHE_HOME=str(cache))
    assert done.returncode == 0, done.stderr
    assert list(cache.rglob("*.nbi"))


@pytest.mark.slow
def test_kernels_compile_where_nothing_can_be_cached(read_only_install, tmp_path):
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    done = run_python(KERNEL, **read_only_install, XDG_CACHE_HOME=str(nowhere), HOME=str(nowhere))
    assert done.returncode == 0, done.stderr


FAULTY = """
import resource, warnings
from steep.exceptions import SteepWarning
limit = {limit}  # 0 is like a full disk: files can be created, nothing can be written to them
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as seen:
    exec({kernel!r})
    for _ in range(2):
        values, indices = np.array([2.0, 1.0], np.float32), np.array([0, 1])
        sort_pairs(values, indices, 1)
        assert indices.tolist() == [1, 0]
print([str(warning.message) for warning in seen if issubclass(warning.category, SteepWarning)])
"""


def warnings_of(cache, limit=-1):
    done = run_python(FAULTY.format(kernel=KERNEL, limit=limit), NUMBA_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)


def test_a_full_disk_is_one_warning(tmp_path):
    (warning,) = warnings_of(tmp_path, limit=0)
    assert "cannot be written (File too large); this process compiles them again" in warning
    assert str(tmp_path) in warning


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "kept"), [("nbi", 20), ("nbc", 2000)])
def test_a_damaged_cache_is_one_warning_and_is_replaced(tmp_path, suffix, kept):
    assert warnings_of(tmp_path) == []
    files = list(tmp_path.rglob(f"*sort_pairs*.{suffix}"))
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:kept])
    (warning,) = warnings_of(tmp_path)
    assert "cannot be read (" in warning
    assert warnings_of(tmp_path) == []
