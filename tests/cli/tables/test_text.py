"""The text of a table goes through unchanged."""

import bz2
import csv
import gzip
import io
import lzma
import random

import numpy as np
import pytest

from steep.cli.tables.text import TextTable, write_text
from steep.exceptions import SteepError


def read(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    table = TextTable(path)
    assert table.n_rows > 0
    return table


def weighted(table, name="w"):
    output = table.path.with_name("weighted.csv")
    write_text(output, [table], name, np.arange(table.n_rows) + 0.5)
    return output.read_bytes().decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,x\n00002,NA\n", "id,x,w\n00002,NA,0.5\n"),
        ("a,b\r\n1,2\r\n3,4\r\n", "a,b,w\r\n1,2,0.5\r\n3,4,1.5\r\n"),
        ("a,b\r1,2\r", "a,b,w\r1,2,0.5\r"),
        ("a,b\n1,2", "a,b,w\n1,2,0.5"),
        ('a,"b ""x"""\n"1","2\n\n3,"\n', 'a,"b ""x""",w\n"1","2\n\n3,",0.5\n'),
        ("a,b\n\n1,2\n \n3,4\n", "a,b,w\n\n1,2,0.5\n \n3,4,1.5\n"),
        ("\ufeffa,b\n1,2\n", "\ufeffa,b,w\n1,2,0.5\n"),
        ("a,é\n1.50,1e-07\n", "a,é,w\n1.50,1e-07,0.5\n"),
    ],
)
def test_one_column_is_added_and_nothing_else_changes(tmp_path, text, expected):
    assert weighted(read(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("w,x\nold,01\n", "w,x\n0.5,01\n"),
        ('x,w,z\n"1,\n""",old,"0 "\r\n', 'x,w,z\n"1,\n""",0.5,"0 "\r\n'),
        ('x,w\n"1","o,l\nd"\n', 'x,w\n"1",0.5\n'),
        ("x,w\n1,\n", "x,w\n1,0.5\n"),
    ],
)
def test_a_column_is_replaced_in_its_place(tmp_path, text, expected):
    assert weighted(read(tmp_path, text)) == expected


def test_names_and_numbers_are_those_of_the_text(tmp_path):
    table = read(tmp_path, '\ufeff"a\nb",y\n1.5,u\n"2",v\n')
    assert (table.names, table.n_rows) == (("a\nb", "y"), 2)
    frame = table.frame([1, 0])
    assert frame.columns.tolist() == ["y", "a\nb"]
    assert frame["a\nb"].tolist() == [1.5, 2.0]
    assert frame["y"].tolist() == ["u", "v"]


def test_a_name_with_a_comma_is_quoted(tmp_path):
    assert weighted(read(tmp_path, "a\n1\n"), name='w,"1"') == 'a,"w,""1"""\n1,0.5\n'


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_a_compressed_table_is_read(tmp_path, suffix, pack):
    assert read(tmp_path, pack(b"a,b\n1,2\n"), f"t.csv{suffix}").n_rows == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-32"])
def test_encoding_separator_and_decimal_mark_stay_as_they_were(tmp_path, encoding):
    text = "größe;y\n1,5;a\n2,25;b\n"
    table = read(tmp_path, text.encode(encoding))
    assert table.frame([0])["größe"].tolist() == [1.5, 2.25]
    output = tmp_path / "w.csv"
    write_text(output, [table], "w", np.array([0.5, 1.5]))
    assert output.read_bytes() == "größe;y;w\n1,5;a;0,5\n2,25;b;1,5\n".encode(encoding)


def test_several_texts_become_one_under_one_header(tmp_path):
    first, second = (read(tmp_path, text, name) for text, name in (("a,b\n1,2", "1.csv"), ("a,b\n3,4\n", "2.csv")))
    write_text(tmp_path / "w.csv", [first, second], "w", np.array([0.5, 1.5]))
    assert (tmp_path / "w.csv").read_text() == "a,b,w\n1,2,0.5\n3,4,1.5\n"


def test_a_name_the_encoding_lacks_is_refused(tmp_path):
    table = read(tmp_path, "größe,y\n1,2\n".encode("cp1252"))
    with pytest.raises(SteepError, match="cannot be written in CP1252"):
        write_text(tmp_path / "w.csv", [table], "重み", np.array([0.5]))


def test_the_wrong_encoding_of_the_user_is_named(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xe9,2\n")
    with pytest.raises(SteepError, match=r"is not UTF-8 \(byte 0xe9"):
        TextTable(tmp_path / "t.csv", {"encoding": "utf-8"}).names  # noqa: B018


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "it is empty"),
        (b"\n \n", "it is empty"),
        (b"a,b\n", "it has no rows"),
        (b"a,b\n1,2\n3\n", "row 2 has 1 fields and the header 2"),
        (b"a\n1,2\n", "row 1 has 2 fields and the header 1"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, raw, message):
    with pytest.raises(SteepError, match=message):
        read(tmp_path, raw)


@pytest.mark.parametrize("raw", [b"no gzip", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-12]])
def test_a_broken_archive_is_refused(tmp_path, raw):
    with pytest.raises(SteepError, match=r"t\.csv\.gz cannot be read"):
        read(tmp_path, raw, "t.csv.gz")


PIECES = ["0", "00002", "NA", "", " ", "1.50", "é", '"', '""', ",", "\n", "\r\n", "\r", "a", "\t", "'", "\0", "😀"]


def random_field(rng):
    text = "".join(rng.choices(PIECES, k=rng.randrange(4)))
    if any(mark in text for mark in ',"\r\n') or rng.random() < 0.3:
        return '"' + text.replace('"', '""') + '"'
    return text


def random_table(rng):
    """Proper CSV of every kind: its text and its rows' texts."""
    end = rng.choice(["\n", "\r\n", "\r"])
    width = rng.randrange(2, 5)
    rows = [",".join(f"c{i}" for i in range(width))]
    rows += [",".join(random_field(rng) for _ in range(width)) for _ in range(rng.randrange(1, 6))]
    last = end if rng.random() < 0.7 else ""
    return rows, end, last


def fields_of(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def test_every_proper_table_keeps_its_text(tmp_path):
    rng = random.Random(0)
    for _ in range(300):
        rows, end, last = random_table(rng)
        text = end.join(rows) + last
        table = TextTable(read(tmp_path, text).path, {"separator": ","})
        fields = ["w", *(str(i + 0.5) for i in range(len(rows) - 1))]
        whole = [f"{row},{field}" for row, field in zip(rows, fields, strict=True)]
        assert weighted(table) == end.join(whole) + last
        replaced = fields_of(weighted(table, "c0"))
        assert [row[1:] for row in replaced] == [row[1:] for row in fields_of(text)]
        assert [row[0] for row in replaced] == ["c0", *fields[1:]]


def test_any_bytes_are_a_table_or_refused(tmp_path):
    rng, n_read = random.Random(0), 0
    for _ in range(400):
        raw = "".join(rng.choices(PIECES, k=rng.randrange(30))).encode()
        raw = bytes(rng.randrange(256) if rng.random() < 0.02 else byte for byte in raw)
        try:
            table = read(tmp_path, raw)
            frame = table.frame(range(len(table.names)))
        except SteepError:
            continue
        assert len(frame) == table.n_rows
        n_read += 1
    assert 20 < n_read < 380
