import json
import os
import pickle
import sys
import uuid

import pytest

from campaign_simulators import MARK, marked, segfaults
from steep import SteepError
from steep.campaign import Campaign, command_simulator
from steep.exceptions import FunctionError, InputError

PYTHON = sys.executable


def program(code, *arguments):
    return [PYTHON, "-c", code.replace("{", "{{").replace("}", "}}"), *arguments]


def test_a_program_is_run_for_each_point_of_a_campaign(tmp_path):
    code = "import sys, json; u, t = map(float, sys.argv[1:]); print(json.dumps({'u': u * t, 'eta': u - t}))"
    solver = command_simulator(program(code, "{u0}", "{t}"), outputs="json")
    with Campaign({"u0": (0.0, 1.0), "t": (0.0, 1.0)}, outputs=["u", "eta"], storage=tmp_path / "c.db") as campaign:
        campaign.run(solver, 4, executor="threads", n_workers=2)
        frame = campaign.to_dataframe()
        assert (frame.u == frame.u0 * frame.t).all()  # repr of a float loses no digit
        assert (frame.eta == frame.u0 - frame.t).all()


@pytest.mark.parametrize(
    ("code", "outputs", "answer"),
    [
        ("print('{\"a\": 1.5}')", "json", {"a": 1.5}),
        ("print('[1, 2]')", "json", [1, 2]),
        ("print('a,b'); print('1,2'); print('3,4')", "csv", {"a": 3.0, "b": 4.0}),
        ("print('CL = 0.5, CD = 0.02')", r"CL = (?P<CL>\S+), CD = (?P<CD>\S+)", {"CL": 0.5, "CD": 0.02}),
        ("print('noise'); print('energy = -1.5e3 J, t=2')", r"energy = (\S+) J, t=(\d+)", [-1500.0, 2.0]),
    ],
)
def test_answers_are_read_from_json_csv_or_a_pattern(code, outputs, answer):
    assert command_simulator(program(code), outputs=outputs)() == answer


MEGABYTES = r"""
import sys
sys.stderr.buffer.write(b"\xff\xfe noise [1, {" * 300_000)
sys.stdout.buffer.write(b"step [1] \xc3\x28 {\n" * 300_000 + b"[" * 2_000_000 + b'\n{"u": 2.5}\n')
"""


def test_an_answer_after_megabytes_of_anything_is_found():
    assert command_simulator(program(MEGABYTES))() == {"u": 2.5}


def test_an_answer_may_be_in_a_file_of_the_runs_own_directory():
    code = "open('out.json', 'w').write('3.5'); print('chatter')"
    here = set(os.listdir())
    assert command_simulator(program(code), file="out.json")() == 3.5
    assert set(os.listdir()) == here
    with pytest.raises(FunctionError, match=r"left no file 'out\.json' .* stdout ends with 'chatter"):
        command_simulator(program("print('chatter')"), file="out.json")()


@pytest.mark.parametrize("make", ["mkfifo out.json", "ln -s /dev/zero out.json", "mkdir out.json"])
def test_only_a_regular_file_is_an_answer(make):
    with pytest.raises(FunctionError, match=r"left no file 'out\.json' \((not a regular file|Is a directory)\)"):
        command_simulator(["sh", "-c", make], file="out.json", timeout=600)()


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_segmentation_fault_is_called_the_same_wherever_it_happens(tmp_path, executor):
    crash = command_simulator(["sh", "-c", "kill -SEGV $$"]) if executor == "threads" else segfaults
    with Campaign({"u": (0.0, 1.0)}, storage=tmp_path / "c.db") as campaign:
        campaign.run(crash, 1, retries=0, executor=executor, n_workers=1)
        assert "was ended by SIGSEGV" in campaign.failures().message[0]


@pytest.mark.parametrize(
    ("text", "outputs"), [("u,u\\n1,2", "csv"), ('{"u": 1, "u": 2}', "json"), ('{"u": 1}\\n{"u": 1, "u": 2}', "json")]
)
def test_an_answer_that_names_an_output_twice_fails_its_run(text, outputs):
    with pytest.raises(FunctionError, match="expected each name once"):
        command_simulator(["printf", text.replace("{", "{{").replace("}", "}}")], outputs=outputs)()


@pytest.mark.parametrize("nasty", ["; touch hacked", "$(touch hacked)", "a b 'c' \"d\"", "{x.__class__}", "*"])
def test_inputs_are_never_read_by_a_shell_nor_split_nor_formatted(nasty):
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"
    echo = command_simulator(program(code, "--name={x}", "{x}"), outputs="json")
    assert echo(x=nasty) == [f"--name={nasty}", nasty]


def test_a_command_string_is_split_before_the_inputs_are_put_in():
    echo = command_simulator(f"{PYTHON} -c 'import sys; print(len(sys.argv))' --a {{x}}", outputs="json")
    assert echo(x="one two three") == 3


def test_stdin_may_carry_the_inputs():
    double = command_simulator(program("print(2 * float(input()))"), input="{x}\n")
    assert double(x=1.25) == 2.5


def test_a_failing_program_leaves_its_stderr():
    code = "import sys; sys.stderr.write('mesh tangled at 7'); sys.exit(4)"
    with pytest.raises(FunctionError, match=r"(?s)ended with code 4; its stderr:\nmesh tangled at 7"):
        command_simulator(program(code))()


