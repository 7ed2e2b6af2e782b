"""``steep report`` and ``--report`` write the page of what they are given."""

import json

import numpy as np
import pytest

import steep
from steep.cli import main

pytest.importorskip("jinja2")


def report(*arguments):
    return main(["report", *map(str, arguments)])


def is_page(path):
    return path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_weighting_has_a_page_when_it_is_made_and_later(table, capsys):
    first, later, output = (table.with_name(name) for name in ("first.html", "later.html", "w.parquet"))
    options = ["--target", "kind", "-m", "10", "-o", str(output), "--report", str(first)]
    assert main(["weigh", str(table), *options]) == 0
    assert is_page(first)
    assert report(output, "--target", "kind", "-o", later, "--json") == 0
    assert is_page(later)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["about"] == "weighting"


def test_suspects_have_a_page(table):
    page = table.with_name("page.html")
    assert main(["suspects", str(table), "--target", "kind", "--report", str(page)]) == 0
    assert is_page(page)


@pytest.mark.parametrize("arguments", [
    ["weigh", "iris.csv", "--target", "kind", "-m", "10", "-o", "w.parquet", "--report"],
    ["suspects", "iris.csv", "--target", "kind", "--report"],
    ["design", "simulator:run", "--bounds", "x=0:1,t=0:10", "-n", "16", "--report"],
    ["campaign", "run", "campaign.db", "--command", "./solver --u0 {u0}", "--bounds", "u0=0:0.9", "-n", "9",
     "--report"],
    ["improve", "model:network", "--train", "train.npz", "--report"],
    ["report", "campaign.db", "-o"],
])  # fmt: skip
def test_the_folder_of_a_page_is_created(here, table, arguments):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    np.savez("train.npz", X=X, y=X[:, 0] > 0)
    if arguments[0] == "report":
        with steep.Campaign({"u0": (0.0, 1.0)}, storage=here / "campaign.db") as campaign:
            campaign.run(lambda u0: u0**2, 12)
    assert main([*arguments, "pages/of/today/page.html"]) == 0
    assert is_page(here / "pages/of/today/page.html")


def test_a_design_has_a_page_when_it_is_made_and_later(here, capsys):
    arguments = ["simulator:run", "--bounds", "x=0:1,t=0:10", "-n", "16", "--report", "first.html"]
    assert main(["design", *arguments]) == 0
    assert is_page(here / "first.html")
    assert report("design.csv", "--target", "u", "--target", "v", "-o", "later.html") == 0
    assert is_page(here / "later.html")
    assert "a page about a design" in capsys.readouterr().out
    assert report("design.csv", "--target", "w", "-o", "none.html") == 2
    assert "has no column 'w'; need an output; it has x, t, u, v" in capsys.readouterr().err


def test_a_campaign_has_a_page(here, capsys):
    with steep.Campaign({"u0": (0.0, 1.0)}, storage=here / "campaign.db") as campaign:
        campaign.run(lambda u0: u0**2, 12)
    assert report("campaign.db", "-o", "page.html") == 0
    assert is_page(here / "page.html")
    assert report("campaign.db", "-o", "page.html") == 2
    assert "is there already" in capsys.readouterr().err
    assert report("campaign.db", "-o", "page.html", "--force") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv"], "none.csv cannot be read"),
        (["iris.csv"], "has no column 'sample_weight'; need weights; run steep weigh"),
        (["iris.csv", "--weight-column", "a"], "need to know its labels; pass one --target"),
        (["iris.csv", "-o", "page.pdf"], "--output must end in .html, for example page.html; got page.pdf"),
        (["iris.csv", "-o", "iris.csv/page.html"], "the folder iris.csv cannot be created (File exists)"),
    ],
)
def test_bad_input_ends_with_one_line(table, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(table.parent)
    assert report(*arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert list(table.parent.iterdir()) == [table]
