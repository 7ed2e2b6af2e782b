"""Every command's help ends with an example, and every example runs as it is written."""

import json
import os
import shlex
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import typer.main

import steep
from steep.cli import app, main

MINUTES = 300
# Where there is no torch, some commands say so in one line, and have no example to run.
NEED_TORCH = {"improve"}


def commands():
    """(words, example) of every command, groups and the program itself included."""

    def walk(command, words):
        yield words, command.epilog.removeprefix("Example:").strip()
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*words, name))

    yield from walk(typer.main.get_command(app), ())


EXAMPLES = dict(commands())


def test_the_commands_are_the_agreed_ones():
    top = {words[0] for words in EXAMPLES if words}
    assert top == {"weight", "suspects", "design", "emulate", "surrogate", "campaign", "improve"}
    inner = {words[1] for words in EXAMPLES if len(words) == 2}
    assert inner == {
        "init", "run", "submit", "ask", "tell", "status", "failures", "export", "page", "import", "correct",
        "retry", "forget", "events",
    }  # fmt: skip


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_the_help_ends_with_an_example_in_one_line(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words, "--help"]) == 0
    shown = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert shown[-2:] == ["Example:", EXAMPLES[words]]
    assert EXAMPLES[words].startswith("steep ")
    assert len(EXAMPLES[words]) <= 78


@pytest.mark.parametrize("words", [words for words in EXAMPLES if words and words != ("campaign",)], ids=" ".join)
def test_every_command_has_json(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main([*words, "--help"])
    assert "--json" in capsys.readouterr().out


def test_debug_is_documented_once_for_all_commands(capsys):
    main(["--help"])
    assert "--debug" in capsys.readouterr().out


def test_the_exit_codes_are_documented(capsys):
    main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "Exit codes: 0 done; 2 bad input or failure, one line on stderr says why; 130 interrupted (Ctrl-C)" in shown


@pytest.fixture
def examples(here, table):
    """Everything the examples speak of."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    np.savez(here / "train.npz", X=X[:200], y=y[:200])
    np.savez(here / "val.npz", X=X[200:], y=y[200:])
    runs = pd.DataFrame({"x": rng.random(60), "t": 10 * rng.random(60)})
    runs.assign(u=runs.x * np.sin(runs.t)).to_csv(here / "runs.csv", index=False)
    (here / "earlier.csv").write_text("u0,y0,note\n0.123,0.5,by hand\n")
    with steep.Campaign({"u0": (0.0, 1.0)}, storage=here / "campaign.db") as campaign:
        campaign.run(lambda u0: u0**2 if u0 < 0.9 else 1 / 0, 24)
        campaign.ask(1, lease="1 h")
    return here


def run(arguments, folder):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "steep", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=MINUTES,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_the_example_runs_as_it_is_written(words, examples):
    if words and words[0] in NEED_TORCH and not find_spec("torch"):
        pytest.skip("needs torch")
    if words == ("campaign", "submit"):
        pytest.skip("needs a SLURM, see test_slurm.py")
    arguments = shlex.split(EXAMPLES[words])[1:]
    if arguments[:2] == ["campaign", "run"]:
        (examples / "campaign.db").unlink()
    done = run(arguments, examples)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if "-o" in arguments:
        assert (examples / arguments[arguments.index("-o") + 1]).stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("words", [words for words in EXAMPLES if words and words not in [("campaign",)]], ids=" ".join)
def test_json_is_all_there_is_on_stdout(words, examples):
    if words[0] in NEED_TORCH and not find_spec("torch"):
        pytest.skip("needs torch")
    if words == ("campaign", "submit"):
        pytest.skip("needs a SLURM, see test_slurm.py")
    arguments = shlex.split(EXAMPLES[words])[1:]
    if arguments[:2] == ["campaign", "run"]:
        (examples / "campaign.db").unlink()
    done = run([*arguments, "--json"], examples)
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    assert "\x1b" not in done.stdout + done.stderr


# ------------------------------------------------------------------------------------------- start-up


def test_help_and_version_load_none_of_the_heavy_libraries():
    heavy = ["numpy", "scipy", "sklearn", "pandas", "pyarrow", "numba", "torch", "matplotlib"]
    code = f"""
import sys
from steep.cli import main
main(["--version"])
main(["weight", "--help"])
print(*set({heavy!r}) & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.split() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"), [("steep we", "weight"), ("steep campaign st", "status"), ("steep weight --tar", "--target")]
)
def test_the_shell_completes_commands_and_options(line, expected):
    words = {"_STEEP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from steep.cli import main; sys.exit(main([]))"],
        env=os.environ | words, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert expected in done.stdout.split(), (done.stdout, done.stderr)
