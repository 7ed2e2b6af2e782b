"""Bring stored lines into the form of steep.records: (experiment, arm, seed) with settings and result.

    python benchmarks/convert_lines.py

Figures are carried over as they are; what the old lines did not hold (versions, machine, time) stays out.
A file that has been converted is left alone.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from steep._files import write_whole

RESULTS = Path(__file__).parent / "results"


def from_design(line):
    key = {"experiment": line.pop("function"), "arm": line.pop("design"), "seed": line.pop("repeat")}
    return key | {"settings": {"n": line.pop("n")}, "result": line}


def from_lenet(line):
    key = {"experiment": "lenet", "arm": line.pop("kind"), "seed": line.pop("seed")}
    return key | {"settings": {"data": line.pop("data")}, "result": line}


def from_weighting(line):
    key = {"experiment": line.pop("table"), "arm": line.pop("model"), "seed": line.pop("seed")}
    return key | {"settings": {"task": line.pop("task"), "n_train": line.pop("n_train")}, "result": line}


def convert(path, mapping):
    packed = path.suffix == ".gz"
    raw = path.read_bytes()
    lines = [json.loads(line) for line in (gzip.decompress(raw) if packed else raw).splitlines()]
    if "experiment" in lines[0]:
        return
    text = "".join(json.dumps(mapping(line)) + "\n" for line in lines).encode()
    content = gzip.compress(text, 9, mtime=0) if packed else text
    write_whole(path, lambda temporary: temporary.write_bytes(content))
    print(path.name, len(lines))


if __name__ == "__main__":
    convert(RESULTS / "design.jsonl", from_design)
    convert(RESULTS / "lenet.jsonl", from_lenet)
    for path in sorted(RESULTS.glob("weighting*.jsonl*")):
        convert(path, from_weighting)
