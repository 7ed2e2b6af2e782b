import re

import pytest

from steep.cli import main

pytest.importorskip("torch")


@pytest.mark.slow
def test_the_demo_answers_four_questions_and_ends_with_the_path_of_its_page(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    page = tmp_path / "out" / "index.html"
    assert printed.splitlines()[-1] == str(page)
    assert len(re.findall(r"^\d\. ", printed, re.M)) == 4
    text = page.read_text(encoding="utf-8")
    links = re.findall(r'href="([a-z]+\.html)"', text)
    assert sorted(links) == ["design.html", "improvement.html", "suspects.html", "weights.html"]
    assert all((page.parent / link).exists() for link in links)
    # One case that helps, and one where equal weights are kept.
    assert "It helps" in text
    assert "Equal weights are kept" in text


def test_a_folder_that_is_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "out").write_text("mine")
    assert main(["demo", "--output", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (tmp_path / "out").read_text() == "mine"
