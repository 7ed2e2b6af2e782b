"""Groups that fail: what a re-trained head gains them, beside peers on the same networks.

    python benchmarks/groups.py train   --seeds 0 1 2 3 4 --cache FOLDER          # networks, once; needs STEEP_DATA
    python benchmarks/groups.py improve --seeds 0 1 2 3 4 --cache FOLDER          # resumable, one JSON line a network
    python benchmarks/groups.py improve --seeds 10 11 12 13 14 15 16 17 18 19 --cache FOLDER
    python benchmarks/groups.py improve --arm "no groups" accuracy --seeds 10 11 12 13 14 15 16 17 18 19 --cache FOLDER
    python benchmarks/groups.py show                                              # both parts, written as JSON too

Seeds 0 to 4 are the development networks (the rule was settled on seeds 0 and 1); seeds 10 to 19 are run once.
The problems are in ``group_problems.py``, the peers in ``group_rivals.py``.
Peers are chosen by their best worst-group accuracy on the validation data, steep by its own rule of evidence for the
same score on the same data; balanced accuracy takes the place of worst-group accuracy where classes are imbalanced. No
method is told the groups of what it is fitted to but DFR. "same data" are the training images, "unseen" a fifth as
many that the network has not seen. A line is one arm of one network: "heads" (all peers and steep), "no groups" (steep
chosen by ``worst_contradicted``) or "accuracy" (steep chosen by accuracy).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import nn

import group_rivals as rivals
from group_problems import PROBLEMS, Part, load_problem
from reproduction.records import Records, cpu_seconds, write_json
from steep.metrics import mean_interval, paired_interval
from steep.nn import improve
from steep.nn.heads import Head

RESULTS = Path(__file__).parent / "results"
DEVELOPMENT, UNSEEN = range(30, 34), range(40, 45)
N_DRAWS = 1000
ARMS = ("heads", "no groups", "accuracy")
# What steep is held against: the peers told no groups, on the same data and on unseen data.
PEERS = ("AFR, same data", "AFR, unseen", "JTT's rule, same data", "DFR, same data", "DFR, unseen",
         "DFR, validation", "LEIA, same data", "inverse frequency, same data", "as trained")  # fmt: skip


def is_imbalance(problem):
    return problem.startswith(("imbalance", "rare"))


def score_of(problem):
    return "balanced_accuracy" if is_imbalance(problem) else "worst_group_accuracy"


def cell_means(hits, groups):
    return np.array([hits[groups == group].mean() for group in np.unique(groups)])


def score(head, part, name):
    means = cell_means(head.outputs(part.x).argmax(axis=1) == part.y, part.groups)
    return float(means.mean() if name == "balanced_accuracy" else means.min())


def best(settings, validation, name):
    """The setting of a peer that is best on the validation data, and how many were tried."""
    tried = [(score(head, validation, name), number, setting, head)
             for number, (setting, head) in enumerate(settings)]  # fmt: skip
    _, _, setting, head = max(tried, key=lambda entry: (entry[0], -entry[1]))
    return head, setting, len(tried)


def peers(problem, parts, first, seed):
    """Every peer's head with its setting."""
    name, validation = score_of(problem), parts["validation"]
    train, unseen = parts["train"], parts["reweighting"]
    made = {
        "equal weights, same data": rivals.equal_weights(train.x, train.y, first),
        "inverse frequency, same data": rivals.inverse_frequency(train.x, train.y, first),
        "JTT's rule, same data": rivals.jtt(train.x, train.y, first),
        "AFR, same data": rivals.afr(train.x, train.y, first),
        "AFR, unseen": rivals.afr(unseen.x, unseen.y, first),
        "DFR, same data": rivals.dfr(train.x, train.y, train.groups, first, seed),
        "DFR, unseen": rivals.dfr(unseen.x, unseen.y, unseen.groups, first, seed),
    }
    if name == "worst_group_accuracy":
        made["LEIA, same data"] = rivals.leia(train.x, train.y, first)
    found = {"as trained": (first, {}, 1)} | {arm: best(heads, validation, name) for arm, heads in made.items()}
    value = lambda head, rows: score(head, Part(*(column[rows] for column in validation)), name)  # noqa: E731
    found["DFR, validation"] = rivals.dfr_validation(validation[:2], validation.groups, first, value, seed)
    return found


