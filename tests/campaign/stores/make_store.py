"""Write a small store with the steep on the path, and beside it what is in it.

Each format of the store that was ever written is kept here, made by the steep of its time:

    python make_store.py FOLDER/format-NAME.db

Done, failed, pending and foreign runs; inputs of every kind; two outputs.
"""

import json
import math
import sys
from pathlib import Path

from steep.campaign import Campaign

try:
    from steep.domain import Category, Integer, Log
except ImportError:  # before the domain had a room of its own
    from steep.axes import Category, Integer, Log


def solve(u0, k, n, material):
    if u0 > 0.8:
        raise ValueError(f"diverged at {u0}")
    return {"a": u0 * n + math.log10(k), "b": float(material == "steel")}


def main(path):
    bounds = {
        "u0": (0.0, 1.0), "k": Log(1e-3, 1e3), "n": Integer(1, 5), "material": Category("steel", "copper", "zinc"),
    }  # fmt: skip
    with Campaign(bounds, outputs=["a", "b"], storage=path, random_state=3) as campaign:
        campaign.run(solve, 30, retries=0)
        asked = campaign.ask(3)
        campaign.tell([[0.5, 1.0, 2, 0], [2.0, 1.0, 2, 0]], [[1.0, 1.0], [4.0, 1.0]])
        leased = []
        if hasattr(campaign, "forget"):  # version 2
            leased = campaign.ask(2, lease="30000 d")["run"].tolist()
            campaign.forget(campaign._ask(1)[0][0])
            campaign.correct(1, [7.0, 1.0], reason="unit")
        content = {
            "names": list(campaign.box.names),
            "axes": [list(axis.key()) for axis in campaign.box.axes],
            "outputs": list(campaign.outputs),
            "X": campaign.X.tolist(),
            "y": campaign.y.tolist(),
            "asked": asked.tolist(),
            "pending": campaign.pending.tolist(),
            "leased": leased,
            "n_done": campaign.n_done,
            "failed": sorted(set(campaign.failures()["run"].tolist())),
        }
    Path(path).with_suffix(".json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
