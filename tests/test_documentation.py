"""Every page: its code runs and prints what it shows, its links lead somewhere, it is short, its tables are current.

The blocks of a page run in order, as one script, in a folder of their own. A block whose line above is
``<!-- not run -->`` is left out. What a page takes for granted (the reader's own function, network or data) stands in a
comment, which readers do not see and which runs too:

    <!-- run first
    f = lambda X: X[:, 0] ** 2
    -->

A ``text`` block right below a ``python`` block is what that block prints. "…" stands for anything.
"""

import doctest
import re
import subprocess
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
CODE = re.compile(
    r"(?P<skip><!-- not run -->\n)?```python\n(?P<shown>.*?)```(?:\n+```text\n(?P<printed>.*?)```)?"
    r"|<!-- run first\n(?P<hidden>.*?)-->",
    re.DOTALL,
)
LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")
# Pages that are generated, and the list of changes.
LONG = ("CHANGELOG.md", "docs/reproduction", "docs/findings.md", "docs/reference/", "docs/benchmarks/")


def blocks_of(text):
    """(code at the lines where it stands, so that an error names the line of the page; what it is said to print)."""
    for match in CODE.finditer(text):
        if not match["skip"]:
            part = "shown" if match["shown"] is not None else "hidden"
            yield "\n" * text.count("\n", 0, match.start(part)) + match[part], match["printed"]


def prints(shown, printed):
    """Whether the output is what the page shows, up to spaces and up to "…"."""
    pattern = ".*?".join(re.escape(" ".join(part.split())) for part in shown.split("…"))
    return re.fullmatch(pattern.strip(), " ".join(printed.split()), re.DOTALL)


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
    page = (
        "a\n<!-- run first\nx = 1\n-->\n```python\ny = x\n```\n\n```text\n1 … 2\n```\n"
        "<!-- not run -->\n```python\nz\n```\n```\nno\n```\n"
    )
    assert list(blocks_of(page)) == [("\n\nx = 1\n", None), ("\n\n\n\n\ny = x\n", "1 … 2\n")]
    assert prints("1 …  2\n", "1 or\n2")
    assert not prints("1 … 2", "1 or 3")


def runnable():
    """Pages with code; recipes import other people's libraries, which takes seconds each."""
    for name in NAMES:
        if any(blocks_of((ROOT / name).read_text(encoding="utf-8"))):
            yield pytest.param(name, marks=[pytest.mark.slow] * ("recipes" in name))


@pytest.mark.parametrize("name", list(runnable()))
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch, capsys):
    blocks = list(blocks_of((ROOT / name).read_text(encoding="utf-8")))
    for library in needs_of(name, "\n".join(code for code, _ in blocks)):
        if not find_spec(library):
            pytest.skip(f"needs {library}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before, scope = set(sys.modules), {"__name__": "page"}
    with warnings.catch_warnings():
        if "recipes" in name:  # what other libraries warn about among themselves is not ours
            warnings.simplefilter("ignore")
        for code, shown in blocks:
            exec(compile(code, name, "exec"), scope)
            printed = capsys.readouterr().out
            assert shown is None or prints(shown, printed), f"{name} shows\n{shown}\nbut its code prints\n{printed}"
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


def test_the_tables_of_benchmarks_are_those_of_the_results():
    check = [sys.executable, str(ROOT / "benchmarks" / "publish.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, f"run python benchmarks/publish.py; stale: {done.stdout}"


def test_the_reference_is_that_of_the_code():
    check = [sys.executable, str(ROOT / "docs" / "reference.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, f"run python docs/reference.py; stale: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(LONG)])
def test_a_page_is_short(name):
    assert (ROOT / name).read_text(encoding="utf-8").count("\n") <= 120


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("index.md")])
def test_an_index_is_a_list_of_links_on_github_too(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    links = LINK.findall(text)
    listed = [line for block in re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert len(links) > 3
    assert [
        page
        for page in listed
        if page and page[0] not in ":0" and page != "../reproduction/*" and f"{page}.md" not in links
    ] == []


REFERENCE = sorted(ROOT.glob("docs/reference/*.md"))
ENTRIES = {
    name: entry
    for page in REFERENCE
    for name, entry in re.findall(
        r"^## (?:function|class|exception) `(.*?)`\n(.*?)(?=^## |\Z)", page.read_text(), re.M | re.S
    )
}


@pytest.mark.parametrize(
    "module", ["steep", "steep.nn", "steep.dask", "steep.neighbors", "steep.plotting", "steep.report"]
)
def test_every_public_name_has_an_entry_in_the_reference(module):
    if not find_spec("torch") and module == "steep.nn":
        pytest.skip("needs torch")
    names = {f"{module}.{name}" for name in import_module(module).__all__} - {"steep.neighbors.neighbor_graph"}
    assert names - set(ENTRIES) == set()


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_an_entry_shows_an_example_and_what_to_see_also(name):
    assert "```pycon" in ENTRIES[name]
    assert "**See also**: [" in ENTRIES[name]


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_the_examples_of_the_reference_run_as_they_are_shown(page, tmp_path, monkeypatch):
    """Each by itself, with nothing but its own imports."""
    if page.stem in ("networks", "plots") and not find_spec("torch"):
        pytest.skip("needs torch")
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for number, code in enumerate(re.findall(r"```pycon\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)):
        with warnings.catch_warnings():
            example = doctest.DocTestParser().get_doctest(code, {}, f"example {number} of {page.stem}", None, 0)
            assert runner.run(example).failed == 0
