import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from steep import sample_weights
from steep.cli import main


def points():
    """Iris without its many ties, which a rounding in the last digit would break differently."""
    return load_iris().data + np.random.default_rng(0).normal(scale=0.01, size=(150, 4))


@pytest.fixture
def table(tmp_path):
    X, y = points(), load_iris().target
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(kind=np.array(["s", "ve", "vi"])[y])
    path = tmp_path / "iris.csv"
    frame.to_csv(path, index=False)
    return path


def test_weigh_adds_the_weights_as_a_column(table, capsys):
    assert main(["weigh", str(table), "--target", "kind", "--weight-ratio", "10", "--n-neighbors", "9"]) == 0
    weighted = pd.read_csv(table.with_name("iris-weighted.csv"))
    X, y = points(), load_iris().target
    np.testing.assert_allclose(
        weighted["sample_weight"], sample_weights(X, y, weight_ratio=10, n_neighbors=9)
    )
    assert weighted.columns.tolist() == ["a", "b", "c", "d", "kind", "sample_weight"]
    assert "150 samples weighted from" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "price"], "has no column 'price'; its columns are a, b, c, d, kind"),
        (["--target", "a"], "columns 'kind' are not numeric; need numbers; leave them out with --drop"),
        (["--target", "kind", "--n-neighbors", "500"], "n_neighbors=500 needs at least 500 samples, got 150"),
    ],
)
def test_bad_input_ends_with_one_line(table, capsys, arguments, message):
    assert main(["weigh", str(table), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(table.parent.iterdir()) == [table]


def test_dropped_columns_are_left_out_of_the_search(table):
    assert (
        main(
            ["weigh", str(table), "--target", "a", "--drop", "kind", "--output", str(table.parent / "w.csv")]
        )
        == 0
    )
    X = points()
    np.testing.assert_allclose(
        pd.read_csv(table.parent / "w.csv")["sample_weight"], sample_weights(X[:, 1:], X[:, 0])
    )


def test_a_file_that_is_missing_or_no_table_is_named(tmp_path, capsys):
    assert main(["weigh", str(tmp_path / "none.csv"), "--target", "a"]) == 2
    assert "none.csv" in capsys.readouterr().err
    (tmp_path / "empty.csv").write_text("")
    assert main(["weigh", str(tmp_path / "empty.csv"), "--target", "a"]) == 2
    assert "is not a CSV table" in capsys.readouterr().err


def test_the_command_is_installed_and_knows_its_version():
    run = subprocess.run(
        [sys.executable, "-m", "steep", "--version"], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("steep 0.")


def test_demo_writes_its_pictures(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path / "out")]) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"design.png", "weights.png"}
    printed = capsys.readouterr().out
    assert all(str(p) in printed for p in (tmp_path / "out").iterdir())
