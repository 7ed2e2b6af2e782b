"""A real SLURM on this machine: munged, slurmctld and two slurmd, in a folder of their own, for tests and benchmarks.

Debian's packages are needed: ``apt-get install --no-install-recommends slurm-wlm munge``.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
# Seconds for a daemon to come up, and to go.
_PATIENCE = 30.0

_CONF = """\
ClusterName=steep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,sched_min_interval=100000,default_queue_depth=1000
MaxArraySize=2001
MaxJobCount=20000
MinJobAge=30
KillWait=2
SlurmdTimeout=10
ReturnToService=2
JobRequeue=1
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 DefaultTime=10 State=UP OverSubscribe=NO
"""


def missing() -> list[str]:
    """Programs that are not installed."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


class Slurm:
    """Two nodes, ``node1`` and ``node2``; :attr:`env` is what a process needs to use them."""

    def __init__(self, folder: Path, *, cpus: int = 4) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("state", "spool-node1", "spool-node2"):
            (folder / name).mkdir()
        text = _CONF.format(
            folder=folder,
            host=socket.gethostname().split(".")[0],
            user=getpass.getuser(),
            ports=_free_ports(3),
            cpus=cpus,
        )
        (folder / "slurm.conf").write_text(text)
        self.env = os.environ | {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
        }

    def start(self) -> None:
        """Bring everything up, and wait until both nodes are idle."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        files = {
            "socket": "munge.socket",
            "log-file": "munged.log",
            "pid-file": "munged.pid",
            "seed-file": "munge.seed",
        }
        options = [f"--{option}={self.folder / name}" for option, name in files.items()]
        self._launch("munged", ["munged", "--foreground", "--force", f"--key-file={key}", *options])
        self._until(lambda: (self.folder / "munge.socket").exists(), "munged makes its socket")
        self._launch("slurmctld", ["slurmctld", "-D"])
        self.start_node("node1")
        self.start_node("node2")
        self._until(lambda: self.states() == ["idle", "idle"], "both nodes are idle")

    def start_node(self, name: str) -> None:
        """Start the daemon of one node."""
        self._launch(name, ["slurmd", "-D", "-N", name])

    def kill_node(self, name: str) -> None:
        """Kill the daemon of a node, and what its jobs run, as a power cut would."""
        self.daemons.pop(name).kill()
        for pid in _processes_with(f"SLURMD_NODENAME={name}"):
            with contextlib.suppress(OSError):
                os.kill(pid, 9)

    def call(self, *arguments: str, check: bool = True) -> str:
        """Output of a command of SLURM."""
        done = subprocess.run(arguments, env=self.env, capture_output=True, text=True, timeout=60)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def states(self) -> list[str]:
        """State of each node."""
        return self.call("sinfo", "-h", "-N", "-o", "%t", check=False).split()

    def stop(self) -> None:
        """End everything."""
        for name in reversed([*self.daemons]):
            self.daemons[name].terminate()
        deadline = time.monotonic() + _PATIENCE
        for daemon in self.daemons.values():
            try:
                daemon.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for name in ("node1", "node2"):
            for pid in _processes_with(f"SLURMD_NODENAME={name}"):
                with contextlib.suppress(OSError):
                    os.kill(pid, 9)

    def _launch(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                command, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    def _until(self, is_true: object, what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not is_true():  # type: ignore[operator]
            ended = [name for name, daemon in self.daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(
                    f"{path.name}: {path.read_text(errors='replace')[-800:]}"
                    for path in self.folder.glob("*.*")
                    if path.suffix in (".log", ".out")
                )
                raise RuntimeError(f"SLURM did not start: waited until {what}; ended: {ended}\n{logs}")
            time.sleep(0.1)


@contextlib.contextmanager
def slurm(folder: Path, *, cpus: int = 4) -> Iterator[Slurm]:
    """A cluster that runs inside the block."""
    cluster = Slurm(folder, cpus=cpus)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _processes_with(entry: str) -> list[int]:
    """Processes of ours whose environment has an entry."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if entry.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found
