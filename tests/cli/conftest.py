import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

SOLVER = """#!{python} -S
import argparse, json, math

options = argparse.ArgumentParser()
options.add_argument("--u0", type=float)
options.add_argument("--t", type=float, default=1.0)
given = options.parse_args()
if given.u0 > 0.95:
    raise SystemExit(f"diverged at {{given.u0}}")
print(json.dumps({{"u": math.tanh(20 * (given.u0 - 0.3)) * given.t}}))
"""

SIMULATOR = """
import math

print("loading")


def run(x, t):
    print("running")
    return {"u": math.tanh(20 * (x - 0.3)) * t, "v": x + t}


def together(X):
    return X[:, 0] ** 2 + X[:, 1]


def failing(x):
    raise ValueError(f"no root at {x}")


number = 3
"""

MODEL = """
import torch

print("loading")


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
"""


@pytest.fixture
def points():
    """Iris without its many ties, which a rounding in the last digit would break differently."""
    return load_iris().data + np.random.default_rng(0).normal(scale=0.01, size=(150, 4))


@pytest.fixture
def kinds():
    return load_iris().target


@pytest.fixture
def table(tmp_path, points, kinds):
    """A file of four numeric columns a to d and the class, as text."""
    frame = pd.DataFrame(points, columns=list("abcd")).assign(kind=np.array(["s", "ve", "vi"])[kinds])
    path = tmp_path / "iris.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own to work in, with a solver, a simulator and a model; their modules are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    (tmp_path / "solver").write_text(SOLVER.format(python=sys.executable))
    (tmp_path / "solver").chmod(0o755)
    (tmp_path / "simulator.py").write_text(SIMULATOR)
    (tmp_path / "model.py").write_text(MODEL)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def start():
    """Start the real command in a process of its own; it is ended with the test."""
    running = []

    def begin(*arguments, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        process = subprocess.Popen([sys.executable, "-m", "steep", *map(str, arguments)], **pipes)
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()
