"""What is printed: JSON that any reader takes, nothing that steers a terminal, nothing of the user's code on stdout."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from steep.cli.printing import aside, finish, note, printable, table_of

ESCAPE = "\x1b[31m[red]\x07\r\n"


def test_json_is_one_object_whatever_is_in_it(capsys, tmp_path):
    figures = {
        "nan": np.nan, "inf": [np.inf, 1.5], "array": np.arange(2), "number": np.int64(3), "path": tmp_path,
        "none": None, "text": ESCAPE, "deep": {1: {"x": (True, np.float32(0.5))}},
    }  # fmt: skip
    finish(figures, ["never shown"], as_json=True)
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {
        "nan": None, "inf": [None, 1.5], "array": [0, 1], "number": 3, "path": str(tmp_path), "none": None,
        "text": ESCAPE, "deep": {"1": {"x": [True, 0.5]}},
    }  # fmt: skip


def test_control_characters_are_spelled_out(capsys):
    finish({}, [f"a{ESCAPE}b", table_of([f"c{ESCAPE}"], [[f"d{ESCAPE}"]])], as_json=False)
    note(f"e{ESCAPE}")
    printed = "".join(capsys.readouterr())
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "\\x1b[31m[red]" in printed


def test_letters_of_all_scripts_stay(capsys):
    assert printable("größe 重み 😀") == "größe 重み 😀"


def test_a_table_is_neither_cut_nor_coloured_where_nobody_watches(capsys):
    long = "x" * 300
    text = table_of(["name", "n"], [(long, 1234567)])
    assert long in text
    assert "1,234,567" in text
    assert "\x1b" not in text


@pytest.mark.slow
def test_what_the_users_code_prints_goes_to_stderr():
    code = """
import os, subprocess, sys
from steep.cli.printing import aside, finish
with aside():
    print("python")
    os.write(1, b"descriptor\\n")
    subprocess.run([sys.executable, "-S", "-c", "print('child')"])
finish({"a": 1}, [], as_json=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == '{"a": 1}\n'
    assert set(done.stderr.split()) == {"python", "descriptor", "child"}


def test_stdout_is_back_after_an_error(capfd):
    def fail():
        with aside():
            os.write(1, b"aside\n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    os.write(1, b"result\n")
    assert capfd.readouterr() == ("result\n", "aside\n")
