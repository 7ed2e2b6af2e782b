"""The code of the guide runs as it is printed."""

import re
from pathlib import Path

import torch

GUIDE = Path(__file__).parents[2] / "docs" / "improve.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_code_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {}
    assert len(BLOCKS) == 3
    for block in BLOCKS:
        exec(block, names)
    assert (tmp_path / "better.safetensors").exists()
    assert len(names["hardest"]) == 10
