"""What plays in the crash league: the same simulator, run to the same number of results by different libraries.

    python benchmarks/crash_players.py PLAYER         the stage of a player
    python benchmarks/crash_players.py cluster FILE   a Dask cluster of two worker processes, its address in FILE

Each run notes its start and its end in the file log.txt, by its inputs: what a library says of its runs is compared
with that. This process is a stage: it imports the player's library once, and forks a life of the player for each line
{"folder": …, "n_runs": …} on its stdin, so that a life costs no seconds of imports; an empty line asks how the last
life ended. A life goes on with what those before it left in FOLDER/store.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import glob
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Seconds a run takes, and runs made at a time.
RUN = 0.05
WORKERS = 2
# Seconds after which Optuna takes a trial without a heartbeat for dead.
GRACE = 5


def note(text, log=None):
    file = os.open(log or os.environ["CRASH_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{text} {time.time():.6f}\n".encode())
    os.close(file)


def key(u, v):
    """A run by its inputs."""
    return f"{float(u)!r},{float(v)!r}"


def value(u, v):
    return float(u) + 2 * float(v)


def simulate(u, v, log=None):
    note(f"start {key(u, v)}", log)
    time.sleep(RUN)
    note(f"end {key(u, v)}", log)
    return value(u, v)


# ---------------------------------------------------------------- steep


def play_steep(folder, n_runs, executor=None, function=simulate):
    from steep.campaign import Campaign

    bounds = {"u": (0.0, 1.0), "v": (0.0, 1.0)}
    with Campaign(bounds, storage=folder / "campaign.db") as campaign:
        # A run whose worker is killed again and again is no fault of its own.
        campaign.run(
            function, n_runs, executor=executor, n_workers=WORKERS, retries=1000, max_failures=None,
        )  # fmt: skip


def play_steep_dask(folder, n_runs):
    import distributed

    # The cluster is there before the campaign and after it, as clusters are; its workers know nothing of this game.
    function = functools.partial(simulate, log=os.environ["CRASH_LOG"])
    with distributed.Client(os.environ["CRASH_CLUSTER"]) as client:
        play_steep(folder, n_runs, client.get_executor(), function)


def cluster(file):
    """A scheduler and two workers, each a process; a worker that ends is replaced, as batch systems do."""
    import distributed

    import steep.campaign.dask  # noqa: F401 - a worker that is forked has it already

    read, write = os.pipe()

    async def schedule():
        async with distributed.Scheduler(port=0, dashboard=False) as scheduler:
            os.write(write, scheduler.address.encode())
            await scheduler.finished()

    async def work(address):
        async with distributed.Worker(address, nthreads=1, dashboard=False) as worker:
            await worker.finished()

    scheduler = _forked(schedule)
    address = os.read(read, 1000).decode()
    processes = {scheduler} | {_forked(work, address) for _ in range(WORKERS)}
    Path(f"{file}.new").write_text(f"{address} {scheduler}")
    Path(f"{file}.new").rename(file)
    while not select.select([0], [], [], 0.1)[0]:  # until the league is over
        while (gone := os.waitpid(-1, os.WNOHANG)[0]) > 0:
            processes = (processes - {gone}) | {_forked(work, address)}
    for pid in processes:
        os.kill(pid, signal.SIGKILL)


def _forked(what, *arguments):
    """The number of a process that does something asynchronous until it ends."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(what(*arguments))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    return pid


def found_steep(folder):
    """Results by inputs, and the number of runs that never came to an end."""
    from steep.campaign import Campaign

    with Campaign(storage=folder / "campaign.db") as campaign:
        frame = campaign.to_dataframe()
    done = frame[frame.state == "done"]
    results = {key(u, v): y for u, v, y in zip(done.u, done.v, done.y0, strict=True)}
    return results, len(frame) - len(done)


# ---------------------------------------------------------------- Optuna


def _study(storage):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(
        study_name="league", storage=storage, load_if_exists=True, sampler=optuna.samplers.RandomSampler()
    )


def _rdb(folder):
    import optuna

    # As its documentation advises for processes that may be killed: a heartbeat, and trials that went silent again.
    return optuna.storages.RDBStorage(
        f"sqlite:///{folder}/optuna.db", heartbeat_interval=1, grace_period=GRACE,
        heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(),
    )  # fmt: skip


def _journal(folder):
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(folder / "optuna.log")))


def play_optuna(folder, n_runs, storage):
    import optuna

    study = _study(storage(folder))
    complete, waiting = ((state,) for state in (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.WAITING))

    def n_left():
        # Trials that are to be tried again are waiting: they are seen through as well.
        n_open = n_runs - len(study.get_trials(deepcopy=False, states=complete))
        return max(n_open, len(study.get_trials(deepcopy=False, states=waiting)))

    while (n := n_left()) > 0:
        study.optimize(
            lambda trial: simulate(trial.suggest_float("u", 0, 1), trial.suggest_float("v", 0, 1)),
            n_trials=n, n_jobs=WORKERS,
        )  # fmt: skip
        if n_left() == 0 and storage is _rdb:
            # Trials of the last crash may not be stale yet, and are to be tried again like those before.
            time.sleep(GRACE + 1)
            optuna.storages.fail_stale_trials(study)


def found_optuna(folder, storage):
    trials = _study(storage(folder)).get_trials(deepcopy=False)
    done = [trial for trial in trials if trial.state.name == "COMPLETE"]
    results = {key(trial.params["u"], trial.params["v"]): trial.value for trial in done}
    return results, sum(trial.state.name in ("RUNNING", "WAITING") for trial in trials)


