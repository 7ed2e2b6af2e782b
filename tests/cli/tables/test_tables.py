"""The same table comes out of every format, from one file or several."""

import json
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from steep.cli.tables import open_table
from steep.cli.tables.writing import write_chosen_rows, write_frame, write_with_column
from steep.exceptions import SteepError


def up_to_the_last_digit(numbers):
    """CSV is read by pandas, which before version 3 may err there."""
    return pytest.approx(numbers, rel=1e-15)


def save(frame, path):
    writers = {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".parquet": lambda: frame.to_parquet(path),
        ".feather": lambda: frame.to_feather(path),
        ".arrow": lambda: stream(frame, path),
        "": lambda: frame.to_parquet(path),
    }
    writers[path.suffix]()
    return path


def stream(frame, path):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather", "t.arrow", "without-a-suffix"])
def test_every_format_gives_the_same_columns(tmp_path, frame, name):
    table = open_table([save(frame, tmp_path / name)])
    assert (table.names, table.n_rows) == (tuple(frame.columns), 60)
    pd.testing.assert_frame_equal(table.frame(table.names), frame, check_dtype=False)


def test_an_index_that_pandas_noted_is_a_column_like_others(tmp_path, frame):
    save(frame[frame["x"] > 0], tmp_path / "t.parquet")
    assert open_table([tmp_path / "t.parquet"]).names[-1] == "__index_level_0__"


def test_a_column_that_pandas_took_as_index_is_a_column(tmp_path, frame):
    frame.set_index("x").to_parquet(tmp_path / "t.parquet")
    table = open_table([tmp_path / "t.parquet"])
    assert table.frame(["x", "kind"])["x"].tolist() == frame["x"].tolist()


def test_several_files_a_glob_and_a_folder_are_one_table(tmp_path, frame):
    for i in range(3):
        save(frame[20 * i : 20 * (i + 1)].reset_index(drop=True), tmp_path / f"{i}.parquet")
    files = [tmp_path / f"{i}.parquet" for i in range(3)]
    for paths in (files, [tmp_path / "*.parquet"], [tmp_path]):
        table = open_table(paths)
        assert table.paths == files
        pd.testing.assert_frame_equal(table.frame(table.names), frame, check_dtype=False)


def test_formats_may_be_mixed_and_columns_in_another_order(tmp_path, frame):
    save(frame[:30], tmp_path / "1.csv")
    save(frame[30:].reset_index(drop=True)[frame.columns[::-1]], tmp_path / "2.parquet")
    table = open_table([tmp_path / "1.csv", tmp_path / "2.parquet"])
    pd.testing.assert_frame_equal(table.frame(list(frame.columns)), frame, check_dtype=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".arrow"])