def test_a_program_over_time_is_killed_with_all_it_started(tmp_path, monkeypatch):
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code = "setsid sleep 3600 & (setsid sleep 3600 &); sleep 3600"
    with pytest.raises(TimeoutError, match=r"took more than 1 s and was killed"):
        command_simulator(["sh", "-c", code], timeout=1.0)()
    assert marked(mark) == []
    assert list(tmp_path.iterdir()) == []


def test_what_a_program_leaves_running_ends_with_it(tmp_path, monkeypatch):
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    assert command_simulator(["sh", "-c", "setsid sleep 3600 & echo 4"])() == 4
    assert marked(mark) == []


def test_a_large_answer_comes_back_whole():
    code = "print([1.5] * 300_000); open('out.json', 'w').write('[2.5]' + ' ' * 1_000_000)"
    assert command_simulator(program(code))() == [1.5] * 300_000
    assert command_simulator(program(code), file="out.json")() == [2.5]


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("{x}", 0.1 + 0.2, "0.30000000000000004"),
        ("{x:.2f}", 0.126, "0.13"),
        ("{x:08.3e}", 12345.0, "1.234e+04"),
        ("{x:>4d}", 7, "   7"),
        ("{x!r}", "steel", "'steel'"),
        ("{x!r:>9}", "steel", "  'steel'"),
        ("{x:>7}", "steel", "  steel"),
        ("{{{x}}}", 1, "{1}"),
    ],
)
def test_formats_of_a_template_are_applied(template, value, text):
    echo = command_simulator(program("import sys, json; print(json.dumps(sys.argv[1]))", template))
    assert echo(x=value) == text


@pytest.mark.parametrize(
    "template", ["{x.__class__}", "{x[0]}", "{}", "{0}", "{x:{y}}", "{x!z}", "{x.real:.2f}", "{x:.2f", "{"]
)
def test_a_template_never_reaches_into_its_inputs(template):
    with pytest.raises(InputError, match="command part"):
        command_simulator(["echo", template])
    with pytest.raises(InputError, match="command part"):
        command_simulator(["cat"], input=template)


def test_a_format_that_does_not_fit_is_an_error_of_one_line():
    with pytest.raises(InputError, match=r"'\{x:\.2f\}' does not fit the inputs \{'x': 'steel'\}"):
        command_simulator("echo {x:.2f}")(x="steel")


def test_a_timeout_is_recorded_as_one(tmp_path):
    slow = command_simulator(program("import time; time.sleep(60)"), timeout=0.2)
    with Campaign({"a": (0.0, 1.0)}, storage=tmp_path / "c.db") as campaign:
        campaign.run(slow, 2, retries=0)
        assert campaign.failures().kind.tolist() == ["timeout", "timeout"]


def test_a_simulator_can_be_sent_to_another_process():
    double = pickle.loads(pickle.dumps(command_simulator(program("print(2)"))))
    assert double() == 2


def test_a_relative_program_is_found_from_the_directory_it_was_made_in(tmp_path, monkeypatch):
    script = tmp_path / "solver.sh"
    script.write_text("#!/bin/sh\necho $1\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    solver = command_simulator("./solver.sh {x}")
    monkeypatch.chdir("/")
    assert solver(x=4) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: command_simulator(""), "command is empty"),
        (lambda: command_simulator(3), "command is a int"),
        (lambda: command_simulator("echo 'a"), "cannot be split .*close its quotes"),
        (lambda: command_simulator("a", timeout=10**400), "timeout=1000.* is out of range"),
        (lambda: command_simulator("a", file=3), "file is a int"),
        (lambda: command_simulator("a", input=3), "input is a int"),
        (lambda: command_simulator("a", env={"A": 1}), "env is .*expected a mapping of strings"),
        (lambda: command_simulator("a", outputs=3), "neither 'json', 'csv' nor a regular expression"),
        (lambda: command_simulator(["echo", "{x}"])(x="\0"), "did not start"),
        (lambda: command_simulator(program("print('[' * 100000)"))(), "the answer is not readable as 'json'"),
        (lambda: command_simulator("a {x"), "write a literal brace twice"),
        (lambda: command_simulator("a", outputs="(x"), "neither 'json', 'csv' nor a regular expression"),
        (lambda: command_simulator("a", outputs="x"), "has no group"),
        (lambda: command_simulator("a", outputs="(?P<u>x) (y)"), "names some of its groups"),
        (lambda: command_simulator("a", timeout=0), "timeout=0 is out of range"),
        (lambda: command_simulator("a {x}")(y=1), r"command needs inputs \['x'\], got \['y'\]"),
        (lambda: command_simulator("/no/such/program")(), "did not start"),
        (lambda: command_simulator(program("print('x')"))(), "the answer is not readable as 'json'"),
        (lambda: command_simulator(program("print()"), outputs="csv")(), "the answer is not readable as 'csv'"),
        (lambda: command_simulator(program("print()"), outputs="(a)")(), "no match"),
    ],
)
def test_bad_commands_are_refused(make, message):
    with pytest.raises(SteepError, match=message):
        make()


def test_the_error_of_a_bad_command_is_an_input_error():
    with pytest.raises(InputError):
        command_simulator(json.loads("[]"))
