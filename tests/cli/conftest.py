import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris


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