@pytest.mark.parametrize("source", ["t.csv", "t.parquet"])
def test_a_column_is_added_in_every_format(tmp_path, frame, source, suffix):
    table = open_table([save(frame, tmp_path / source)])
    write_with_column(tmp_path / f"w{suffix}", table, "w", np.arange(60) / 7)
    written = open_table([tmp_path / f"w{suffix}"])
    assert written.names == (*frame.columns, "w")
    expected = frame.assign(w=np.arange(60) / 7)
    pd.testing.assert_frame_equal(written.frame(written.names), expected, check_dtype=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_that_is_there_is_replaced_in_its_place(tmp_path, frame, suffix):
    table = open_table([save(frame, tmp_path / f"t{suffix}")])
    write_with_column(tmp_path / f"w{suffix}", table, "count", np.arange(60) / 7)
    written = open_table([tmp_path / f"w{suffix}"])
    assert written.names == tuple(frame.columns)
    assert written.frame(["count"])["count"].tolist() == up_to_the_last_digit((np.arange(60) / 7).tolist())


def test_several_files_are_written_as_one(tmp_path, frame):
    for i in range(2):
        save(frame[30 * i : 30 * (i + 1)].reset_index(drop=True), tmp_path / f"{i}.parquet")
    write_with_column(tmp_path / "w.parquet", open_table([tmp_path / "?.parquet"]), "w", np.arange(60.0))
    written = open_table([tmp_path / "w.parquet"]).frame([*frame.columns, "w"])
    pd.testing.assert_frame_equal(written, frame.assign(w=np.arange(60.0)), check_dtype=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_an_empty_frame_keeps_its_columns(tmp_path, suffix):
    write_frame(tmp_path / f"w{suffix}", pd.DataFrame({"a": np.empty(0), "b": np.empty(0)}))
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".feather": pd.read_feather}[suffix]
    assert read(tmp_path / f"w{suffix}").columns.tolist() == ["a", "b"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("source", ["t.csv", "t.parquet"])
def test_chosen_rows_are_written_in_their_order_with_columns_in_front(tmp_path, frame, source, suffix):
    table = open_table([save(frame, tmp_path / source)])
    write_chosen_rows(tmp_path / f"w{suffix}", table, np.array([7, 3]), {"n": [1, 2], "say": ["a,b", 'c"']})
    written = open_table([tmp_path / f"w{suffix}"])
    expected = frame.iloc[[7, 3]].reset_index(drop=True)
    expected.insert(0, "n", [1, 2])
    expected.insert(1, "say", ["a,b", 'c"'])
    pd.testing.assert_frame_equal(written.frame(written.names), expected, check_dtype=False)


def broken(tmp_path, name, raw):
    (tmp_path / name).write_bytes(raw)
    return [tmp_path / name]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: [p / "none.parquet"], r"none\.parquet cannot be read .*expected a whole Parquet file"),
        (lambda p: broken(p, "t.parquet", b"PAR1 no"), r"t\.parquet cannot be read"),
        (lambda p: broken(p, "t.feather", b"ARROW1 no"), r"t\.feather cannot be read"),
        (lambda p: broken(p, "t.zip", b"PK no"), r"t\.zip cannot be read"),
        (lambda p: broken(p, "t.xlsx", b"PK"), r"t\.xlsx (cannot be read|is a spreadsheet)"),
        (lambda p: [p / "*.csv"], "nothing matches"),
        (lambda p: [p], r"is a folder without \.parquet files"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, make, message):
    with pytest.raises(SteepError, match=message) as caught:
        open_table(make(tmp_path))
    assert "\n" not in str(caught.value)


def test_files_of_different_columns_are_refused(tmp_path, frame):
    save(frame, tmp_path / "1.csv")
    save(frame.drop(columns="x"), tmp_path / "2.csv")
    with pytest.raises(SteepError, match=r"differ in their columns \('x'\)"):
        open_table([tmp_path / "1.csv", tmp_path / "2.csv"])


def test_a_table_without_rows_is_refused(tmp_path, frame):
    save(frame[:0], tmp_path / "t.parquet")
    with pytest.raises(SteepError, match=r"t\.parquet has 0 rows; expected samples"):
        open_table([tmp_path / "t.parquet"])


def test_nested_columns_are_named(tmp_path):
    pd.DataFrame({"a": [[1, 2], [3]], "b": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(SteepError, match=r"columns 'a' hold lists or records; .* --drop"):
        open_table([tmp_path / "t.parquet"]).frame(["a", "b"])


def test_options_of_text_are_refused_for_other_formats(tmp_path, frame):
    save(frame, tmp_path / "t.parquet")
    with pytest.raises(SteepError, match="is not a text table; --encoding"):
        open_table([tmp_path / "t.parquet"], encoding="utf-8")


def test_tables_that_differ_in_types_are_refused_when_written(tmp_path):
    pd.DataFrame({"a": [1, 2]}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"a": ["x", "y"]}).to_parquet(tmp_path / "2.parquet")
    table = open_table([tmp_path / "1.parquet", tmp_path / "2.parquet"])
    with pytest.raises(SteepError, match="differ in the types of their columns"):
        write_with_column(tmp_path / "w.parquet", table, "w", np.ones(4))
    assert not (tmp_path / "w.parquet").exists()
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == '["1.parquet", "2.parquet"]'


def spoilt(raw, rng):
    """A few bytes changed, or the end cut off."""
    raw = bytearray(raw)
    for _ in range(rng.choice([1, 3, 20])):
        if rng.random() < 0.8:
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        else:
            del raw[rng.randrange(1, len(raw) + 1) :]
    return bytes(raw)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".zip", ".jsonl", ".csv"])
def test_a_spoilt_file_is_read_or_refused_in_one_line(tmp_path, frame, suffix):
    source = tmp_path / f"t{suffix}"
    if suffix == ".zip":
        frame.to_csv(source, index=False)
    elif suffix == ".jsonl":
        frame.to_json(source, orient="records", lines=True, date_format="iso")
    else:
        save(frame, source)
    raw, rng, n_refused = source.read_bytes(), random.Random(0), 0
    for _ in range(100):
        source.write_bytes(spoilt(raw, rng))
        try:
            table = open_table([source])
            table.frame(table.names)
        except SteepError as error:
            n_refused += 1
            refusal = str(error)
        assert not n_refused or "\n" not in refusal
    assert n_refused > 10
