"""The scripts in examples/ run as they are."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_demo_answers_four_questions_and_ends_with_the_path_of_its_page(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("jinja2")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py", tmp_path / "out"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    page = tmp_path / "out" / "index.html"
    assert done.stdout.splitlines()[-1] == str(page)
    assert len(re.findall(r"^\d\. ", done.stdout, re.M)) == 4
    links = re.findall(r'href="([a-z]+\.html)"', page.read_text(encoding="utf-8"))
    assert sorted(links) == ["design.html", "suspects.html", "weights.html"]
    assert all((page.parent / link).exists() for link in links)
    assert "lower in 5 of 5 repeats" in done.stdout
    # Weights: one case that helps, and one where equal weights are kept.
    assert "It helps the straight line" in done.stdout
    assert "It does not help the tumours: no weighting is better" in done.stdout
    assert "Equal weights are kept" in page.read_text(encoding="utf-8")
