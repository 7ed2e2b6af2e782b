import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_readme_shows_code():
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("n_blocks", range(1, len(BLOCKS) + 1))
def test_the_code_of_the_readme_runs(n_blocks):
    exec("\n".join(BLOCKS[:n_blocks]), {})


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8")))
def test_the_links_of_the_readme_lead_somewhere(link):
    assert link.startswith("https://") or (README.parent / link).exists()
