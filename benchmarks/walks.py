"""Six walks through the house: which functions a call passes, how long it takes, and what comes out.

    python benchmarks/walks.py functions                       # the functions of steep each walk passes, as Markdown
    python benchmarks/walks.py times --against OLD_SRC         # seconds of both versions, run in turns
    python benchmarks/walks.py outputs --against OLD_SRC       # the largest difference of their results

A walk is one public call on made data: ``sample_weights`` on 50,000×64, ``VarianceWeightedCV.fit``, ``design``,
``Campaign.run`` with processes, ``nn.improve``, and the command ``steep weight`` with ``-m`` and without. Compiling is
left out: each walk is run once before it counts. ``OLD_SRC`` is the ``src`` folder of another checkout; times are CPU
seconds of this process, the least of several runs, and for the campaign, whose runs happen elsewhere, wall-clock
seconds. Differences are relative to the largest entry of a result.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "walks.json"


def features(n, d, seed=0):
    """Clustered data as the last layer of a network gives them, and their classes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(10, d)) * 2
    classes = rng.integers(0, 10, n)
    X = np.maximum(centres[classes] + rng.normal(size=(n, d)), 0).astype(np.float32)
    return X, np.where(rng.random(n) < 0.05, rng.integers(0, 10, n), classes)


def walk_sample_weights():
    import steep

    X, y = features(50_000, 64)
    return lambda: {"weights": steep.sample_weights(X, y)}


def walk_search():
    from sklearn.linear_model import LogisticRegression

    import steep

    X, y = features(1_500, 12)
    model = LogisticRegression(max_iter=200)

    def fit():
        search = steep.VarianceWeightedCV(model, weight_ratio=(0.1, 10.0), random_state=0).fit(X, y % 3)
        scores = search.cv_results_["mean_test_score"]
        return {"weights": search.sample_weight_, "coefficients": search.estimator_.coef_, "scores": scores}

    return fit


def walk_design():
    import steep

    def function(X):
        return np.tanh(20 * (X[:, 0] - 0.3)) * X[:, 1]

    def run():
        plan = steep.design(function, {"u": (0, 1), "t": (0, 10)}, 200, n_initial=50, random_state=0)
        return {"points": plan.X, "outputs": plan.y}

    return run


def simulator(u, t):
    return float(np.tanh(20 * (u - 0.3)) * t)


def walk_campaign(n_workers=2):
    import steep

    def run():
        with (
            tempfile.TemporaryDirectory() as folder,
            steep.Campaign({"u": (0, 1), "t": (0, 10)}, storage=Path(folder) / "campaign.db") as campaign,
        ):
            campaign.run(simulator, 80, executor="processes", n_workers=n_workers)
            assert campaign.n_done == 80
            return {"points": campaign.to_dataframe()[["u", "t"]].to_numpy()}

    return run


def walk_improve():
    import torch

    import steep.nn

    X, y = features(6_000, 32)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    parts = [(torch.as_tensor(X[rows]), torch.as_tensor(y[rows])) for rows in (slice(0, 4_000), slice(4_000, None))]
    search = steep.nn.HeadSearch(l2=(1e-2, 1e-3, 1e-4), n_neighbors=(20,))

    def improve():
        found = steep.nn.improve(network, *parts, search=search, random_state=0)
        return {"gain": [found.verdict.interval.mean], "head": found.network[-1].weight.detach().numpy()}

    return improve


def walk_command():
    import pandas as pd

    from steep.cli import main

    X, y = features(2_000, 8)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)]).assign(colour=np.where(y % 2, "red", "blue"), y=y % 3)

    def run():
        with tempfile.TemporaryDirectory() as folder:
            table, weighted = Path(folder) / "table.csv", Path(folder) / "weighted.csv"
            frame.to_csv(table, index=False)
            found = {}
            for name, more in (("ratio", ["-m", "3"]), ("evidence", ["--scoring", "balanced_accuracy"])):
                with contextlib.redirect_stdout(io.StringIO()):
                    code = main(["weight", str(table), "--target", "y", "-o", str(weighted), "--force", *more])
                assert code == 0
                found[name] = pd.read_csv(weighted)["sample_weight"].to_numpy()
            return found

    return run


WALKS = {
    "sample_weights": (walk_sample_weights, time.process_time, 5),
    "VarianceWeightedCV.fit": (walk_search, time.process_time, 5),
    "design": (walk_design, time.process_time, 10),
    "Campaign.run": (walk_campaign, time.perf_counter, 5),
    "improve": (walk_improve, time.process_time, 5),
    "steep weight": (walk_command, time.process_time, 3),
}


