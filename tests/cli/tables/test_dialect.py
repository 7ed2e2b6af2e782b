"""Separator, encoding and decimal mark are told from the text."""

import pytest

from steep.cli.tables.dialect import detect
from steep.exceptions import SteepError


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\nx, y\tz\n", "\t"),
        ("a|b|c\n1|2|3\n", "|"),
        ('a,b\n"x;y;z",1\n', ","),
        ('"a;b","c;d"\n1,2\n', ","),
        ("one\n1\n", ","),
        ("", ","),
        ("a;b;c\n1;2;x,y\n", ";"),
    ],
)
def test_the_separator_is_the_one_that_all_rows_agree_on(text, separator):
    assert detect(text.encode()).separator == separator


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        ("ä,b\n1,2\n".encode(), "utf-8"),
        ("ä,b\n1,2\n".encode("utf-8-sig"), "utf-8"),
        ("ä,b\n1,2\n".encode("cp1252"), "cp1252"),
        (b"\x81,b\n1,2\n", "latin-1"),
        ("ä,b\n1,2\n".encode("utf-16"), "utf-16-le"),
        ("name,b\n1,2\n".encode("utf-16-be"), "utf-16-be"),
        ("ä,b\n1,2\n".encode("utf-32"), "utf-32-le"),
        (b"", "utf-8"),
    ],
)
def test_the_encoding_is_told_from_the_bytes(raw, encoding):
    assert detect(raw).encoding == encoding


@pytest.mark.parametrize(
    ("text", "decimal"),
    [
        ("a;b\n1,5;2\n", ","),
        ("a;b\n1.234,5;2\n", ","),
        ("a;b\n1.234.567;2\n", ","),
        ("a;b\n1,234;2\n", ","),  # both are possible; semicolons make the decimal comma likely
        ("a;b\n1,5;-\n2,5;NA\n", ","),
        ("a;b\n1.5;2\n", "."),
        ("a;b\n1.5;1,2\n", "."),  # columns differ: each is read by itself
        ("a,b\n1,5\n", "."),
        ("a;b\nx,y;2\n", "."),
        ("a;b\n28.07.2013;2\n", "."),
    ],
)
def test_decimal_commas_are_told_from_the_columns(text, decimal):
    assert detect(text.encode()).decimal == decimal


def test_what_the_user_knows_is_taken():
    dialect = detect("ä:b\n1:2\n".encode("cp437"), encoding="CP437", separator=":", decimal=",")
    assert (dialect.encoding, dialect.separator, dialect.decimal) == ("cp437", ":", ",")


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"encoding": "klingon"}, "--encoding 'klingon' is unknown"),
        ({"encoding": "base64"}, "--encoding 'base64' is unknown"),
        ({"separator": "::"}, "--separator is '::'; expected one character"),
        ({"separator": ""}, "--separator is ''; expected one character"),
        ({"decimal": ";"}, "--decimal is ';'"),
    ],
)
def test_what_the_user_cannot_mean_is_refused(told, message):
    with pytest.raises(SteepError, match=message):
        detect(b"a,b\n1,2\n", **told)
