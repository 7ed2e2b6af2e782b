"""Dates written as text become dates, and nothing else does."""

import pandas as pd
import pytest

from steep.cli.tables.cells import read_cells


def column(*texts):
    return read_cells(pd.Series(texts, name="c", dtype=object))[0]


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (("2025-03-04", "2025-12-31"), "2025-03-04"),
        (("2025-03-04T05:06:07Z", "2025-03-05 00:00"), "2025-03-04 05:06:07"),
        (("2025-03-04 05:06:07+02:00", "2025-07-04 05:06:07+03:00"), "2025-03-04 03:06:07"),
        (("04.03.2025", "05.03.2025"), "2025-03-04"),  # points: the day comes first
        (("3/4/2025", "12/31/2025"), "2025-03-04"),  # 31 is no month
        (("4/3/2025", "31/12/2025"), "2025-03-04"),
        (("2025/03/04", "2025/03/05"), "2025-03-04"),
        ((None, "2025-03-04"), None),
    ],
)
def test_dates_are_read(texts, first):
    read = column(*texts)
    assert read.dtype.kind == "M"
    assert (pd.isna(read[0]) and first is None) or read[0] == pd.Timestamp(first)


@pytest.mark.parametrize(
    "texts",
    [
        ("red", "blue"),
        ("1.2.3", "4.5.6"),
        ("2025-03-04", "soon"),
        ("12:30", "13:30"),
        (None, None),
        ("2025-13-45", "2025-01-01"),
    ],
)
def test_other_text_stays_text(texts):
    assert column(*texts).dtype.kind == "O"


def test_a_late_value_that_is_no_date_leaves_the_column_as_text():
    texts = ["2025-03-04"] * 2000 + ["never"]
    assert column(*texts).tolist() == texts


def test_numbers_are_left_alone():
    numbers = pd.Series([20250304, 20250305])
    assert read_cells(numbers)[0] is numbers