# ---------------------------------------------------------------- libEnsemble


def play_libensemble(folder, n_runs):
    import numpy as np
    from gest_api.vocs import VOCS
    from libensemble import Ensemble
    from libensemble.alloc_funcs.start_only_persistent import only_persistent_gens
    from libensemble.gen_classes.external.sampling import UniformSample
    from libensemble.specs import AllocSpecs, ExitCriteria, GenSpecs, LibeSpecs, SimSpecs

    os.chdir(folder)
    vocs = VOCS(variables={"u": [0.0, 1.0], "v": [0.0, 1.0]}, objectives={"f": "MINIMIZE"})
    # What it saved by itself when it was aborted, if it had the chance, is where it goes on.
    saved = sorted(glob.glob("libE_history_at_abort_*.npy"), key=os.path.getmtime)
    before = None
    if saved:
        history = np.load(saved[-1])
        before = history[history["sim_ended"]] if history["sim_ended"].any() else None
    generator = UniformSample(vocs)
    generator.rng = np.random.default_rng()  # else every start would draw the same points
    workflow = Ensemble(
        libE_specs=LibeSpecs(comms="local", nworkers=WORKERS),
        gen_specs=GenSpecs(generator=generator, vocs=vocs, initial_batch_size=8, batch_size=8),
        sim_specs=SimSpecs(simulator=_of_a_point, vocs=vocs),
        alloc_specs=AllocSpecs(alloc_f=only_persistent_gens),
        exit_criteria=ExitCriteria(sim_max=n_runs - (0 if before is None else len(before))),
        H0=before,
    )
    history, _, flag = workflow.run()
    if flag == 0:
        np.save("finished.npy", history)
    sys.exit(flag)


def _of_a_point(point):
    return {"f": simulate(point["u"], point["v"])}


def found_libensemble(folder):
    import numpy as np

    if not (folder / "finished.npy").exists():
        return {}, 0
    history = np.load(folder / "finished.npy")
    done = history[history["sim_ended"]]
    results = {key(u, v): f for u, v, f in zip(done["u"], done["v"], done["f"], strict=True)}
    return results, int((history["sim_started"] & ~history["sim_ended"]).sum())


# ---------------------------------------------------------------- the stage


@dataclass(frozen=True)
class Player:
    """One way to run the simulator.

    Attributes
    ----------
    play : callable
        One life: the folder of its store, and how many runs it is to make in all.
    found : callable
        What is in the store: results by inputs, and the number of runs that never came to an end.
    imports : tuple of str
        Modules it needs.
    at_once : int
        Runs at the same time.
    has_workers : bool
        Whether runs are made in processes of their own.
    on_cluster : bool
        Whether these are workers of a cluster that is there all the time.
    startup : float
        Seconds from its start to its first run, about.
    """

    play: Callable[[Path, int], None]
    found: Callable[[Path], tuple[dict[str, float], int]]
    imports: tuple[str, ...]
    at_once: int = WORKERS
    has_workers: bool = False
    on_cluster: bool = False
    startup: float = 0.5


def _steep(executor=None, **about):
    return Player(lambda folder, n: play_steep(folder, n, executor), found_steep, ("steep.campaign.runner",), **about)


def _optuna(storage, *imports):
    return Player(
        lambda folder, n: play_optuna(folder, n, storage), lambda folder: found_optuna(folder, storage),
        ("optuna", *imports),
    )  # fmt: skip


PLAYERS = {
    "steep, inline": _steep(at_once=1),
    "steep, threads": _steep("threads"),
    "steep, processes": _steep("processes", has_workers=True),
    "steep, Dask": Player(
        play_steep_dask, found_steep, ("steep.campaign.dask", "distributed"), has_workers=True, on_cluster=True
    ),
    "Optuna, RDB with heartbeat": _optuna(_rdb, "optuna.storages._rdb.storage", "sqlalchemy.dialects.sqlite"),
    "Optuna, journal": _optuna(_journal, "optuna.storages.journal"),
    "libEnsemble, defaults": Player(
        play_libensemble, found_libensemble, ("libensemble", "libensemble.gen_classes.external.sampling"),
        has_workers=True, startup=1.0,
    ),
}  # fmt: skip


def live(player, folder, n_runs):
    """One life of a player, in a process of its own."""
    os.setsid()
    out = os.open(folder / "out.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for fd, new in enumerate((os.open(os.devnull, os.O_RDONLY), out, out)):
        os.dup2(new, fd)
    os.environ["CRASH_LOG"] = str(folder / "log.txt")
    code = 1
    try:
        player.play(folder / "store", n_runs)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def stage(player):
    for module in player.imports:
        importlib.import_module(module)
    # What a killed life leaves behind becomes a child of the stage, where the game finds it.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    life, code, answer = 0, None, "ready"
    while True:
        os.write(1, f"{answer}\n".encode())
        order = os.read(0, 4096)  # one line: the game waits for each answer
        if not order:
            return
        if wanted := order.strip():
            wanted = json.loads(wanted)
            life, code = os.fork(), None
            if life == 0:
                live(player, Path(wanted["folder"]), wanted["n_runs"])
            answer = life
        else:
            code = _ended(life) if code is None else code
            answer = "running" if code is None else code


def _ended(life):
    """How a life ended, None while it lasts; what else ended is cleared away."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == life:
            code = os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    if sys.argv[1] == "cluster":
        cluster(sys.argv[2])
    else:
        stage(PLAYERS[sys.argv[1]])
