"""The text of a table goes through unchanged."""

import csv
import gzip
import io
import random

import numpy as np
import pytest

from steep.cli.table import TextTable
from steep.exceptions import SteepError


def read(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return TextTable.read(path)


def weighted(table, name="w"):
    return "".join(table.with_column(name, np.arange(table.n_rows) + 0.5))


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


def test_a_compressed_table_is_read(tmp_path):
    assert read(tmp_path, gzip.compress(b"a,b\n1,2\n"), "t.csv.gz").n_rows == 1


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "it is empty"),
        (b"\n \n", "it is empty"),
        (b"a,b\n", "it has no rows"),
        (b"a,b\n1,2\n3\n", "row 2 has 1 fields and the header 2"),
        (b"a\n1,2\n", "row 1 has 2 fields and the header 1"),
        (b"a,b\n\xe9,2\n", r"is not UTF-8 \(byte 0xe9"),
        ("a,b\n1,2\n".encode("utf-16"), "is not UTF-8"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, raw, message):
    with pytest.raises(SteepError, match=message):
        read(tmp_path, raw)


@pytest.mark.parametrize("raw", [b"no gzip", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-12]])
def test_a_broken_archive_is_refused(tmp_path, raw):
    with pytest.raises(SteepError, match=r"t\.csv\.gz cannot be read"):
        read(tmp_path, raw, "t.csv.gz")


PIECES = [
    "0",
    "00002",
    "NA",
    "",
    " ",
    "1.50",
    "é",
    '"',
    '""',
    ",",
    "\n",
    "\r\n",
    "\r",
    "a",
    "\t",
    "'",
    "\0",
    "😀",
]


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
        table = read(tmp_path, text)
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
