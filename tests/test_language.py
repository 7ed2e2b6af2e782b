"""Words that a reader stumbles over do not come back: pages, help and messages of errors."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTEAD = {
    r"\banew\b": "again",
    r"\bbeside\b": "next to, compared with",
    r"\bnobody\b": "no one",
    r"\b(is|are|was|were) told\b": "is reported",
    r"\brefus(e|es|ed|al)\b": "reject",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bso many\b": "that many",
    r"\bin the mean\b": "on average",
    r"\bof the caller's own\b": "user-supplied",
    r"; expected (it|none|them|that)\b": "expected …",
    r"\b(row|one|value|label|number|weight) an? (sample|point|input|class|row|run|output|feature)\b": "per",
    r"\bdearer\b|\bnear by\b|\bfor ever\b|\bwhoever\b": "plain words",
    r"\bweigh(s|ed|ing)?\b(?! \w+\.csv)": "weight",
    r"(?:^|\. )(Of|Where) (?!should|can|do |does|is |are )[a-z]+ [a-z]+": "start with the subject",
}
PAGES = [
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not {"decisions", "_build", "reproduction"} & set(page.parts)
]
TEMPLATES = sorted((ROOT / "src" / "steep" / "report" / "templates").glob("*.html"))
ROOMS = sorted({path.parent for path in (ROOT / "src" / "steep").rglob("*.py")})


def messages(path):
    """(line, text) of the strings in raised errors, warnings and help of options."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        parts = [node.exc] if isinstance(node, ast.Raise) and node.exc is not None else []
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            parts += [keyword.value for keyword in node.keywords if keyword.arg == "help"]
            parts += node.args if name.rpartition(".")[2] in ("warn", "echo") else []
        for part in parts:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.lineno, inner.value


def habits(text):
    text = re.sub(r"`[^`]*`", "", text)
    return [f"{found[0]!r} → {better}" for habit, better in INSTEAD.items() if (found := re.search(habit, text))]


def test_habits_are_found():
    assert habits("A file is refused") == ["'refused' → reject"]
    assert habits("`refused` is code") == []
    assert habits("Of lazy arrays none is loaded") == ["'Of lazy arrays' → start with the subject"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_in_plain_english(page):
    text = page.read_text(encoding="utf-8")
    code = r"```.*?```" if page.name != "command.md" else r"\$ never"  # the help of commands is prose
    prose = re.sub(code, lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)
    lines = enumerate(prose.splitlines(), 1)
    assert [f"{number}: {habit}" for number, line in lines for habit in habits(line)] == []


@pytest.mark.parametrize("page", TEMPLATES, ids=lambda page: page.name)
def test_reports_are_in_plain_english(page):
    """The words of the templates, without their tags and code."""
    text = re.sub(
        r"{[{%#].*?[#%}]}|<script.*?</script>|<style.*?</style>|<[^>]*>", " ", page.read_text(), flags=re.DOTALL
    )
    assert habits(text) == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_messages_are_in_plain_english(room):
    found = [
        f"{path.name}:{line} {habit}"
        for path in sorted(room.glob("*.py"))
        for line, text in messages(path)
        for habit in habits(text)
    ]
    assert found == []
