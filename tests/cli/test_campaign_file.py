"""The page on campaign files: its example runs as it stands, and it lists every entry."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from steep.cli import main
from steep.cli.campaign.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "campaign-file.md").read_text(encoding="utf-8")


def test_the_page_lists_every_entry_with_its_default():
    rows = re.findall(r"^\| `(\w+)` \| .*? \| .*? \| (.*?) *\|$", PAGE, re.M)
    assert {name for name, _ in rows} == {*Settings.__dataclass_fields__} - {"folder"}
    settings = Settings()
    for name, default in rows:
        value = getattr(settings, name)
        if isinstance(value, int):
            assert default == str(value)
        elif default.startswith("`") and name != "measure":  # which the campaign chooses
            assert default == f'`"{value}"`'


@pytest.mark.skipif(shutil.which("python3") is None, reason="the example calls python3")
def test_the_example_of_the_page_runs_as_it_stands(here, capsys):
    (solver,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (shell,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for name, text in {"solver.py": solver, "case.toml": toml}.items():
        (here / name).write_text(text)
    for line in shell.splitlines():
        assert main(line.split()[1:]) == 0
    runs = pd.read_csv("runs.csv")
    assert (runs.state == "done").sum() == 16
    assert (runs.u0 * runs.t <= 5).all()
    assert ((runs.t < 8) | (runs.material == "steel")).all()
    assert (runs.energy - runs.u0**2 * runs.t).abs().max() < 1e-12
    assert set(runs.material) == {"steel", "copper"}
