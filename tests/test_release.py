"""What is released: wheel and sdist are built, and installed where only the core dependencies can be found."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import steep

pytest.importorskip("hatchling")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def closure(names):
    """Installed distributions that these need, themselves included, without any extra."""
    found, waiting = {}, list(names)
    while waiting:
        name = re.split(r"[ \[<>=!~;(]", waiting.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except ModuleNotFoundError:  # for another platform or Python
            continue
        waiting += [line for line in found[name].requires or [] if "extra ==" not in line]
    return found.values()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def clean(built, tmp_path_factory):
    """A virtual environment with the wheel, and links to the core dependencies alone."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    for dist in closure(PROJECT["dependencies"]):
        for top in {file.parts[0] for file in dist.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(dist.locate_file(top))
    wheel = next(built.glob("*.whl"))
    command = [sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True, timeout=120)
    return folder / "bin"


def run(program, *arguments, cwd):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([program, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built):
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    inside = {name for name in names if ".dist-info/" not in name}
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == source


@pytest.mark.slow
def test_the_sdist_can_be_tested(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = archive.getnames()
    for wanted in (
        "pyproject.toml",
        "Makefile",
        "constraints.txt",
        "tests/conftest.py",
        "docs/index.md",
        "CHANGELOG.md",
    ):
        assert any(name.endswith(f"/{wanted}") for name in names), wanted


@pytest.mark.slow
def test_without_extras_the_command_weighs_a_table(clean, tmp_path):
    (tmp_path / "table.csv").write_text("x,y\n" + "".join(f"{i % 17},{i % 3}\n" for i in range(60)))
    out = run(clean / "steep", "weight", "table.csv", "--target", "y", "-m", "5", "-o", "weights.csv", cwd=tmp_path)
    assert (tmp_path / "weights.csv").exists(), out


@pytest.mark.slow
def test_without_extras_the_command_weighs_parquet(clean, tmp_path):
    frame = pd.DataFrame({"x": [i % 17 for i in range(60)], "colour": ["red", "blue", "red"] * 20, "y": [0, 1] * 30})
    frame.to_parquet(tmp_path / "table.parquet")
    run(clean / "steep", "weight", "table.parquet", "--target", "y", "-m", "5", cwd=tmp_path)
    assert "sample_weight" in pd.read_parquet(tmp_path / "table-weighted.parquet")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["weight", "table.csv", "--target", "y", "-m", "5", "--report", "page.html"],
        ["improve", "model:network", "--train", "train.npz", "--validation", "train.npz"],
        ["campaign", "page", "campaign.db"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_without_its_extra_a_command_says_how_to_get_it(clean, tmp_path, arguments):
    (tmp_path / "table.csv").write_text("x,y\n" + "".join(f"{i % 17},{i % 3}\n" for i in range(60)))
    np.savez(tmp_path / "train.npz", X=np.ones((4, 2)), y=[0, 1, 0, 1])
    with steep.Campaign({"u": (0.0, 1.0)}, storage=tmp_path / "campaign.db"):
        pass
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [clean / "steep", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install" in done.stderr


@pytest.mark.slow
def test_the_version_is_that_of_the_project(clean, tmp_path):
    assert run(clean / "steep", "--version", cwd=tmp_path).split() == ["steep", PROJECT["version"]]
    told = run(clean / "python", "-c", "import steep; print(steep.__version__, steep.__file__)", cwd=tmp_path).split()
    assert told[0] == PROJECT["version"]
    assert "site-packages" in told[1]


def test_the_changelog_has_a_dated_entry_for_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(PROJECT['version'])}\] - \d{{4}}-\d\d-\d\d$", changelog, re.M)
    assert f"version: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
