"""The command as a process: pipes, signals, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import steep
from steep.cli import main, samples

MINUTE = 60


def test_the_command_is_installed_and_knows_its_version(start):
    out, err = start("--version").communicate(timeout=MINUTE)
    assert out.decode() == f"steep {steep.__version__}\n"
    assert err == b""


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 0
    without = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert without == capsys.readouterr().out


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "weight" in shown


def test_a_traceback_is_shown_only_for_debugging(tmp_path, capsys):
    arguments = ["weight", str(tmp_path / "none.csv"), "--target", "y"]
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*arguments, "--debug"]) == 2
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.splitlines()[-1].startswith("steep: ")


def test_an_error_nobody_foresaw_is_one_line_with_its_kind(table, capsys, monkeypatch):
    monkeypatch.setattr(samples, "LabelledTable", lambda *_, **__: {}["lost\nkey"])
    assert main(["weight", str(table), "--target", "kind", "-m", "3"]) == 2
    error = capsys.readouterr().err
    assert error == "steep: KeyError: 'lost\\nkey'; --debug shows more\n"


@pytest.mark.slow
def test_a_warning_is_one_line(tmp_path):
    code = """
import sys, warnings, steep.cli.samples
opened = steep.cli.samples.open_table
def warning(*args, **options):
    warnings.warn("two\\nlines")
    return opened(*args, **options)
