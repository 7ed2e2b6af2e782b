"""The same table comes out of every format, from one file or several, and goes through as it was."""

import csv
import gzip
import io
import random
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from steep.cli.tables import open_table, write_frame, write_table
from steep.exceptions import SteepError


@pytest.fixture
def frame():
    """Columns of every kind, whole."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=60),
            "count": rng.integers(0, 5, size=60),
            "colour": rng.choice(["red", "green", "blue"], size=60),
            "day": pd.date_range("2025-01-01", periods=60, unit="us"),
            "kind": rng.choice(["a", "b"], size=60),
        }
    )


def save(frame, path):
    writers = {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".parquet": lambda: frame.to_parquet(path),
        ".feather": lambda: frame.to_feather(path),
        ".arrow": lambda: stream(frame, path),
        ".zip": lambda: frame.to_csv(path, index=False),
        "": lambda: frame.to_parquet(path),
    }
    writers[path.suffix]()
    return path


def stream(frame, path):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


@pytest.fixture
def read(tmp_path):
    """Read the text, or the bytes, of a table."""

    def begin(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return open_table(path)

    return begin


def kinds(frame):
    return "".join("T" if column.dtype.kind == "O" else column.dtype.kind for _, column in frame.items())


# ------------------------------------------------------------------------- formats


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather", "t.arrow", "t.zip", "without-a-suffix"])
def test_every_format_gives_the_same_columns(tmp_path, frame, name):
    table = open_table(save(frame, tmp_path / name))
    assert (table.names, table.n_rows) == (tuple(frame.columns), 60)
    pd.testing.assert_frame_equal(table.frame(), frame, check_dtype=False)


def test_an_index_of_pandas_is_a_column_like_others(tmp_path, frame):
    save(frame[frame["x"] > 0], tmp_path / "t.parquet")
    assert open_table(tmp_path / "t.parquet").names[-1] == "__index_level_0__"
    frame.set_index("x").to_parquet(tmp_path / "t.parquet")
    assert open_table(tmp_path / "t.parquet").frame(["x"])["x"].tolist() == frame["x"].tolist()


@pytest.mark.parametrize("rows", [None, np.array([7, 3])], ids=["all rows", "some rows"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".arrow"])
@pytest.mark.parametrize("source", ["t.csv", "t.parquet"])
def test_columns_are_added_in_every_format(tmp_path, frame, source, suffix, rows):
    """After the others, or before them where rows are chosen."""
    table = open_table(save(frame, tmp_path / source))
    chosen = np.arange(60) if rows is None else rows
    more = {"w": chosen / 7, "say": [["a,b", 'c"'][i % 2] for i in chosen]}
    write_table(tmp_path / f"w{suffix}", table, more, rows)
    expected = frame.iloc[chosen].reset_index(drop=True)
    for place, (name, values) in enumerate(more.items()):
        expected.insert(len(expected.columns) if rows is None else place, name, values)
    pd.testing.assert_frame_equal(open_table(tmp_path / f"w{suffix}").frame(), expected, check_dtype=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_existing_column_is_replaced_in_its_place(tmp_path, frame, suffix):
    table = open_table(save(frame, tmp_path / f"t{suffix}"))
    write_table(tmp_path / f"w{suffix}", table, {"count": np.arange(60) / 7})
    expected = frame.assign(count=np.arange(60) / 7)
    pd.testing.assert_frame_equal(open_table(tmp_path / f"w{suffix}").frame(), expected, check_dtype=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_an_empty_frame_keeps_its_columns(tmp_path, suffix):
    write_frame(tmp_path / f"w{suffix}", pd.DataFrame({"a": np.empty(0), "b": np.empty(0)}))
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".feather": pd.read_feather}[suffix]
    assert read(tmp_path / f"w{suffix}").columns.tolist() == ["a", "b"]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress)])
def test_a_compressed_table_is_read(read, suffix, pack):
    assert read(pack(b"a,b\n1,2\n"), f"t.csv{suffix}").n_rows == 1


def test_a_zipped_table_is_read_whatever_a_mac_adds(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("folder/t.csv", "x,y\n1,a\n2,b\n")
        archive.writestr("__MACOSX/._t.csv", "junk")
    assert open_table(tmp_path / "t.zip").frame().to_dict("list") == {"x": [1, 2], "y": ["a", "b"]}


def test_a_spreadsheet_is_read(tmp_path):
    frame = pd.DataFrame({"x": [1.5, 2.5], "day": pd.to_datetime(["2013-07-28", "2013-07-29"]), "k": ["a", "b"]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    assert kinds(open_table(tmp_path / "t.xlsx").frame()) == "fMT"


# ------------------------------------------------------------------------- dates and numbers


@pytest.mark.parametrize("amount", ["7.890,00", "7890,00", "7.890", "7,5", "7"])
@pytest.mark.parametrize(
    "days",
    [
        ("28.07.2013", "29.07.2013"),
        ("28.07.13", "29.07.13"),
        ("28.7.2013 14:30", "29.7.2013 14:30"),
        ("2013-07-28", "2013-07-29"),
    ],
)
def test_a_date_is_a_date_whatever_the_numbers_of_the_file_look_like(read, days, amount):
    frame = read(f"day;amount\n{days[0]};{amount}\n{days[1]};1{amount}\n").frame()
    assert frame["day"].dt.strftime("%d.%m.%Y").tolist() == ["28.07.2013", "29.07.2013"]
    assert frame["amount"].dtype.kind in "if"


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (("2025-03-04T05:06:07Z", "2025-03-05 00:00"), ("2025-03-04 05:06:07", "2025-03-05")),
        (("2025-03-04 05:06:07+02:00", "2025-07-04 05:06:07+03:00"), ("2025-03-04 03:06:07", "2025-07-04 02:06:07")),
        (("3/4/2025", "12/31/2025"), ("2025-03-04", "2025-12-31")),  # 31 is not a month
        (("4/3/2025", "31/12/2025"), ("2025-03-04", "2025-12-31")),
        (("2025/03/04", "2025/03/05"), ("2025-03-04", "2025-03-05")),
        (("7/28/2013 3:05 PM", "8/1/2013 12:00 AM"), ("2013-07-28 15:05", "2013-08-01")),
        (("28/07/69", "28/07/68"), ("1969-07-28", "2068-07-28")),
        (("-", "2013-07-28"), (None, "2013-07-28")),
    ],
)
def test_dates_of_many_kinds_are_read(read, texts, days):
    frame = read(f"day,x\n{texts[0]},1\n{texts[1]},2\n").frame()
    expected = [pd.NaT if day is None else pd.Timestamp(day) for day in days]
    assert frame["day"].dtype.kind == "M"
    pd.testing.assert_series_equal(frame["day"], pd.Series(expected, name="day", dtype=frame["day"].dtype))


@pytest.mark.parametrize(
    "texts", [("1.2.3", "4.5.6"), ("192.168.0.1", "1.2.30000"), ("2025-03-04", "soon"), ("2025-13-45", "2025-01-01")]
)
def test_other_text_stays_text(read, texts):
    assert read(f"v;amount\n{texts[0]};7.890,00\n{texts[1]};1,5\n").frame().to_dict("list") == {
        "v": list(texts),
        "amount": [7890.0, 1.5],
    }


def test_day_and_month_are_told_apart_by_the_whole_column(read):
    late = [f"{1 + i % 12}/{1 + i % 12}/2013" for i in range(1500)]
    day_first = read("day,x\n" + "\n".join(f"{day},1" for day in [*late, "2/3/2013", "28/7/2013"])).frame()
    assert day_first["day"].iloc[-2] == pd.Timestamp("2013-03-02")
    contradictory = read("day,x\n" + "\n".join(f"{day},1" for day in [*late, "28/7/2013", "7/28/2013"])).frame()
    assert kinds(contradictory) == "Ti"


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
    ],
)
def test_numbers_are_read_however_they_are_written(read, cells, values):
    frame = read(f"x;y\n{cells[0]};a\n{cells[1]};b\n").frame()
    expected = [np.nan if value is None else value for value in values]
    np.testing.assert_array_equal(frame["x"].to_numpy(dtype=float), expected)


def test_points_and_commas_are_read_column_by_column(read):
    frame = read("lat;price;n\n52.5201;1,5;1.234\n9.1;2.000,75;12\n").frame()
    assert frame["lat"].tolist() == [52.5201, 9.1]
    assert frame["price"].tolist() == [1.5, 2000.75]
    assert read('x,y\n"1,5",a\n"22,75",b\n').frame()["x"].tolist() == [1.5, 22.75]
    assert read('x,y\n"1,234",a\n999,b\n').frame()["x"].tolist() == [1234.0, 999.0]


@pytest.mark.parametrize(("decimal", "value"), [(",", 1234.0), (".", 1.234)])
def test_what_the_user_says_decides_between_two_readings(tmp_path, decimal, value):
    (tmp_path / "t.csv").write_text("x;y\n1.234;a\n5.678;b\n")
    assert open_table(tmp_path / "t.csv", decimal=decimal).frame()["x"][0] == value


@pytest.mark.parametrize("text", ["x, y, kind\n1, 2.5, a\n3, 4.5, b\n", "x , y ,kind \n1 ,2.5 ,a \n3, 4.5, b\n"])
def test_spaces_around_cells_and_names_are_no_part_of_them(read, text):
    assert read(text).frame().to_dict("list") == {"x": [1, 3], "y": [2.5, 4.5], "kind": ["a", "b"]}


def test_gaps_are_found_behind_spaces_and_a_dash_among_names_is_a_name(read):
    assert read("x,kind\n1, NA \n , a\n").frame().isna().to_numpy().tolist() == [[False, True], [True, False]]
    assert read("kind,x\n-,1\nred,2\n").frame()["kind"].tolist() == ["-", "red"]


def test_a_reading_that_may_surprise_is_stated(read):
    rows = "\n".join(f"{i}.000;{i / 2};1/{1 + i % 12}/2013;{i if i % 30 else '<5'}" for i in range(1, 90))
    remarks = read("big;x;day;n\n" + rows.replace(".5;", ",5;").replace(".0;", ",0;")).remarks
    assert remarks["big"] == "'big' has thousands separators: '1.000' is read as 1000"
    assert remarks["day"] == "'day' is read as month/day/year, for example '1/2/2013' as 2013-01-02"
    assert "'n' is read as categories: " in remarks["n"]
    assert "'<5'" in remarks["n"]
    assert set(remarks) == {"big", "day", "n"}


# ------------------------------------------------------------------------- dialects


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", "','"),
        ("a;b\n1,5;2,5\n", "';'"),
        ("a\tb\nx, y\tz\n", "tabs"),
        ("a|b|c\n1|2|3\n", "'|'"),
        ('a,b\n"x;y;z",1\n', "','"),
        ('"a;b","c;d"\n1,2\n', "','"),
        ("one\n1\n", "','"),
        ("a;b;c\n1;2;x,y\n", "';'"),
    ],
)
def test_the_separator_is_the_one_that_all_rows_agree_on(read, text, separator):
    assert f"separated by {separator}" in read(text).about


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        ("ä,b\n1,2\n".encode(), "UTF-8"),
        ("ä,b\n1,2\n".encode("utf-8-sig"), "UTF-8"),
        ("ä,b\n1,2\n".encode("cp1252"), "CP1252"),
        (b"\x81,b\n1,2\n", "LATIN-1"),
        ("ä,b\n1,2\n".encode("utf-16"), "UTF-16-LE"),
    ],
)
def test_the_encoding_is_told_from_the_bytes(read, raw, encoding):
    assert read(raw).about == f"CSV separated by ',', {encoding}"


@pytest.mark.parametrize(
    ("text", "is_comma"),
    [
        ("a;b\n1,5;2\n", True),
        ("a;b\n1.234,5;2\n", True),
        ("a;b\n1.234.567;2\n", True),
        ("a;b\n1,234;2\n", True),  # both are possible; semicolons make the decimal comma likely
        ("a;b\n1,5;-\n2,5;NA\n", True),
        ("a;b\n1.5;2\n", False),
        ("a;b\n1.5;1,2\n", False),  # columns differ: each is read by itself
        ("a,b\n1,5\n", False),
        ("a;b\nx,y;2\n", False),
        ("a;b\n28.07.2013;2\n", False),
    ],
)
def test_decimal_commas_are_told_from_the_columns(read, text, is_comma):
    assert ("decimal commas" in read(text).about) == is_comma


# ------------------------------------------------------------------------- the text goes through unchanged


def weighted(table, name="w"):
    output = table.path.with_name("weighted.csv")
    write_table(output, table, {name: np.arange(table.n_rows) + 0.5})
    return output.read_bytes().decode(table.text.dialect.encoding)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,x\n00002,NA\n", "id,x,w\n00002,NA,0.5\n"),
        ("a,b\r\n1,2\r\n3,4\r\n", "a,b,w\r\n1,2,0.5\r\n3,4,1.5\r\n"),
        ("a,b\r1,2\r", "a,b,w\r1,2,0.5\r"),
        ("a,b\n1,2", "a,b,w\n1,2,0.5"),
        ('a,"b ""x"""\n"1","2\n\n3,"\n', 'a,"b ""x""",w\n"1","2\n\n3,",0.5\n'),
        ("a,b\n\n1,2\n\n3,4\n", "a,b,w\n1,2,0.5\n3,4,1.5\n"),
        ("\ufeffa,b\n1,2\n", "\ufeffa,b,w\n1,2,0.5\n"),
        ("a,é\n1.50,1e-07\n", "a,é,w\n1.50,1e-07,0.5\n"),
        ("w,x\nold,01\n", "w,x\n0.5,01\n"),
        ('x,w,z\n"1,\n""",old,"0 "\r\n', 'x,w,z\n"1,\n""",0.5,"0 "\r\n'),
        ("x,w\n1,\n", "x,w\n1,0.5\n"),
    ],
)
def test_one_column_is_added_or_replaced_and_no_cell_changes(read, text, expected):
    assert weighted(read(text)) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_encoding_separator_and_decimal_mark_stay_as_they_were(tmp_path, read, encoding):
    table = read("größe;y\n1,5;a\n2,25;b\n".encode(encoding))
    assert table.frame()["größe"].tolist() == [1.5, 2.25]
    write_table(tmp_path / "w.csv", table, {"w": np.array([0.5, 1.5])})
    assert (tmp_path / "w.csv").read_bytes() == "größe;y;w\n1,5;a;0,5\n2,25;b;1,5\n".encode(encoding)