def passed(call):
    """Names of the functions of steep that a call passes, in the order met, with how often."""
    import steep

    home = str(Path(steep.__file__).parent) + os.sep
    counts: Counter[str] = Counter()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(home):
            module = frame.f_code.co_filename[len(home) : -3].replace(os.sep, ".")
            name = frame.f_code.co_qualname
            if "<" not in name.rpartition(".")[2]:
                counts[f"{module}.{name}"] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counts


def measure(name, what):
    """One walk in this process: its functions, or its least time."""
    make, clock, repeats = WALKS[name]
    # With one worker the points do not depend on which run ends first.
    call = make(n_workers=1) if name == "Campaign.run" and what == "outputs" else make()
    began = time.perf_counter()
    call()
    first = time.perf_counter() - began
    if what == "functions":
        return dict(passed(call))
    if what == "first":
        return first
    if what == "outputs":
        return {key: np.asarray(value, dtype=float).tolist() for key, value in call().items()}
    spent = []
    for _ in range(repeats):
        began = clock()
        call()
        spent.append(clock() - began)
    return min(spent)


def elsewhere(name, what, source):
    """One walk in a process of its own, with the steep of ``source``."""
    command = [sys.executable, "-W", "ignore", __file__, "one", "--walk", name, "--what", what]
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=1200)
    return json.loads(done.stdout.splitlines()[-1])


def functions(options):
    for name in options.only or WALKS:
        counts = elsewhere(name, "functions", options.source)
        print(f"\n**{name}**: {len(counts)} functions, {sum(counts.values()):,} calls\n")
        print(" · ".join(f"`{function}`" + (f" ×{n}" if n > 1 else "") for function, n in counts.items()))


def times(options):
    from reproduction.records import machine

    table = json.loads(RESULTS.read_text())["walks"] if RESULTS.exists() else {}
    for name in options.only or WALKS:
        old, new = [], []
        for _ in range(options.rounds):
            old.append(elsewhere(name, "times", options.against))
            new.append(elsewhere(name, "times", options.source))
        table[name] = {"before": min(old), "after": min(new), "ratio": min(new) / min(old)}
        if name == "Campaign.run":  # the old pool kept a server alive for later calls
            table[name] |= {
                "first_before": min(elsewhere(name, "first", options.against) for _ in range(options.rounds)),
                "first_after": min(elsewhere(name, "first", options.source) for _ in range(options.rounds)),
            }
        print(
            f"{name:24} before {min(old):7.3f} s   after {min(new):7.3f} s   ratio {min(new) / min(old):.3f}",
            flush=True,
        )
    store({"walks": table, "rounds": options.rounds, **machine()})


def outputs(options):
    """Compare what both versions return."""
    from reproduction.records import machine

    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    table = known.get("outputs", {}).get("largest_relative_difference", {})
    for name in options.only or WALKS:
        old, new = (elsewhere(name, "outputs", source) for source in (options.against, options.source))
        for key in old:
            before, after = np.asarray(old[key]), np.asarray(new[key])
            is_same = before.shape == after.shape
            apart = float(np.abs(before - after).max() / np.abs(before).max()) if is_same else None
            table[f"{name}: {key}"] = apart
            print(f"{name + ': ' + key:40} {before.shape} {'another shape' if apart is None else f'{apart:.1e}'}")
    version = subprocess.run(
        ["git", "-C", str(options.against), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    store({"outputs": {"against": version.stdout.strip(), "largest_relative_difference": table, **machine()}})


def store(figures):
    """Keep the figures of one command next to those of the others."""
    from steep._files import write_whole

    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    write_whole(RESULTS, lambda path: path.write_text(json.dumps(known | figures, indent=1) + "\n"))


def one(options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(json.dumps(measure(options.walk, options.what)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["functions", "times", "outputs", "one"])
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src", help="src folder to walk")
    parser.add_argument("--against", type=Path, help="src folder of another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(WALKS))
    parser.add_argument("--walk", help=argparse.SUPPRESS)
    parser.add_argument("--what", help=argparse.SUPPRESS)
    options = parser.parse_args()
    {"functions": functions, "times": times, "outputs": outputs, "one": one}[options.command](options)


if __name__ == "__main__":
    main()
