"""The batch scripts of the documentation, run as they are printed, with a small stand-in for SLURM's sbatch."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import steep

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "campaigns.md"
# sbatch --wait script: one task after another, each told its number as SLURM does.
SBATCH = """#!/bin/bash
for task in $(seq 1 20); do SLURM_ARRAY_TASK_ID=$task bash "$2" || exit 1; done
"""
STEEP = """#!/bin/bash
exec {python} -m steep "$@"
"""
SOLVER = """#!/bin/bash
[[ $2 == 0.9* ]] && exit 3
echo "${2}"
"""


@pytest.mark.slow
def test_the_slurm_array_of_the_documentation_runs_to_its_end(tmp_path):
    task, driver = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    programs = {"bin/sbatch": SBATCH, "bin/steep": STEEP.format(python=sys.executable), "solver": SOLVER}
    for name, text in {**programs, "run.sbatch": task, "campaign.sh": driver}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-eu", "campaign.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert "0 running, 20 leased" in done.stdout
    with steep.Campaign(storage=tmp_path / "campaign.db") as campaign:
        frame = campaign.to_dataframe()
        assert frame.state.value_counts().drop("pending").sum() == 60
        kept = frame[frame.state == "done"]
        pd.testing.assert_series_equal(kept.u, kept.u0, check_names=False)
        assert (frame[frame.state == "failed"].u0 >= 0.9).all()
        assert campaign.n_failed > 0
        assert set(campaign.failures().message) == {"exit code 3"}