PIECES = ["0", "00002", "NA", "", " ", "1.50", "é", '"', '""', ",", "\n", "\r\n", "\r", "a", "\t", "'", "\0", "😀"]


def random_field(rng):
    text = "".join(rng.choices(PIECES, k=rng.randrange(4)))
    if any(mark in text for mark in ',"\r\n') or rng.random() < 0.3:
        return '"' + text.replace('"', '""') + '"'
    return text


def test_every_proper_table_keeps_its_text(read):
    rng = random.Random(0)
    for _ in range(100):
        end, width = rng.choice(["\n", "\r\n", "\r"]), rng.randrange(2, 5)
        rows = [",".join(f"c{i}" for i in range(width))]
        rows += [",".join(random_field(rng) for _ in range(width)) for _ in range(rng.randrange(1, 6))]
        text = end.join(rows) + (end if rng.random() < 0.7 else "")
        table = read(text)
        if "','" not in table.about:
            continue  # so few rows can agree on tabs too
        fields = ["w", *(str(i + 0.5) for i in range(len(rows) - 1))]
        last = end if text.endswith(end) else ""
        assert weighted(table) == end.join(f"{row},{cell}" for row, cell in zip(rows, fields, strict=True)) + last
        cells, replaced = (list(csv.reader(io.StringIO(each, newline=""))) for each in (text, weighted(table, "c0")))
        assert [row[1:] for row in replaced] == [row[1:] for row in cells]
        assert [row[0] for row in replaced] == ["c0", *fields[1:]]