steep.cli.samples.open_table = warning
sys.exit(steep.cli.main(["weight", "none.csv", "--target", "y", "-o", "w.csv"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=MINUTE)
    assert done.stderr.splitlines()[0] == "steep: warning: two lines"
    assert done.stderr.count("\n") == 2


def test_a_reader_that_leaves_early_is_no_error(table, start):
    run = start("weight", table, "--target", "kind", "-m", "3", "--json")
    run.stdout.close()
    assert run.stderr.read() == b""
    assert run.wait(MINUTE) == 141


@pytest.mark.slow
def test_a_table_may_come_through_a_pipe(table, start):
    output = table.with_name("w.csv")
    for options, code in (([], 2), (["-o", output], 0)):
        run = start("weight", "/dev/stdin", "--target", "kind", "-m", "3", *options, stdin=subprocess.PIPE)
        error = run.communicate(table.read_bytes(), timeout=MINUTE)[1].decode()
        assert run.returncode == code, error
    assert len(output.read_text().splitlines()) == 151


@pytest.mark.slow
def test_a_full_disk_is_one_line(table, start):
    with open("/dev/full", "wb") as full:
        run = start("weight", table, "--target", "kind", "-m", "3", stdout=full)
        error = run.communicate(timeout=MINUTE)[1].decode()
    assert "No space left" in error
    assert "Traceback" not in error
    assert run.returncode == 2


@pytest.mark.parametrize(
    ("how", "code", "lines"), [(signal.SIGINT, 130, 1), pytest.param(signal.SIGTERM, 143, 0, marks=pytest.mark.slow)]
)
def test_a_signal_ends_the_command_with_its_own_code(tmp_path, start, how, code, lines):
    pipe = tmp_path / "table.csv"
    os.mkfifo(pipe)
    run = start("weight", pipe, "--target", "y", "-o", tmp_path / "w.csv")
    with open(pipe, "wb"):  # opens once the command reads
        run.send_signal(how)
    # The pipe is closed: a signal that came just before the read began is noticed once the read is over.
    error = run.communicate(timeout=MINUTE)[1].decode()
    assert run.returncode == code
    assert error.count("\n") == lines


@pytest.mark.slow
def test_sigterm_while_writing_leaves_no_temporary_file(tmp_path, start):
    table, output = tmp_path / "t.csv", tmp_path / "w.csv"
    table.write_text("x,y\n" + "".join(f"{i * 0.37},{i % 7 * 0.5}\n" for i in range(150_000)))
    run = start("weight", table, "--target", "y", "-k", "2", "-m", "3", "-o", output)
    end = time.monotonic() + MINUTE
    while run.poll() is None and time.monotonic() < end and not list(tmp_path.glob(".*")):
        time.sleep(0.001)
    assert run.poll() is None, run.stderr.read()
    run.terminate()
    run.communicate(timeout=MINUTE)
    assert run.returncode == 143
    assert list(tmp_path.iterdir()) == [table]


def test_main_leaves_the_signals_of_its_process_alone(capsys):
    before = signal.getsignal(signal.SIGTERM)
    main(["--version"])
    assert signal.getsignal(signal.SIGTERM) is before


# --------------------------------------------------------------------- odd streams, and functions that exit

ASCII = [{"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}]


@pytest.mark.parametrize(
    ("locale", "arguments"), [(ASCII[0], ["improve", "--help"]), (ASCII[1], ["weight", "none….csv"])]
)
def test_an_ascii_locale_gets_ascii(start, locale, arguments):
    run = start(*arguments, env=os.environ | locale)
    out, err = run.communicate(timeout=MINUTE)
    assert (out + err).isascii()
    assert run.returncode == (0 if "--help" in arguments else 2), err.decode()
    assert b"Traceback" not in err
    assert err.count(b"\n") == (0 if "--help" in arguments else 1)


@pytest.mark.slow
def test_json_and_tables_are_readable_in_an_ascii_locale(table, start):
    table.write_text(table.read_text(encoding="utf-8").replace("s\n", "größer😀\n"), encoding="utf-8")
    arguments = ["suspects", table, "--target", "kind", "-k", "5"]
    out, err = start(*arguments, "--json", env=os.environ | ASCII[0]).communicate(timeout=MINUTE)
    assert out.isascii(), err.decode()
    assert isinstance(json.loads(out), dict)
    out, err = start(*arguments, env=os.environ | ASCII[0]).communicate(timeout=MINUTE)
    assert out.isascii(), err.decode()
    assert b"\\u2500" not in out, "lines of tables are drawn in ASCII"


@pytest.mark.parametrize(("stream", "arguments", "code"), [
    (1, ["--help"], 0), (2, ["weight", "none.csv", "--target", "y"], 2),
])  # fmt: skip
def test_a_closed_stream_is_no_error(start, stream, arguments, code):
    run = start(*arguments, preexec_fn=lambda: os.close(stream))
    _, err = run.communicate(timeout=MINUTE)
    assert (run.returncode, err) == (code, b"")


@pytest.mark.parametrize(("call", "says"), [
    ("sys.exit(1)", "sys.exit(1)"), ("sys.exit()", "sys.exit()"), ("sys.exit('bad\\nmesh')", "sys.exit('bad\\nmesh')"),
])  # fmt: skip
def test_a_function_that_exits_is_reported(here, capsys, call, says):
    (here / "leaving.py").write_text(f"import sys\ndef f(x):\n    {call}\n")
    assert main(["design", "leaving:f", "--bounds", "x=0:1", "-n", "9"]) == 2
    error = capsys.readouterr().err
    assert error == f"steep: leaving:f called {says}; return a value or raise an exception instead\n"


def test_a_network_that_exits_is_reported(here, capsys):
    np.savez("train.npz", X=np.zeros((4, 2)), y=[0, 1, 0, 1])
    (here / "leaving.py").write_text("import sys\ndef network():\n    sys.exit(1)\n")
    assert main(["improve", "leaving:network", "--train", "train.npz", "--validation", "train.npz"]) == 2
    assert "leaving:network called sys.exit(1)" in capsys.readouterr().err


def test_the_old_name_of_weight_works_and_says_so(table, capsys):
    arguments = [str(table), "--target", "kind", "-m", "3", "-o"]
    assert main(["weigh", *arguments, str(table.with_name("old.csv"))]) == 0
    assert capsys.readouterr().err == "steep: steep weigh is now called steep weight\n"
    assert main(["weight", *arguments, str(table.with_name("new.csv"))]) == 0
    assert table.with_name("old.csv").read_text() == table.with_name("new.csv").read_text()
