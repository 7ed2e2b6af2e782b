import fcntl
import gzip
import json
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from reproduction import records as module
from reproduction.records import Records, cpu_seconds, write_json
from steep.exceptions import InputError, InputTypeError, SteepError, StorageError

MINUTE = 60


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "deep" / "r.jsonl")


def wanted(n=5):
    return [("runge", "uniform", seed) for seed in range(n)]


def test_a_line_holds_what_was_run_and_with_what(records):
    records.add("runge", "uniform", 3, result={"l2": 0.5}, settings={"n": 8}, seconds=1.5)
    (line,) = records
    assert (line["experiment"], line["arm"], line["seed"]) == ("runge", "uniform", 3)
    assert (line["result"], line["settings"], line["cpu_seconds"]) == ({"l2": 0.5}, {"n": 8}, 1.5)
    assert line["versions"]["numpy"] == np.__version__
    assert abs(line["at"] - time.time()) < MINUTE


def test_a_file_that_is_not_there_has_no_lines(records):
    assert list(records) == []
    assert records.keys() == set()
    assert list(records.missing(wanted())) == wanted()


def test_a_run_resumes_where_it_was(records):
    for key in list(records.missing(wanted()))[:2]:
        records.add(*key, result={})
    assert list(records.missing(wanted())) == wanted()[2:]


def test_what_others_wrote_meanwhile_is_not_run_again(records):
    run = []
    for key in records.missing(wanted(6)):
        run.append(key[2])
        Records(records.path).add(*key, result={})
        if key[2] == 1:
            Records(records.path).add("runge", "uniform", 3, result={})
    assert run == [0, 1, 2, 4, 5]


def test_the_first_of_two_lines_counts(records):
    for value in (1, 2):
        records.add("a", "b", 0, result={"value": value})
    assert records.by_key()["a", "b", 0]["result"] == {"value": 1}


def test_numpy_values_come_back_as_plain_ones(records):
    result = {"a": np.float32(0.5), "b": np.int64(3), "c": np.arange(3), "d": np.bool_(True), "e": float("nan")}
    records.add("runge", "é\ud800", np.int64(1), result=result)
    (line,) = records
    assert line["result"].pop("e") != line["result"]
    assert line["result"] == {"a": 0.5, "b": 3, "c": [0, 1, 2], "d": True}
    assert list(records.missing([("runge", "é\ud800", 1)])) == []


@pytest.mark.parametrize("value", [object(), {1, 2}, {(1, 2): 3}, b"bytes", 1j])
def test_what_json_cannot_hold_is_refused_and_nothing_is_written(records, value):
    with pytest.raises(InputTypeError, match="cannot be kept as JSON"):
        records.add("a", "b", 0, result={"value": value})
    loop = {}
    loop["self"] = loop
    with pytest.raises(InputTypeError):
        records.add("a", "b", 0, result=loop)
    assert not records.path.exists()


def test_a_cut_off_last_line_is_passed_over_and_closed(records):
    """Cut at every byte, in the middle of a letter too: the lines before and after it are all there."""
    records.add("a", "é", 0, result={})
    whole = records.path.read_bytes()
    second = json.dumps({"experiment": "a", "arm": "é€", "seed": 1}, ensure_ascii=False).encode()
    for cut in range(len(second) + 1):
        records.path.write_bytes(whole + second[:cut])
        expected = [0, 1] if cut == len(second) else [0]
        assert [line["seed"] for line in records] == expected
        waiting = records.missing([("a", "é", 7), ("a", "é", 2)])
        assert next(waiting) == ("a", "é", 7)
        records.add("a", "é", 2, result={})
        assert [line["seed"] for line in records] == [*expected, 2]
        assert list(waiting) == []


def test_a_damaged_line_is_named_and_not_passed_over(records):
    records.add("a", "b", 0, result={})
    for damage in (b"{broken}\n", b"3\n", b'{"experiment": "a"}\n', b"\xff\xfe\n"):
        records.path.write_bytes(damage + records.path.read_bytes())
        with pytest.raises(StorageError, match=r"r\.jsonl has a line that is not a record, .* delete that line"):
            list(records)