# ------------------------------------------------------------------------- hostile files


def test_any_bytes_are_a_table_or_refused(read):
    rng, n_read = random.Random(0), 0
    for _ in range(150):
        raw = "".join(rng.choices(PIECES, k=rng.randrange(30))).encode()
        raw = bytes(rng.randrange(256) if rng.random() < 0.02 else byte for byte in raw)
        try:
            table = read(raw)
        except SteepError as error:
            refusal = str(error)
            continue
        weighted(table)
        n_read += 1
    assert "\n" not in refusal
    assert 8 < n_read < 142


def spoilt(raw, rng):
    """A few bytes changed, or the end cut off."""
    raw = bytearray(raw)
    for _ in range(rng.choice([1, 3, 20])):
        if rng.random() < 0.8:
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        else:
            del raw[rng.randrange(1, len(raw) + 1) :]
    return bytes(raw)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".zip", ".csv"])
def test_a_spoilt_file_is_read_or_refused_in_one_line(tmp_path, frame, suffix):
    source = save(frame, tmp_path / f"t{suffix}")
    raw, rng, n_refused = source.read_bytes(), random.Random(0), 0
    for _ in range(100):
        source.write_bytes(spoilt(raw, rng))
        try:
            open_table(source)
        except SteepError as error:
            n_refused += 1
            refusal = str(error)
    assert n_refused > 10
    assert "\n" not in refusal


