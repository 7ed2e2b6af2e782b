"""A cell means what it looks like: a date is never a number, and a number is never a name."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from steep.cli.tables import open_table
from steep.exceptions import SteepError


@pytest.fixture
def read(tmp_path):
    def begin(text, name="t.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        table = open_table([path])
        return table.frame(table.names)

    return begin


def kinds(frame):
    return "".join("T" if column.dtype.kind == "O" else column.dtype.kind for _, column in frame.items())


# ------------------------------------------------------------------------------------------- dates


@pytest.mark.parametrize("amount", ["7.890,00", "7890,00", "7.890", "7,5", "7"])
@pytest.mark.parametrize(
    "days",
    [
        ("28.07.2013", "29.07.2013"),
        ("28.07.13", "29.07.13"),
        ("28.7.2013 14:30", "29.7.2013 14:30"),
        ("2013-07-28", "2013-07-29"),
        ("20130728", "20130729"),
        ("28. Juli 2013", "29. Juli 2013"),
    ],
)
def test_a_date_is_a_date_whatever_the_numbers_of_the_file_look_like(read, days, amount):
    frame = read(f"day;amount\n{days[0]};{amount}\n{days[1]};1{amount}\n")
    assert frame["day"].dtype.kind == "M"
    assert frame["day"].dt.strftime("%d.%m.%Y").tolist() == ["28.07.2013", "29.07.2013"]
    assert frame["amount"].dtype.kind in "if"


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (("28 Jul 2013", "1 Aug 2013"), ("2013-07-28", "2013-08-01")),
        (("28-Jul-13", "1-Aug-13"), ("2013-07-28", "2013-08-01")),
        (('"Jul 28, 2013"', '"Aug 1, 2013"'), ("2013-07-28", "2013-08-01")),
        (("07.2013", "08.2013"), ("2013-07-01", "2013-08-01")),
        (("07/2013", "08/2013"), ("2013-07-01", "2013-08-01")),
        (("7/28/2013 3:05 PM", "8/1/2013 12:00 AM"), ("2013-07-28 15:05", "2013-08-01")),
        (("28/07/69", "28/07/68"), ("1969-07-28", "2068-07-28")),
        (("-", "2013-07-28"), (None, "2013-07-28")),
    ],
)
def test_dates_of_many_kinds_are_read(read, texts, days):
    frame = read(f"day,x\n{texts[0]},1\n{texts[1]},2\n")
    assert frame["day"].tolist() == [pd.NaT if day is None else pd.Timestamp(day) for day in days] or (
        pd.isna(frame["day"][0]) and days[0] is None
    )


def test_day_and_month_are_told_apart_by_the_whole_column(read):
    late = [f"{1 + i % 12}/{1 + i % 12}/2013" for i in range(1500)]
    day_first = read("day,x\n" + "\n".join(f"{day},1" for day in [*late, "2/3/2013", "28/7/2013"]))
    assert day_first["day"].iloc[-2] == pd.Timestamp("2013-03-02")
    contradictory = read("day,x\n" + "\n".join(f"{day},1" for day in [*late, "28/7/2013", "7/28/2013"]))
    assert kinds(contradictory) == "Ti"


@pytest.mark.parametrize("text", ["1.2.3", "192.168.0.1", "1.234.5", "1.2.30000"])
def test_versions_and_addresses_are_not_numbers_beside_thousands(read, text):
    frame = read(f"v;amount\n{text};7.890,00\n{text};1,5\n")
    assert frame["v"].tolist() == [text, text]
    assert frame["amount"].tolist() == [7890.0, 1.5]


def test_eight_digits_that_are_not_all_dates_stay_numbers(read):
    frame = read("code,x\n20130728,1\n20139999,2\n")
    assert frame["code"].tolist() == [20130728, 20139999]


# ------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (("1.234,5", "7,25"), (1234.5, 7.25)),
        (("1.234", "0,5"), (1234.0, 0.5)),
        (("1.234.567", "89"), (1234567.0, 89.0)),
        (("1 234,5", "0,5"), (1234.5, 0.5)),
        (("1\u202f234,5", "0,5"), (1234.5, 0.5)),
        (("1'234.5", "0.5"), (1234.5, 0.5)),
        (('"1,234.5"', "0.5"), (1234.5, 0.5)),
        (("1,234", "5,678"), (1.234, 5.678)),  # semicolons: decimal commas are likely
        (("-1,5", "+2,5e3"), (-1.5, 2500.0)),
        (("1,5", "-"), (1.5, None)),
        (("1.5", "n.a."), (1.5, None)),
        (("1.5", "unknown"), (1.5, None)),
        (("12", "#DIV/0!"), (12.0, None)),
        (("45 %", "7,5%"), (45.0, 7.5)),
        (("45 %", "45%"), (45.0, 45.0)),
        (("$1,200.50", "$7"), (1200.5, 7.0)),
        (("1.200,50 €", "7,00 €"), (1200.5, 7.0)),
    ],
)
def test_numbers_are_read_however_they_are_written(read, cells, values):
    frame = read(f"x;y\n{cells[0]};a\n{cells[1]};b\n")
    expected = [np.nan if value is None else value for value in values]
    np.testing.assert_array_equal(frame["x"].to_numpy(dtype=float), expected)


def test_points_and_commas_are_read_column_by_column(read):
    frame = read("lat;price;n\n52.5201;1,5;1.234\n9.1;2.000,75;12\n")
    assert frame["lat"].tolist() == [52.5201, 9.1]
    assert frame["price"].tolist() == [1.5, 2000.75]


def test_quoted_decimal_commas_between_commas_are_numbers(read):
    assert read('x,y\n"1,5",a\n"22,75",b\n')["x"].tolist() == [1.5, 22.75]
    assert read('x,y\n"1,234",a\n999,b\n')["x"].tolist() == [1234.0, 999.0]


@pytest.mark.parametrize("text", ["x, y, kind\n1, 2.5, a\n3, 4.5, b\n", "x , y ,kind \n1 ,2.5 ,a \n3, 4.5, b\n"])
def test_spaces_around_cells_and_names_are_no_part_of_them(read, text):
    frame = read(text)
    assert frame.to_dict("list") == {"x": [1, 3], "y": [2.5, 4.5], "kind": ["a", "b"]}


def test_spaces_hide_no_missing_value(read):
    frame = read("x,kind\n1, NA \n , a\n")
    assert frame.isna().to_numpy().tolist() == [[False, True], [True, False]]


def test_a_table_separated_by_spaces_is_read(read):
    assert read("x  y kind\n1 2.5   a\n3 4.5 b\n").to_dict("list") == {"x": [1, 3], "y": [2.5, 4.5], "kind": ["a", "b"]}


def test_months_without_a_mark_are_dates_and_prices_are_not(read):
    months = read("m,x\n" + "\n".join(f"{year}{month:02d},1" for year in (2012, 2013) for month in range(1, 13)))
    assert months["m"].tolist()[:2] == [pd.Timestamp("2012-01-01"), pd.Timestamp("2012-02-01")]
    prices = read("m,x\n" + "\n".join(f"{200_000 + 37 * i},1" for i in range(24)))
    assert prices["m"].dtype.kind == "i"


def test_a_dash_among_names_is_a_name(read):
    assert read("kind,x\n-,1\nred,2\n")["kind"].tolist() == ["-", "red"]


@pytest.mark.parametrize(("decimal", "value"), [(",", 1234.0), (".", 1.234)])
def test_what_the_user_says_decides_between_two_readings(tmp_path, decimal, value):
    (tmp_path / "t.csv").write_text("x;y\n1.234;a\n5.678;b\n")
    frame = open_table([tmp_path / "t.csv"], decimal=decimal).frame(["x"])
    assert frame["x"][0] == value


def test_a_reading_that_may_surprise_is_stated(tmp_path):
    rows = "\n".join(f"{i}.000;{i / 2};1/{1 + i % 12}/2013;{i if i % 30 else '<5'}" for i in range(1, 90))
    (tmp_path / "t.csv").write_text("big;x;day;n\n" + rows.replace(".5;", ",5;").replace(".0;", ",0;"))
    remarks = open_table([tmp_path / "t.csv"]).remarks
    assert remarks["big"] == "'big' has thousands separators: '1.000' is read as 1000"
    assert remarks["day"] == "'day' is read as month/day/year, for example '1/2/2013' as 2013-01-02"
    assert "'n' is read as categories: " in remarks["n"]
    assert "'<5'" in remarks["n"]
    assert set(remarks) == {"big", "day", "n"}


# ------------------------------------------------------------------------------------------- packed and other files


def test_a_zipped_table_is_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("folder/t.csv", "x,y\n1,a\n2,b\n")
        archive.writestr("__MACOSX/._t.csv", "junk")
    table = open_table([tmp_path / "t.zip"])
    assert table.frame(["x", "y"]).to_dict("list") == {"x": [1, 2], "y": ["a", "b"]}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.csv": "x\n1\n", "b.csv": "x\n1\n"}, r"holds 2 files \('a\.csv', 'b\.csv'\); expected one CSV file"),
        ({}, "holds 0 files"),
        ({"X.npy": "no", "y.npy": "no"}, "is a NumPy archive"),
        ({"t.parquet": "PAR1"}, r"holds 't\.parquet'; expected one CSV file"),
    ],
)
def test_an_archive_of_anything_else_is_named(tmp_path, members, message):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    with pytest.raises(SteepError, match=message) as caught:
        open_table([tmp_path / "t.zip"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json"])
def test_lines_of_json_are_a_table(tmp_path, name):
    rows = [{"x": 1, "kind": "a", "day": "2013-07-28"}, {"x": None, "kind": "b", "day": "2013-07-29"}]
    text = json.dumps(rows) if name == "t.json" else "\n".join(map(json.dumps, rows))
    (tmp_path / name).write_text(text)
    table = open_table([tmp_path / name])
    frame = table.frame(table.names)
    assert (table.names, table.n_rows, kinds(frame)) == (("x", "kind", "day"), 2, "fTM")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "expected one object per row"),
        ('{"x": 1}\n{"x"', r"is not valid JSON \(line 2"),
        ("", "has 0 rows"),
        ('{"x": [1, 2]}', "columns 'x' hold lists or records"),
    ],
)
def test_json_that_is_not_a_table_is_named(tmp_path, text, message):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(SteepError, match=message) as caught:
        open_table([tmp_path / "t.jsonl"]).frame(["x"])
    assert "\n" not in str(caught.value)


def test_a_spreadsheet_is_read_where_the_reader_is_installed(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"x": [1.5, 2.5], "day": pd.to_datetime(["2013-07-28", "2013-07-29"]), "k": ["a", "b"]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    table = open_table([tmp_path / "t.xlsx"])
    assert kinds(table.frame(table.names)) == "fMT"


def test_a_spreadsheet_without_its_reader_is_refused_in_one_line(tmp_path, monkeypatch):
    import builtins

    found = builtins.__import__

    def missing(name, *arguments, **options):
        if name.split(".")[0] == "openpyxl":
            raise ImportError("No module named 'openpyxl'")
        return found(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(SteepError, match=r"pip install openpyxl|save it as CSV") as caught:
        open_table([tmp_path / "t.xlsx"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.npz", "t.arff"])
def test_formats_that_are_not_tables_are_named(tmp_path, name):
    np.savez(tmp_path / "t.npz", X=np.ones((3, 2)))
    (tmp_path / "t.arff").write_text("@relation t\n@attribute x numeric\n@data\n1\n")
    with pytest.raises(SteepError, match="expected CSV, Parquet"):
        open_table([tmp_path / name])
