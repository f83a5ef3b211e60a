"""The process on a node: python -m workloads.worker. All settings are environment variables.

    RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT   as torchrun sets them
    GRADWIRE_RUNS       run folders, one per line, executed in this order
    GRADWIRE_RECORD     0: print progress, record nothing
                        1: write events, log and model, for ./measure.sh
                        unattended: write events and model, print progress (docs/several-hosts.md)
    GRADWIRE_STAY_S     unattended: seconds to stay after the last run, while a collector reads the
                        final counters
    GRADWIRE_NODE_FOLDER   this node's own folder, to write to; without it, the run folder
    GRADWIRE_DATA       folder with the data (default: the cache)
    GRADWIRE_CLOCK      the host's clock (cluster/spec/clock.py)
    GRADWIRE_AGENT      a socket to this host's agent (workloads/hosts/agent.py), which sends events
                        to the driver, starts runs whenever they come, and stops this worker

torch is imported once. Each run has its own forked process, so runs of a sweep share a node but no
state. Start protocol with GRADWIRE_RECORD=1: the worker starts a run when its spec.json appears,
and stays after the last run until it is stopped, so that the host can read the final counters.
Unattended it does neither: the folder was prepared before, and results are collected afterwards.
"""

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import torch  # noqa: F401  imported once, before the first fork

from cluster.spec.documents.heartbeat import exit_code
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.errors import SpecError
from cluster.spec.faults.checks import CONTINUE
from workloads import server, training
from workloads.child import fork_child
from workloads.counters import memory
from workloads.data.folders import default_data_dir
from workloads.data.tokens import is_complete, weights_of
from workloads.elastic import keeper
from workloads.event_log import EventLog
from workloads.heartbeat import Pulse, wait_beating
from workloads.hosts.sent_log import SentLog, hand_over
from workloads.part import Whole
from workloads.program import agent
from workloads.stacks import StackChannel
from workloads.telling import telling_failures
from workloads.virtual.run import run_virtual

PATIENCE_S = 120.0
"""How long a node waits for its host before it exits. An agent ends its worker itself."""
UNATTENDED = "unattended"


@dataclass(frozen=True)
class Settings:
    rank: int
    runs: tuple[RunFolder, ...]
    record: bool
    data_folder: Path
    unattended: bool = False
    """No host starts runs, reads counters or stops this worker."""

    @classmethod
    def from_environment(cls) -> Self:
        record = os.environ.get("GRADWIRE_RECORD", "")
        if record not in ("", "0", "1", UNATTENDED):
            sys.exit(f"worker: GRADWIRE_RECORD is 0, 1 or {UNATTENDED}, not {record!r}")
        try:
            runs = os.environ["GRADWIRE_RUNS"].splitlines()
            return cls(
                rank=int(os.environ["RANK"]),
                runs=tuple(RunFolder(Path(run)) for run in runs),
                record=record in ("1", UNATTENDED),
                data_folder=Path(os.environ.get("GRADWIRE_DATA") or default_data_dir()),
                unattended=record == UNATTENDED,
            )
        except KeyError as error:
            sys.exit(f"worker: {error.args[0]} is not set; {__doc__}")


def main() -> int:
    settings = Settings.from_environment()
    attended = settings.record and not settings.unattended
    for folder in settings.runs:
        if attended and not appears(folder.spec):
            print(f"worker: {folder.spec} did not appear within {PATIENCE_S:g} s", file=sys.stderr)
            return 3
        if mistake := find_mistake(folder, settings, os.environ):
            print(f"worker: {mistake}", file=sys.stderr)
            return 2
        is_kept = folder.read_experiment().on_failure == CONTINUE  # by a process of its own
        pulse = partial(Pulse, folder, settings.rank) if attended and not is_kept else None
        code = _in_child(partial(run_once, folder, settings), pulse)
        if code != 0:
            return code
    if attended:
        time.sleep(PATIENCE_S)
    elif settings.unattended:
        time.sleep(float(os.environ.get("GRADWIRE_STAY_S") or 0))
    return 0


