"""``steep suspects`` ranks the labels of a table as the library does."""

import inspect
import json
import re

import numpy as np
import pandas as pd
import pytest

import steep
from steep._suspects.decisions import checksum
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
    assert figures["verdict"].startswith("Look first at row ")
    found = pd.read_csv(output)
    assert len(found) == 150
    assert found["score"].is_monotonic_decreasing
    assert set(found["row"][:2]) == {3, 77}
    assert found.set_index("row").loc[3, ["kind", "suggested"]].tolist() == ["vi", "s"]


def test_people_read_a_sentence_and_a_table(wrong, capsys):
    assert suspects(wrong) == 0
    printed = capsys.readouterr()
    assert "Look at these rows first." in printed.out
    assert "supporting neighbours" in printed.out
    assert printed.err == ""
    assert list(wrong.parent.iterdir()) == [wrong]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "none/w.csv"], "its folder does not exist; create it first"),
        (["-o", "w.doc"], "has the suffix '.doc'"),
        (["-o", "w.npy"], "has the suffix '.npy'; expected one of .csv"),
        (["-k", "500"], "--n-neighbors 500 needs at least 501 samples"),
        (["--groups", "none"], "has no column 'none'"),
        (["--top", "0"], "Invalid value for"),
    ],
)
def test_bad_input_ends_with_one_line(table, capsys, arguments, message):
    assert suspects(table, *arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_the_command_ranks_as_the_function_does(tmp_path, capsys):
    """The same k, the same gaps, the same reading of the labels."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "x": rng.normal(size=120), "colour": rng.choice(["red", "blue", None], size=120),
        "age": rng.integers(20, 60, size=120),
    })  # fmt: skip
    frame.loc[:9, "x"] = np.nan
    frame["kind"] = np.where(frame["x"].fillna(0) + rng.normal(scale=0.3, size=120) > 0, "a", "b")
    frame.to_csv(tmp_path / "t.csv", index=False)
    output = tmp_path / "found.csv"
    assert main(["suspects", str(tmp_path / "t.csv"), "--target", "kind", "-o", str(output)]) == 0
    expected = steep.suspects(frame.drop(columns="kind"), frame["kind"], random_state=0)
    found = pd.read_csv(output).sort_values("row")
    np.testing.assert_allclose(found["score"], expected.score, atol=1e-12)
    assert found["rank"].tolist() == expected.rank.tolist()


def test_the_default_of_the_help_is_that_of_the_function(capsys):
    assert main(["suspects", "--help"]) == 0
    default = inspect.signature(steep.suspects).parameters["n_neighbors"].default
    assert f"default: {default}" in " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_columns_of_the_table_are_carried_along(wrong, suffix, capsys):
    text = wrong.read_text().splitlines()
    wrong.write_text("\n".join([f"id,{text[0]},score", *(f"{i:05d},{line},NA" for i, line in enumerate(text[1:]))]))
    output = wrong.with_name(f"found{suffix}")
    assert suspects(wrong, "-o", output, "--drop", "id", "--drop", "score") == 0
    found = pd.read_csv(output, dtype={"id": str}) if suffix == ".csv" else pd.read_parquet(output)
    own = ["rank", "row", "suspect_score", "suggested", "neighbors"]
    assert found.columns.tolist() == [*own, "id", "a", "b", "c", "d", "kind", "score"]
    assert found["rank"].tolist() == list(range(1, 151))
    if suffix == ".csv":  # untouched, digit by digit
        lines = {line.partition(",")[0]: line for line in wrong.read_text().splitlines()[1:]}
        written = output.read_text().splitlines()[1:]
        assert all(row.endswith(lines[f"{number:05d}"]) for row, number in zip(written, found["row"], strict=True))


def test_rows_without_a_label_are_left_out_and_counted(wrong, capsys):
    frame = pd.read_csv(wrong)
    frame.loc[[0, 1, 100], "kind"] = None
    frame.to_csv(wrong, index=False)
    output = wrong.with_name("found.csv")
    assert suspects(wrong, "-o", output, "-n", "2", "--json") == 0
    printed = capsys.readouterr()
    assert "3 of 150 rows are left out: they have no label" in printed.err
    figures = json.loads(printed.out)
    assert (figures["samples"], figures["unlabelled"]) == (147, 3)
    assert sorted(row["row"] for row in figures["top"]) == [3, 77]
    found = pd.read_csv(output)
    assert set(found["row"]) == set(range(150)) - {0, 1, 100}
    assert sorted(found["row"][:2]) == [3, 77]
    named = {int(row) for text in found["neighbors"].dropna() for row in str(text).split()}
    assert not named & {0, 1, 100}


def test_the_page_shows_the_rows_of_the_file_when_labels_are_missing(wrong, capsys):
    frame = pd.read_csv(wrong)
    frame.loc[[0, 1, 50], "kind"] = None
    frame.to_csv(wrong, index=False)
    output, page = wrong.with_name("found.csv"), wrong.with_name("page.html")
    assert suspects(wrong, "-o", output, "--review", page, "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["verdict"].startswith(f"Look first at row {figures['top'][0]['row']},")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1])
    rows = [int(row) for row in data["names"]]
    assert set(rows[:2]) == {3, 77}
    assert rows == pd.read_csv(output)["row"].tolist()


def test_the_number_of_wrong_labels_comes_last_and_with_its_caveat(wrong, capsys):
    assert suspects(wrong) == 0
    printed = capsys.readouterr().out
    assert printed.index("supporting neighbours") < printed.index("labels may be wrong")
    caveat = "a rough estimate, which can be far off when errors follow a pattern"
    assert caveat in printed
    assert "more likely wrong than right" not in printed


def decisions_of(table, rows, suffix=".csv"):
    """What the page exports for some rows of the table, each given its suggested label."""
    frame = pd.read_csv(table)
    found = steep.suspects(frame.drop(columns="kind"), frame["kind"], random_state=0)
    names = [str(row) for row in range(len(frame))]
    data = checksum(found.label, names)
    path = table.with_name(f"d{suffix}")
    pd.DataFrame({"row": rows, "new_label": found.suggested[rows], "data": data}).to_csv(path, index=False)
    return path


def apply(table, *arguments):
    return suspects(table, "--apply", *arguments)


def test_apply_changes_the_decided_cells_and_not_one_other_byte(wrong, capsys):
    header, *lines = wrong.read_text(encoding="utf-8").splitlines()
    lines = [f'{line}, "a", "odd, ""cell""",007' for line in lines]
    text = "\r\n".join([f"{header},one,two,three", *lines, ""])
    wrong.write_text(text.replace(' "odd', '"odd'), encoding="utf-8", newline="")
    output = wrong.with_name("clean.csv")
    assert apply(wrong, decisions_of(wrong, [3, 77]), "-o", output) == 0
    assert "2 of 150 labels changed" in capsys.readouterr().out
    before, after = wrong.read_bytes().split(b"\r\n"), output.read_bytes().split(b"\r\n")
    changed = [row for row, (a, b) in enumerate(zip(before, after, strict=True), start=-1) if a != b]
    assert changed == [3, 77]
    assert after[4] == before[4].replace(b",vi,", b",s,")
    again = wrong.with_name("again.csv")
    assert apply(wrong, decisions_of(wrong, []), "-o", again) == 0
    assert again.read_bytes() == wrong.read_bytes()


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_apply_writes_other_formats_too(wrong, suffix, capsys):
    output = wrong.with_name(f"clean{suffix}")
    assert apply(wrong, decisions_of(wrong, [3, 77]), "-o", output) == 0
    found = pd.read_parquet(output) if suffix == ".parquet" else pd.read_feather(output)
    expected = pd.read_csv(wrong)
    expected.loc[[3, 77], "kind"] = ["s", "ve"]
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_apply_rejects_what_does_not_fit_and_writes_nothing(wrong, capsys):
    output = wrong.with_name("clean.csv")
    path = decisions_of(wrong, [3])
    wrong.write_text(wrong.read_text(encoding="utf-8").replace("vi\n", "s\n", 1), encoding="utf-8")
    cases = {
        "the checksums differ": [path, "-o", output],
        "expected --output and no --review": [path],
        "cannot be read": [wrong.with_name("none.csv"), "-o", output],
    }
    for said, arguments in cases.items():
        assert apply(wrong, *arguments) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert not output.exists()
