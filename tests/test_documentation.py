"""Every page: its code runs, its links lead somewhere.

The blocks of a page run in order, as one script, in a folder of their own. A block whose line above is
``<!-- not run -->`` is left out. What a page takes for granted (the reader's own function, network or data) stands in
a comment, which readers do not see and which runs too:

    <!-- run first
    f = lambda X: X[:, 0] ** 2
    -->
"""

import re
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
CODE = re.compile(
    r"(?P<skip><!-- not run -->\n)?```python\n(?P<shown>.*?)```|<!-- run first\n(?P<hidden>.*?)-->", re.DOTALL
)
LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")


def script_of(text):
    """The code of a page at the lines where it stands, so that an error names the line of the page."""
    lines = [""] * (text.count("\n") + 2)
    for match in CODE.finditer(text):
        if match["skip"]:
            continue
        part = "shown" if match["shown"] is not None else "hidden"
        first = text.count("\n", 0, match.start(part))
        code = match[part].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines)


def needs_of(name, script):
    """Libraries that a page names in a comment ``<!-- needs a b -->``, and torch where it is imported."""
    named = re.findall(r"<!-- needs (.*?) -->", (ROOT / name).read_text(encoding="utf-8"))
    found = [library for names in named for library in names.split()]
    return found + ["torch"] * bool(re.search(r"import.*\b(torch|steep\.nn)\b", script))


def headings_of(page):
    text = page.read_text(encoding="utf-8")
    return {
        re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in re.findall(r"^#+ (.*)", text, re.M)
    }


def test_code_is_found_skipped_and_placed():
    page = "a\n<!-- run first\nx = 1\n-->\n```python\ny = x\n```\n<!-- not run -->\n```python\nz\n```\n```\nno\n```\n"
    script = script_of(page)
    assert script.split("\n")[2] == "x = 1"
    assert script.split("\n")[5] == "y = x"
    assert script.split() == ["x", "=", "1", "y", "=", "x"]


def test_the_pages_show_code():
    assert sum(bool(script_of(page.read_text(encoding="utf-8")).strip()) for page in PAGES) >= 4


def runnable():
    """Pages with code; recipes import other people's libraries, which takes seconds each."""
    for name in NAMES:
        if "```python" in (ROOT / name).read_text(encoding="utf-8"):
            yield pytest.param(name, marks=[pytest.mark.slow] * ("recipes" in name))


@pytest.mark.parametrize("name", list(runnable()))
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch, capsys):
    script = script_of((ROOT / name).read_text(encoding="utf-8"))
    for library in needs_of(name, script):
        if not find_spec(library):
            pytest.skip(f"needs {library}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    with warnings.catch_warnings():
        if "recipes" in name:  # what other libraries warn about among themselves is not ours
            warnings.simplefilter("ignore")
        exec(compile(script, name, "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out
    if name == "README.md":  # a comment on the line after a print is what it shows, up to an ellipsis
        for shown in re.findall(r"^print.*\n# (.*?)…?$", script, re.M):
            assert shown in printed
    for module in set(sys.modules) - before:  # modules the page itself wrote
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


@pytest.mark.parametrize("name", NAMES)
def test_the_links_of_a_page_lead_somewhere(name):
    page = ROOT / name
    broken = []
    for link in LINK.findall(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)):
        if link.startswith("https://"):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (heading and heading not in headings_of(target)):
            broken.append(link)
    assert broken == []
