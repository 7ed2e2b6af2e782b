"""``--report`` writes the page of what was done."""

import pytest

from steep.cli import main

pytest.importorskip("jinja2")


@pytest.mark.parametrize("arguments", [
    ["weight", "iris.csv", "--target", "kind", "-m", "10", "-o", "w.parquet"],
    ["suspects", "iris.csv", "--target", "kind"],
    ["design", "simulator:run", "--bounds", "x=0:1,t=0:10", "-n", "16"],
    ["campaign", "run", "campaign.db", "--command", "./solver --u0 {u0}", "--bounds", "u0=0:0.9", "-n", "9"],
])  # fmt: skip
def test_the_page_is_written_and_its_folder_created(here, table, arguments):
    option = "--review" if arguments[0] == "suspects" else "--report"
    assert main([*arguments, option, "pages/of/today/page.html"]) == 0
    page = here / "pages/of/today/page.html"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("page.pdf", "--report must end in .html, for example page.html; got page.pdf"),
        ("iris.csv/page.html", "the folder iris.csv cannot be created (File exists)"),
        ("iris.html", "iris.html exists already"),
    ],
)
def test_a_page_that_cannot_be_written_is_rejected_before_any_work(table, capsys, monkeypatch, page, message):
    monkeypatch.chdir(table.parent)
    table.with_name("iris.html").write_text("mine")
    assert main(["weight", "iris.csv", "--target", "kind", "-m", "3", "--report", page]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert {path.name for path in table.parent.iterdir()} == {"iris.csv", "iris.html"}
