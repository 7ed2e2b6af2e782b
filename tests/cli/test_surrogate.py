"""``steep surrogate`` and ``steep emulate`` give the model, the certificate and the errors of the library."""

import json

import numpy as np
import pandas as pd
import pytest

import steep
from steep.cli import main

BOUNDS = "x=0:1,t=0:10"


def f(x, t):
    return np.sin(3 * x) + 0.1 * t


@pytest.fixture
def table(here):
    X = steep.Box({"x": (0, 1), "t": (0, 10)}).uniform(70, random_state=0)
    pd.DataFrame({"x": X[:, 0], "t": X[:, 1], "u": f(X[:, 0], X[:, 1]), "is_even": True}).to_csv(
        "runs.csv", index=False
    )
    return pd.read_csv("runs.csv")


def test_the_model_is_that_of_the_library(table, here, capsys):
    pd.DataFrame({"t": [5.0], "x": [0.5]}).to_csv("new.csv", index=False)
    assert main(["surrogate", "runs.csv", "--bounds", BOUNDS, "--predict", "new.csv", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    model = steep.Surrogate({"x": (0, 1), "t": (0, 10)}, random_state=0).fit(table[["x", "t"]], table[["u"]])
    again = steep.Surrogate.load("model.steep")
    assert again.certificate == model.certificate
    assert figures["error"]["u"]["bound"] == model.certificate.outputs[0].bound
    found = pd.read_csv("predictions.csv")
    value, half = model.predict([[0.5, 5.0]], return_error=True)
    np.testing.assert_allclose(found[["u", "u_half_width"]].to_numpy(), [[value[0], half[0]]], rtol=1e-9)


def test_predictions_without_enough_check_runs_leave_no_model(table, here, capsys):
    table.head(20).to_csv("few.csv", index=False)
    assert main(["surrogate", "few.csv", "--bounds", BOUNDS, "--predict", "runs.csv"]) == 2
    assert "make more runs" in capsys.readouterr().err
    assert not (here / "model.steep").exists()


def test_only_finished_runs_of_a_campaign_count_and_check_runs_certify(table, here, capsys):
    table["state"], table["origin"] = "done", "design"
    table.loc[:24, "origin"] = "check"
    table.loc[60:, ["state", "u"]] = ["failed", np.nan]
    table.to_csv("campaign.csv", index=False)
    assert main(["surrogate", "campaign.csv", "--bounds", BOUNDS, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["runs"], figures["checks"], list(figures["error"])) == (60, 25, ["u"])


def test_emulate_says_whether_it_is_certified(here, capsys):
    (here / "sim.py").write_text("import math\ndef run(x, t):\n    return {'u': math.sin(3 * x) + 0.1 * t}\n")
    assert main(["emulate", "sim:run", "--bounds", BOUNDS, "-n", "60", "--tolerance", "0.2", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["certified"] is True
    assert figures["reason"].startswith("certified after")
    assert steep.Surrogate.load("model.steep").outputs == ("u",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["surrogate", "runs.csv"], "--bounds is missing"),
        (["surrogate", "runs.csv", "--bounds", "x=0:1,z=0:1"], "the table lacks column 'z'"),
        (["surrogate", "runs.csv", "--bounds", BOUNDS, "--outputs", "v"], "the table lacks column 'v'"),
        (["surrogate", "runs.csv", "--bounds", "x=0:1,t=0:5"], "lie outside the bounds"),
        (["emulate", "sim:run", "--bounds", BOUNDS, "-n", "10"], "module 'sim'"),
    ],
    ids=["bounds", "input", "output", "outside", "module"],
)
def test_what_cannot_work_is_one_line(arguments, message, table, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") <= 2