def test_compressed_lines_are_read_and_not_written(records):
    records.add("a", "b", 0, result={"value": 1})
    packed = Records(records.path.with_suffix(".jsonl.gz"))
    packed.path.write_bytes(gzip.compress(records.path.read_bytes()))
    assert list(packed) == list(records)
    assert list(packed.missing([("a", "b", 0), ("a", "b", 1)])) == [("a", "b", 1)]
    with pytest.raises(InputError, match="is compressed; expected a plain"):
        packed.add("a", "b", 1, result={})
    packed.path.write_bytes(packed.path.read_bytes()[:-9])
    with pytest.raises(StorageError, match="broken archive"):
        list(packed)


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "r.jsonl", tmp_path):
        with pytest.raises(StorageError, match="cannot be written"):
            Records(path).add("a", "b", 0, result={})


def test_a_lock_that_is_never_given_back_ends_the_wait(records, monkeypatch):
    records.add("a", "b", 0, result={})
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.05)
    with records.path.open("ab") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match=r"locked for 0\.05 s by another process"):
            records.add("a", "b", 1, result={})
    records.add("a", "b", 1, result={})
    assert len(records.keys()) == 2


# Lines of many pages: a kill can fall into the middle of one.
WRITER = """
import sys
from reproduction.records import Records
path, arm, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for seed in range(n):
    Records(path).add("kill", arm, seed, result={"text": arm * 200_000})
    print(seed, flush=True)
"""


def start(path, arm, n):
    command = [sys.executable, "-c", WRITER, str(path), arm, str(n)]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "ready\n"
    return run


def go(run):
    run.stdin.write("go\n")
    run.stdin.flush()


def check_lines(records):
    """No line is mixed with another."""
    for line in records:
        assert line["result"]["text"] == line["arm"] * 200_000


@pytest.mark.slow
def test_two_processes_append_to_one_file(records):
    runs = [start(records.path, arm, 40) for arm in "ab"]
    for run in runs:
        go(run)
    for run in runs:
        run.communicate(timeout=MINUTE)
        assert run.returncode == 0
    check_lines(records)
    assert records.keys() == {("kill", arm, seed) for arm in "ab" for seed in range(40)}
    assert sum(1 for _ in records) == 80


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, range(1, 20)])
def test_no_line_is_lost_or_mixed_when_writers_are_killed(records, seed):
    for number in np.atleast_1d(seed).tolist():
        rng = random.Random(number)
        runs = [start(records.path, f"{number}{arm}", 10**6) for arm in "ab"]
        for run in runs:
            go(run)
        time.sleep(rng.uniform(0.01, 0.2))
        for run in runs:
            run.kill()
        written = [run.communicate(timeout=MINUTE)[0].split() for run in runs]
        there = records.keys()
        for arm, seeds in zip("ab", written, strict=True):
            assert {("kill", f"{number}{arm}", int(s)) for s in seeds} <= there
        records.add("kill", "after", number, result={"text": "after" * 200_000})
        check_lines(records)
        assert records.keys() - there == {("kill", "after", number)}
        records.path.unlink()


def test_json_is_written_whole(tmp_path):
    path = write_json(tmp_path / "a.json", {"ε": np.float64(0.5), "rows": [1, np.int32(2)]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"ε": 0.5, "rows": [1, 2]}
    assert path.read_text(encoding="utf-8").endswith("}\n")
    with pytest.raises(InputTypeError):
        write_json(path, object())
    with pytest.raises(StorageError):
        write_json(tmp_path / "none" / "a.json", {})
    assert os.listdir(tmp_path) == ["a.json"]


def test_cpu_seconds_count_work_and_not_waiting():
    began = time.process_time()
    with cpu_seconds() as spent:
        while time.process_time() < began + 0.05:
            pass
        time.sleep(0.1)
    assert 0 < spent["seconds"] <= time.process_time() - began


PIECES = [b'{"experiment": "a", "arm": "b", "seed": 1}', b"{}", b"\n", b" #cut off", b"", b"\xff", b"3", b" "]


def test_any_file_is_read_or_refused(records):
    records.path.parent.mkdir()
    rng = random.Random(0)
    outcomes = set()
    for _ in range(300):
        records.path.write_bytes(b"".join(rng.choices(PIECES, k=rng.randrange(6))))
        try:
            before = len(list(records))
            records.add("a", "b", 2, result={})
            assert len(list(records)) == before + 1
        except SteepError as error:
            outcomes.add(type(error))
        else:
            outcomes.add(None)
    assert outcomes == {None, StorageError}