def find_mistake(
    folder: RunFolder, settings: Settings, environment: Mapping[str, str]
) -> str | None:
    """Why this run cannot be executed or measured with these settings, in one line."""
    beside = int(environment.get("LOCAL_WORLD_SIZE", 1))
    if beside > 1:
        return (
            f"{beside} processes on this host share its interfaces, and their bytes cannot be told"
            " apart: use --nproc-per-node 1, and a host for each worker"
        )
    try:
        experiment = folder.read_experiment()
    except FileNotFoundError:
        return f"{folder.spec} is not on this host: copy the prepared folder to every host"
    except (SpecError, ValueError) as error:
        return f"{folder.spec}: {error}"
    nodes = experiment.started_nodes
    world = int(environment.get("WORLD_SIZE", nodes))
    if world != nodes:
        return (
            f"WORLD_SIZE is {world}, but the run in {folder.path} has {nodes} nodes:"
            f" start as many (torchrun --nnodes {nodes})"
        )
    if not settings.unattended:
        return None  # ./measure.sh has checked the rest
    events = folder.events(settings.rank)
    if events.exists():
        return f"{events} exists already: prepare a new folder for another run"
    if not is_complete(experiment, settings.data_folder):
        names = " ".join(filter(None, (str(experiment.dataset), weights_of(experiment.model))))
        return (
            f"{settings.data_folder} does not have all files of {names}: fetch them to this host"
            f" with 'python3 -m workloads.data fetch {names}'"
        )
    return None


def run_once(folder: RunFolder, settings: Settings, log: EventLog | None = None) -> None:
    """Execute one run. `log` is given by launchers whose events go elsewhere."""
    name = node_name(settings.rank)
    files = folder.files_of(name).to_write() if settings.record else None
    if log is None:
        if settings.unattended:
            for node_folder in folder.node_folders():
                node_folder.mkdir(exist_ok=True)  # not every way to copy keeps empty folders
        elif files is not None:
            log_to(files.log)
        log = _open_log(files.events if files else None, name, settings)
    rank, data_folder = settings.rank, settings.data_folder
    with telling_failures(log, None):
        experiment = folder.read_experiment()
    log.has_background = experiment.background is not None
    with telling_failures(log, experiment):
        memory.limit_memory(experiment)
        if experiment.program is not None:
            agent.run_program(experiment, rank, log, files)
            return
        if experiment.virtual:
            run_virtual(experiment, data_folder, log, files)
            return
        make = server.set_up if rank >= experiment.workers else training.set_up
        participant = make(experiment, rank, data_folder, log, files)
        if experiment.on_failure == CONTINUE:
            keeper.keep(folder, participant)
        else:
            participant.take_part(Whole(participant))


def _open_log(path: Path | None, name: str, settings: Settings) -> EventLog:
    if (agent_socket := os.environ.get("GRADWIRE_AGENT")) is not None:
        return SentLog(path, name, partial(hand_over, int(agent_socket)))
    return EventLog(path, name, aloud=settings.unattended)


def log_to(path: Path) -> None:
    """Redirect standard output and error to a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def appears(path: Path) -> bool:
    """Wait for a file to be created; False where the host takes too long."""
    has_agent = "GRADWIRE_AGENT" in os.environ
    deadline = math.inf if has_agent else time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _in_child(
    work: Callable[[], None], make_pulse: Callable[[int, StackChannel], Pulse] | None = None
) -> int:
    """Call a function in a forked process; its exit code, or 128 + the signal that ended it.

    With `make_pulse` this process writes the heartbeat meanwhile.
    """
    stacks = StackChannel()
    child = fork_child(work, stacks)

    def stop(*_: object) -> None:
        os.kill(child, signal.SIGKILL)
        sys.exit(143)

    signal.signal(signal.SIGTERM, stop)
    if make_pulse is None:
        code = exit_code(os.waitpid(child, 0)[1])
    else:
        code = wait_beating(child, make_pulse(child, stacks))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    stacks.close()
    return code


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # tearing down torch takes 0.4 s of CPU time
