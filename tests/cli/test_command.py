"""The command as a process: pipes, signals, exit codes."""

import os
import signal
import subprocess
import sys
import time

import pytest

import steep
from steep.cli import main, weighing

MINUTE = 60


def test_the_command_is_installed_and_knows_its_version(start):
    out, err = start("--version").communicate(timeout=MINUTE)
    assert out.decode() == f"steep {steep.__version__}\n"
    assert err == b""


def test_without_a_command_one_line_says_so(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == "steep: Missing command; see steep --help\n"


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "weigh" in shown
    assert "demo" in shown


def test_a_traceback_is_shown_only_for_debugging(tmp_path, capsys):
    arguments = ["weigh", str(tmp_path / "none.csv"), "--target", "y"]
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*arguments, "--debug"]) == 2
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.splitlines()[-1].startswith("steep: ")


def test_an_error_nobody_foresaw_is_one_line_with_its_kind(table, capsys, monkeypatch):
    monkeypatch.setattr(weighing, "Weighing", lambda *_, **__: {}["lost\nkey"])
    assert main(["weigh", str(table), "--target", "kind", "-m", "3"]) == 2
    error = capsys.readouterr().err
    assert error == "steep: KeyError: 'lost\\nkey'; --debug shows where it came from\n"


@pytest.mark.slow
def test_a_warning_is_one_line(tmp_path):
    code = """
import sys, warnings, steep.cli.tables
opened = steep.cli.tables.open_table
def warning(*args, **options):
    warnings.warn("two\\nlines")
    return opened(*args, **options)
steep.cli.tables.open_table = warning
sys.exit(steep.cli.main(["weigh", "none.csv", "--target", "y"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=MINUTE
    )
    assert done.stderr.splitlines()[0] == "steep: warning: two lines"
    assert done.stderr.count("\n") == 2


def test_a_reader_that_leaves_early_is_no_error(table, start):
    run = start("weigh", table, "--target", "kind", "-m", "3", "--json")
    run.stdout.close()
    assert run.stderr.read() == b""
    assert run.wait(MINUTE) == 141


@pytest.mark.slow
def test_a_table_may_come_through_a_pipe(table, start):
    output = table.with_name("w.csv")
    for options, code in (([], 2), (["-o", output], 0)):
        run = start("weigh", "/dev/stdin", "--target", "kind", "-m", "3", *options, stdin=subprocess.PIPE)
        error = run.communicate(table.read_bytes(), timeout=MINUTE)[1].decode()
        assert run.returncode == code, error
    assert len(output.read_text().splitlines()) == 151


@pytest.mark.slow
def test_a_full_disk_is_one_line(table, start):
    with open("/dev/full", "wb") as full:
        run = start("weigh", table, "--target", "kind", "-m", "3", stdout=full)
        error = run.communicate(timeout=MINUTE)[1].decode()
    assert "No space left" in error
    assert "Traceback" not in error
    assert run.returncode == 2


@pytest.mark.parametrize(
    ("how", "code", "lines"),
    [(signal.SIGINT, 130, 1), pytest.param(signal.SIGTERM, 143, 0, marks=pytest.mark.slow)],
)
def test_a_signal_ends_the_command_with_its_own_code(tmp_path, start, how, code, lines):
    pipe = tmp_path / "table.csv"
    os.mkfifo(pipe)
    run = start("weigh", pipe, "--target", "y")
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
    run = start("weigh", table, "--target", "y", "-k", "2", "-m", "3", "-o", output)
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
