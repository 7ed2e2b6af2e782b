"""In a real notebook: results show themselves, and bars are those of the notebook."""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CELLS = [
    """
import time
from steep import Campaign, design
plan = design(lambda X: X[:, 0] ** 2, {"<b>x": (0, 1)}, 12, n_initial=8, random_state=0)
plan
""",
    """
campaign = Campaign([(0, 1)], storage=":memory:")
def slow(x):
    time.sleep(0.01)
    return float(x[0]) ** 2
_ = campaign.run(slow, 16, progress=True)
""",
    "campaign",
    """
from steep._progress import in_notebook, progress_bar
with progress_bar(total=3, label="steps", shown=True) as bar:
    bar.update(3)
print(in_notebook(), any(kind.__module__ == "tqdm.notebook" for kind in type(bar._bar).__mro__))
""",
]


@pytest.fixture(scope="module")
def outputs():
    """What each cell shows, with every message the kernel sent."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("ipywidgets")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    updates = []

    class Client(nbclient.NotebookClient):
        def process_message(self, message, cell, cell_index):
            if message["msg_type"] in ("display_data", "update_display_data"):
                updates.append((cell_index, message["msg_type"], message["content"]["data"]))
            return super().process_message(message, cell, cell_index)

    source = str(Path(__file__).parents[1] / "src")
    paths = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    Client(notebook, timeout=120, kernel_name="python3").execute(env=os.environ | {"PYTHONPATH": paths})
    return [cell["outputs"] for cell in notebook.cells], updates


def test_a_design_shows_itself_with_its_names_as_text(outputs):
    (shown,) = outputs[0][0]
    assert "&lt;b&gt;x" in shown["data"]["text/html"]
    assert "12" in shown["data"]["text/html"]


def test_a_campaign_shows_itself(outputs):
    (shown,) = outputs[0][2]
    assert "done" in shown["data"]["text/html"]
    assert "<progress" in shown["data"]["text/html"]


def test_the_bar_is_one_of_the_notebook(outputs):
    told = "".join(one.get("text", "") for one in outputs[0][3] if one["output_type"] == "stream")
    assert "True True" in told
    bars = [data for cell, _, data in outputs[1] if cell == 3]
    assert any("application/vnd.jupyter.widget-view+json" in data for data in bars)