def ours(problem, arm, parts, network):
    """Heads chosen by steep for the score of an arm, without and with unseen data to fit to."""
    train, validation, unseen = ((parts[p].x, parts[p].y) for p in ("train", "validation", "reweighting"))
    scoring = {"heads": score_of(problem), "no groups": "worst_contradicted", "accuracy": None}[arm]
    groups = parts["validation"].groups if scoring == "worst_group_accuracy" else None
    places = {"same data": None, "unseen": unseen} if arm != "accuracy" else {"same data": None}
    found = {}
    for place, extra in places.items():
        result = improve(network, train, validation, scoring=scoring, groups=groups, reweighting=extra)
        told = asdict(result.chosen) | {"verdict": str(result.verdict)}
        name = f"steep, {place}" if arm == "heads" else f"steep, {arm}, {place}"
        found[name] = (result.heads["chosen"], told, len(result.candidates))
    return found


def network_of(problem):
    head = nn.Linear(problem.weight.shape[1], len(problem.weight))
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(problem.weight))
        head.bias.copy_(torch.from_numpy(problem.bias))
    return nn.Sequential(nn.Identity(), head)


def difference(one, other, groups, name, rng):
    """95 % interval of the difference of two scores on test samples drawn within their groups, in points."""
    means = []
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        counts = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=N_DRAWS) / len(rows)
        means.append([counts @ one[rows], counts @ other[rows]])
    table = np.array(means)
    values = table.mean(axis=0) if name == "balanced_accuracy" else table.min(axis=0)
    return [round(100 * float(q), 2) for q in np.quantile(values[0] - values[1], (0.025, 0.975))]


def figures(problem, arm, seed, cache):
    """Test figures of one line, and intervals of steep's difference to the peers or to the network as trained."""
    data = load_problem(problem, seed, cache)
    first = Head(data.weight.astype(np.float64), data.bias.astype(np.float64))
    others = peers(problem, data.parts, first, seed) if arm == "heads" else {"as trained": (first, {}, 1)}
    arms = others | ours(problem, arm, data.parts, network_of(data))
    test, name = data.parts["test"], score_of(problem)
    hits = {key: (head.outputs(test.x).argmax(axis=1) == test.y).astype(float) for key, (head, *_) in arms.items()}
    lines = {}
    for key, (head, setting, n_settings) in arms.items():
        lines[key] = {"test": round(100 * score(head, test, name), 2), "accuracy": round(100 * hits[key].mean(), 2),
                      "setting": setting, "n_settings": n_settings}  # fmt: skip
    rng, mine = np.random.default_rng(seed), [key for key in arms if key.startswith("steep")]
    gaps = {
        key: {peer: difference(hits[key], hits[peer], test.groups, name, rng) for peer in PEERS if peer in hits}
        for key in mine
    }
    scored = {key: _accuracy_gap(hits[key], hits["as trained"]) for key in mine}
    return {"arms": lines, "gaps": gaps, "accuracy_gaps": scored}


def _accuracy_gap(one, other):
    gap = mean_interval(100 * (one - other)) if (one != other).any() else None
    return [0.0, 0.0] if gap is None else [round(gap.low, 2), round(gap.high, 2)]


def train(arguments):
    for seed in arguments.seeds:
        for problem in arguments.problem:
            with cpu_seconds() as spent:
                data = load_problem(problem, seed, arguments.cache)
            first = Head(data.weight, data.bias)
            told = [f"{name} {100 * score(first, part, score_of(problem)):.1f}" for name, part in data.parts.items()]
            print(problem, seed, f"{spent['seconds']:.0f} s", *told, flush=True)


def run(arguments):
    records = Records(arguments.results)
    wanted = [
        (problem, arm, seed) for seed in arguments.seeds for problem in arguments.problem for arm in arguments.arm
        if not (is_imbalance(problem) and arm == "no groups")
    ]  # fmt: skip
    for problem, arm, seed in records.missing(wanted):
        with cpu_seconds() as spent:
            found = figures(problem, arm, seed, arguments.cache)
        records.add(problem, arm, seed, result=found, seconds=spent["seconds"])
        told = ", ".join(f"{name} {line['test']:.1f}" for name, line in found["arms"].items())
        print(problem, arm, seed, f"{spent['seconds']:.0f} s", told, flush=True)