def broken(folder, name, raw):
    (folder / name).write_bytes(raw)
    return folder / name


def archive(folder, members):
    with zipfile.ZipFile(folder / "t.zip", "w") as file:
        for name, text in members.items():
            file.writestr(name, text)
    return folder / "t.zip"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: p / "none.parquet", r"none\.parquet cannot be read .*expected a whole Parquet file"),
        (lambda p: broken(p, "t.parquet", b"PAR1 no"), r"t\.parquet cannot be read"),
        (lambda p: broken(p, "t.feather", b"ARROW1 no"), r"t\.feather cannot be read"),
        (lambda p: broken(p, "t.zip", b"PK no"), r"t\.zip cannot be read"),
        (lambda p: broken(p, "t.csv.gz", b"no gzip"), r"t\.csv\.gz cannot be read"),
        (lambda p: broken(p, "t.xlsx", b"PK"), r"t\.xlsx (cannot be read|is a spreadsheet)"),
        (lambda p: archive(p, {"a.csv": "x\n1\n", "b.csv": "x\n1\n"}), r"holds 2 files \('a\.csv', 'b\.csv'\)"),
        (lambda p: archive(p, {}), "holds 0 files"),
        (lambda p: archive(p, {"t.parquet": "PAR1"}), r"holds 1 files \('t\.parquet'\); expected one CSV file"),
        (lambda p: p / "*.csv", r"\*\.csv cannot be read .*expected a table"),
        (lambda p: p, "cannot be read .*expected a table"),
        (lambda p: broken(p, "t.csv", b""), "is not a CSV table"),
        (lambda p: broken(p, "t.csv", b"a,b\n"), "has 0 rows"),
        (lambda p: broken(p, "t.csv", b"a,b\n1,2\n3\n"), r"Row #3: Expected 2 columns, got 1: 3"),
        (lambda p: broken(p, "t.csv", b'a,b\n1"2,3\n4"5,6\n'), "because of its quotes"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, make, message):
    with pytest.raises(SteepError, match=message) as caught:
        open_table(make(tmp_path))
    assert "\n" not in str(caught.value)


def test_cells_of_several_kinds_are_refused_by_formats_of_one(tmp_path):
    pd.DataFrame({"x": ["a", 1]}).to_excel(tmp_path / "t.xlsx", index=False)
    with pytest.raises(SteepError, match="does not fit this format"):
        write_table(tmp_path / "w.parquet", open_table(tmp_path / "t.xlsx"), {"w": np.ones(2)})
    assert not (tmp_path / "w.parquet").exists()
