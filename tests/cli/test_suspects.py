"""``steep suspects`` ranks the labels of a table as the library does."""

import json

import pandas as pd
import pytest

from steep.cli import main


def suspects(table, *arguments):
    return main(["suspects", str(table), "--target", "kind", *map(str, arguments)])


@pytest.fixture
def wrong(table):
    frame = pd.read_csv(table)
    frame.loc[[3, 77], "kind"] = ["vi", "s"]
    frame.to_csv(table, index=False)
    return table


def test_wrong_labels_come_first(wrong, capsys):
    output = wrong.with_name("found.csv")
    assert suspects(wrong, "-o", output, "-n", "2", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert sorted(row["row"] for row in figures["top"]) == [3, 77]
    assert figures["verdict"].startswith("About ")
    found = pd.read_csv(output)
    assert len(found) == 150
    assert found["score"].is_monotonic_decreasing
    assert set(found["row"][:2]) == {3, 77}
    assert found.set_index("row").loc[3, ["label", "suggested"]].tolist() == ["vi", "s"]


def test_people_read_a_sentence_and_a_table(wrong, capsys):
    assert suspects(wrong) == 0
    printed = capsys.readouterr()
    assert "labels look wrong" in printed.out
    assert "neighbours that say so" in printed.out
    assert printed.err == ""
    assert list(wrong.parent.iterdir()) == [wrong]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "none/w.csv"], "its folder does not exist; create it first"),
        (["-o", "w.doc"], "has the suffix '.doc'"),
        (["-k", "500"], "n_neighbors=500"),
        (["--groups", "none"], "has no column 'none'"),
        (["--top", "0"], "Invalid value for"),
    ],
)
def test_bad_input_ends_with_one_line(table, capsys, arguments, message):
    assert suspects(table, *arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