def against(lines, arm, peer):
    """Mean gap of two arms over networks with its 95 % interval, and on how many networks it is sure."""
    pairs = [[line["arms"][a]["test"] for line in lines] for a in (peer, arm)]
    each = [line["gaps"].get(arm, {}).get(peer) for line in lines]
    whole = paired_interval(*pairs) if len(lines) > 1 and np.ptp(np.subtract(*pairs)) > 0 else None
    found = {
        "mean": round(float(np.mean(pairs[1]) - np.mean(pairs[0])), 2),
        "half_width": None if whole is None else round(whole.half_width, 2),
    }
    if None in each:
        return found
    return found | {
        "significantly_better": sum(low > 0 for low, _ in each),
        "significantly_worse": sum(high < 0 for _, high in each),
    }


def merged(found, problem, arms, seed):
    """The lines of one network as one."""
    parts = [found[problem, arm, seed]["result"] for arm in arms]
    whole = {}
    for key in ("arms", "gaps", "accuracy_gaps"):
        whole[key] = {name: value for part in parts for name, value in part[key].items()}
    return whole


def summary(lines):
    """Mean test figures of every arm, differences of steep to the peers, and on how many networks they are sure."""
    arms = {
        arm: {key: round(float(np.mean([line["arms"][arm][key] for line in lines])), 2) for key in ("test", "accuracy")}
        for arm in lines[0]["arms"]
    }  # fmt: skip
    mine = list(lines[0]["gaps"])
    gaps = {f"{arm} − {peer}": against(lines, arm, peer) for arm in mine for peer in lines[0]["gaps"][arm]}
    for arm in mine:
        known = arm.replace(", no groups", "")
        if known != arm and known in arms:
            gaps[f"{arm} − {known}"] = against(lines, arm, known)
    worse = {arm: sum(line["accuracy_gaps"][arm][1] < 0 for line in lines) for arm in mine}
    return {"networks": len(lines), "arms": arms, "gaps": gaps, "accuracy_significantly_below_as_trained": worse}


def show(arguments):
    found = Records(arguments.results).by_key()
    out = {}
    for part, seeds in (("unseen", UNSEEN), ("development", DEVELOPMENT)):
        for problem in PROBLEMS:
            have = {s: [arm for arm in ARMS if (problem, arm, s) in found] for s in seeds}
            have = {s: arms for s, arms in have.items() if "heads" in arms}
            if not have:
                continue
            # Every arm on the same networks: one that lacks some of them is told apart, on those it has.
            whole = [arm for arm in ARMS if all(arm in one for one in have.values())]
            tables = {"": (whole, list(have))} | {
                f", {arm}": (["heads", arm], [s for s in have if arm in have[s]]) for arm in ARMS if arm not in whole
            }  # fmt: skip
            for label, (arms, of_seeds) in tables.items():
                if not of_seeds:
                    continue
                told = summary([merged(found, problem, arms, s) for s in of_seeds])
                out[f"{problem}, {part}{label}"] = told | {"seeds": of_seeds}
                tell(problem, part + label, told)
    write_json(RESULTS / "groups.json", out)


def tell(problem, part, told):
    print(f"\n{problem}, {part}: {told['networks']} networks, {score_of(problem).replace('_', ' ')} on test")
    for arm, row in told["arms"].items():
        print(f"  {arm:34} {row['test']:6.1f}   accuracy {row['accuracy']:.1f}")
    for pair, row in told["gaps"].items():
        sure = "".join(f", {key} {row[key]}" for key in row if key.startswith("significantly"))
        print(f"    {pair:58} {row['mean']:+6.1f} ± {row['half_width']}{sure}")
    print(f"  accuracy significantly below as trained: {told['accuracy_significantly_below_as_trained']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["train", "improve", "show"])
    parser.add_argument("--problem", nargs="*", default=PROBLEMS, choices=PROBLEMS)
    parser.add_argument("--seeds", nargs="*", type=int, default=list(DEVELOPMENT))
    parser.add_argument("--cache", default=".cache/groups", help="folder of networks' features")
    parser.add_argument("--arm", nargs="*", default=["heads"], choices=ARMS)
    parser.add_argument("--results", default=RESULTS / "groups.jsonl")
    arguments = parser.parse_args()
    {"train": train, "improve": run, "show": show}[arguments.step](arguments)


if __name__ == "__main__":
    main()
