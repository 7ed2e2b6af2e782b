"""Run the tests, without torch, on other Pythons and on the lowest versions that pyproject.toml allows.

    python .ci/versions.py                    3.12, 3.13, and the lowest versions on 3.11
    python .ci/versions.py lowest             one of them
    python .ci/versions.py 3.12 -- tests/cli  some tests only

Each set has a virtual environment of its own, .venv-3.12 and so on, made once and kept. A Python that is not
installed is skipped, and said so.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# name: the Python it runs on
SETS = {"3.12": "3.12", "3.13": "3.13", "lowest": "3.11"}
# A data frame of today is not one that the oldest scikit-learn knows.
BESIDE = ["polars==1.0.0"]
# Old libraries beside a new one warn about each other; that is not ours to mend.
LENIENT = ["-W", "default::DeprecationWarning", "-W", "default::FutureWarning"]


def lower_bounds():
    """The lowest versions of what the library depends on, pictures included, as pip constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = [*project["dependencies"], *project["optional-dependencies"]["report"]]
    bounds = [re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement) for requirement in stated]
    unclear = [text for text, bound in zip(stated, bounds, strict=True) if bound is None]
    if unclear:
        raise SystemExit(f"pyproject.toml: {', '.join(unclear)} states no lowest version; expected name>=version")
    return [f"{bound[1]}=={bound[2]}" for bound in bounds] + BESIDE


def find_python(version):
    """Path of a Python of that version, from pyenv or the system; None when there is none."""
    homes = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    for home in homes:
        found = sorted(home.glob(f"{version}.*/bin/python"))
        if found:
            return str(found[-1])
    return shutil.which(f"python{version}")


def prepare(name, python):
    """The environment of one set, made when it is missing or older than pyproject.toml."""
    folder = ROOT / f".venv-{name}"
    stamp = folder / ".installed"
    if stamp.exists() and stamp.stat().st_mtime > (ROOT / "pyproject.toml").stat().st_mtime:
        return folder
    subprocess.run([python, "-m", "venv", folder], check=True)
    constraint = folder / "constraints.txt"
    constraint.write_text("\n".join(lower_bounds() if name == "lowest" else []) + "\n")
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    subprocess.run([*install, "--constraint", constraint, "--editable", ".[test]"], check=True, cwd=ROOT)
    stamp.touch()
    return folder


def run(name, arguments):
    """Whether the tests of one set pass, in words."""
    python = find_python(SETS[name])
    if python is None:
        return f"Python {SETS[name]} not found, skipped"
    folder = prepare(name, python)
    command = [folder / "bin" / "python", "-m", "pytest", "--quiet", "--timeout=300", "-m", "not slow"]
    command += ["-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider", *(LENIENT if name == "lowest" else [])]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run([*command, *arguments], check=False, cwd=ROOT, env=environment)
    return "passed" if done.returncode == 0 else f"FAILED (exit code {done.returncode})"


def main():
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    names, arguments = sys.argv[1:cut] or list(SETS), sys.argv[cut + 1 :]
    unknown = [name for name in names if name not in SETS]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; expected any of {', '.join(SETS)}")
    outcomes = {name: run(name, arguments) for name in names}
    for name, outcome in outcomes.items():
        print(f"{name}: {outcome}")
    return any(outcome.startswith("FAILED") for outcome in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
