"""The page of findings: every figure comes from the lines, and so does every direction."""

import re
from pathlib import Path

import pytest

from reproduction.findings import DISAGREES, NOT_YET, findings, template
from reproduction.jobs import EXPERIMENTS
from reproduction.report import collect
from reproduction.summary import Lines
from steep.exceptions import InputError

ROOT = Path(__file__).parents[2]
NONE = {name: Lines([], "laptop") for name in EXPERIMENTS}
SLOT = re.compile(r"\[\[[^\]]*\]\]")


def lines_with(values):
    """Lines of the double moon on new splits: equal weights 0 and VBSW as given."""
    made = [
        {"experiment": "double_moon, repeated splits", "arm": arm, "seed": seed, "settings": {"splits": 3},
         "result": {"score": score}, "cpu_seconds": 0.0}
        for arm, scores in (("equal weights", [0.0] * len(values)), ("VBSW", values))
        for seed, score in enumerate(scores)
    ]  # fmt: skip
    return NONE | {"table3": Lines(made, "laptop")}


MOON = "table3; double_moon, repeated splits; equal weights; VBSW; score"


def test_committed_findings_and_lines_agree():
    lines = collect(ROOT / "results", "laptop")
    assert (ROOT / "docs/findings.md").read_text() == findings(lines), "run python -m reproduction --report"


def test_no_sentence_of_the_committed_findings_contradicts_the_lines():
    assert DISAGREES not in (ROOT / "docs/findings.md").read_text()


def test_the_template_holds_no_measured_figure_and_fits_two_screens():
    plain = SLOT.sub("", template())
    assert not re.findall(r"[+−-]\d+[.]\d+ \[", plain)
    assert "[[" not in plain
    assert len((ROOT / "docs/findings.md").read_text().splitlines()) <= 80


def test_without_lines_the_page_says_so_and_nothing_is_wrong():
    text = findings(NONE)
    assert text.count(NOT_YET) > 10
    assert DISAGREES not in text
    assert "[[" not in text


@pytest.mark.parametrize(("values", "word", "agrees"), [
    ([1.0, 1.1, 0.9], "up", True), ([1.0, 1.1, 0.9], "down", False), ([1.0, 1.1, 0.9], "none", False),
    ([-1.0, -1.1, -0.9], "down", True), ([-1.0, 1.1, -0.9], "none", True), ([-1.0, 1.1, -0.9], "up", False),
])  # fmt: skip
def test_a_sentence_is_marked_when_the_lines_say_otherwise(values, word, agrees):
    assert (DISAGREES not in findings(lines_with(values), f"x [[gain {MOON}; {word}]]")) == agrees


def test_slots_are_what_the_lines_say():
    lines = lines_with([1.0, 1.5, 2.0])
    assert findings(lines, f"[[gain {MOON}]]") == "+1.5 [0.258, 2.74]"
    assert findings(lines, f"[[gain {MOON}; error; x10]]") == "-15 [-27.4, -2.58]"
    arm = MOON.replace("equal weights; ", "")
    assert findings(lines, f"[[value {arm}]]") == "1.5"
    assert findings(lines, f"[[count {arm.removesuffix('; score')}]]") == "3"
    assert findings(lines, f"[[gain {MOON}; splits]]") == "+1.5 [-0.143, 3.14] (not significant)"


@pytest.mark.parametrize("slot", [
    "[[gain table3; double_moon, repeated splits; equal weights; VBWS; score]]",
    "[[gain table3; duoble_moon; baseline; VBSW; score]]",
    "[[gain table9; double_moon; baseline; VBSW; score]]",
    "[[gian table3; double_moon; baseline; VBSW; score]]",
    "[[gain table3; double_moon, repeated splits; equal weights; VBSW; scroe]]",
    "[[gain table3; double_moon]]",
    "[[count table3; double_moon, repeated splits; VBWS]]",
])  # fmt: skip
def test_a_slot_with_a_typing_error_is_refused_in_one_line(slot):
    with pytest.raises(InputError, match=r"expected a slot as in findings\.py") as caught:
        findings(lines_with([1.0, 2.0, 3.0]), slot)
    assert "\n" not in str(caught.value)
