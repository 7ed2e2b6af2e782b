"""The crash league: results that crashes lose, finished runs that are made again, runs that stay stuck.

    python benchmarks/crash_league.py               play what is missing, then write the summary and print the table
    python benchmarks/crash_league.py --crashes 20  a pilot: this many crashes of each player in each discipline
    python benchmarks/crash_league.py --players steep --disciplines kill,disk
    python benchmarks/crash_league.py --summary     the summary and the table of what was played

One game (crash_game.py): a player (crash_players.py) makes 240 runs of 0.05 s, two at a time (inline 140, one at a
time), while it crashes ten times at random moments, from its start-up to deep in its runs; it is started again each
time it ended, and left alone in the end. Three disciplines:

    kill       SIGKILL of the player's process
    workers    SIGKILL of one of its worker processes, where it has some
    disk       the disk is full for a second (a small file system of its own is mounted; needs root)

A run has *finished* when its function returned half a second or more before a crash and four runs (inline two) have
begun since, not in a worker whose player was dead already, and not while the disk was full: its library had time and
room to write the result down. (Lines without begun_since in their settings did without that rule, so that they count no
less.) Counted are

    lost       finished runs whose result is not in the player's own store in the end, or is wrong there; all of them
               where its library cannot read the store any more
    repeated   times a finished run was made again
    stuck      runs that the store calls unfinished in the end, and times it made no run for a minute and was killed
    left       processes that outlived a kill of the player by five seconds

Every game is a line of results/crash_league.jsonl; games that are there are not played again.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from scipy.stats import beta

from crash_game import BEGUN_SINCE, CRASHES, FULL, PATIENCE, SETTLED, Game, Stage, can_mount
from crash_players import PLAYERS, RUN, WORKERS
from reproduction.records import Records

RESULTS = Path(__file__).parent / "results" / "crash_league.jsonl"
# Crashes of each player: 7 × 110 kills and 3 × 80 killed workers are 1,010 SIGKILLs.
DISCIPLINES = {"kill": 110, "workers": 80, "disk": 10}
COUNTS = ("lost", "repeated", "stuck", "left")
PACKAGES = ("steep", "optuna", "sqlalchemy", "libensemble", "gest-api", "distributed")


def schedule(players, crashes, first):
    """Games to play, turn by turn, so that an unfinished league has all players at about the same number."""
    for seed in range(first, first + -(-max(crashes.values()) // CRASHES)):
        for discipline, n in crashes.items():
            for player in players:
                if (seed - first) * CRASHES < n and (discipline != "workers" or PLAYERS[player].has_workers):
                    yield (f"crash league, {discipline}", player, seed)


def play(players, crashes, results, *, first, keep):
    records, stages = Records(results), {}
    if "disk" in crashes and not can_mount():
        print("disk is left out: mounting a small file system needs root", file=sys.stderr)
        del crashes["disk"]
    try:
        for experiment, player, seed in records.missing(schedule(players, crashes, first)):
            if player not in stages:
                stages[player] = Stage(player)
            _play_one(records, stages[player], experiment, seed, keep=keep)
    finally:
        for stage in stages.values():
            stage.close()


def _play_one(records, stage, experiment, seed, *, keep):
    discipline, began = experiment.rpartition(" ")[2], time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="crash-league-"))
    about = f"{stage.name}, {discipline}, game {seed}"
    try:
        result = Game(stage, discipline, seed, folder).play()
    except Exception as error:  # one broken game is told, and the league goes on
        print(f"{about}: {type(error).__name__}: {error}", file=sys.stderr)
        return
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    records.add(experiment, stage.name, seed, result=result, settings=_settings())
    kept = f" {folder}" if keep else ""
    print(f"{about}: {result}, {time.monotonic() - began:.0f} s{kept}", flush=True)


def _settings():
    installed = {found.metadata["Name"] for found in importlib.metadata.distributions()}
    return {
        "run_seconds": RUN, "at_once": WORKERS, "settled_seconds": SETTLED, "begun_since": BEGUN_SINCE,
        "patience_seconds": PATIENCE, "full_seconds": FULL,
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES if name in installed},
    }  # fmt: skip


def summary(path):
    """Counts of all games, and what the number of crashes allows to say; written beside the lines."""
    games = defaultdict(list)
    for line in Records(path).by_key().values():
        games[line["experiment"].rpartition(" ")[2], line["arm"]].append(line["result"])
    rows = []
    for discipline in DISCIPLINES:
        for player in PLAYERS:
            if results := games.get((discipline, player)):
                total = {name: sum(result.get(name, 0) for result in results) for name in results[-1]}
                rows.append({"discipline": discipline, "player": player, "games": len(results), **total})
                rows[-1]["costly_at_most"] = _at_most(results)
    versions = _settings()["versions"] | {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    about = {
        "command": f"python benchmarks/crash_league.py {' '.join(sys.argv[1:])}".strip(),
        "versions": versions,
        "settings": _settings(),
    }
    n_kills = sum(row["crashes"] for row in rows if row["discipline"] != "disk")
    path.with_suffix(".json").write_text(json.dumps(about | {"sigkills": n_kills, "rows": rows}, indent=1) + "\n")
    return rows


def _at_most(results):
    """Share of crashes that cost a result or a run, 95 % upper end of its exact interval; a crash costs once."""
    n = sum(result["crashes"] for result in results)
    bad = sum(min(result["lost"] + result["repeated"], result["crashes"]) for result in results)
    return None if n == 0 else 1.0 if bad == n else float(beta.ppf(0.95, bad + 1, n - bad))


def show(rows):
    print("| crash | player | crashes | runs finished | lost | repeated | stuck | left |\n|---|---|" + "---:|" * 6)
    for row in rows:
        counts = [row["crashes"], row["finished"], *(row[name] for name in COUNTS)]
        print(f"| {row['discipline']} | {row['player']} | {' | '.join(f'{n:,}' for n in counts)} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--crashes", type=int, help="crashes of each player in each discipline, instead of all")
    parser.add_argument("--players", default="", help="only those whose name has this in it")
    parser.add_argument("--disciplines", default=",".join(DISCIPLINES))
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS, help="another file of lines")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="leave the folders of the games")
    chosen = parser.parse_args()
    players = [name for name in PLAYERS if chosen.players.lower() in name.lower()]
    crashes = {name: DISCIPLINES[name] for name in chosen.disciplines.split(",")}
    if chosen.crashes is not None:
        crashes = dict.fromkeys(crashes, chosen.crashes)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a game that is ended ends its processes
    if not chosen.summary:
        play(players, crashes, chosen.results, first=chosen.first_seed, keep=chosen.keep)
    show(summary(chosen.results))


if __name__ == "__main__":
    main()
