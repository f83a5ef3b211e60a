"""A run on the user's own hosts, by torchrun: write its folder, print the commands for every host.

The hosts then need nothing of this machine: each worker writes its events on its own host, and
`python3 -m analysis.summary` makes the summary when they have been copied together.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster import PROJECT
from cluster.engine import refuse_limits
from cluster.environment import describe
from cluster.plan import settle
from cluster.session import prepare_folder
from cluster.spec.catalogue import files_of
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.errors import SpecError
from cluster.spec.experiment import EXISTING, Experiment

PORT = 29500


def prepare_hosts(
    args: argparse.Namespace,
    command: list[str],
    experiments: list[Experiment],
    say: Callable[[str], None],
) -> int:
    """--prepare: write the run's folder, and print what to type on the user's own hosts."""
    for flag in ("engine", "spark_master", "data_dir"):
        if getattr(args, flag) is not None:
            raise SpecError(f"{flag} does not go with --prepare: the hosts are yours; leave it out")
    for flag in ("json", "no_report", "dry_run"):
        if getattr(args, flag):
            raise SpecError(
                f"{flag} does not go with --prepare, which trains nothing; leave it out"
            )
    check(experiments, args.prepare)
    (experiment,) = settle(experiments, EXISTING, say)
    about = describe(command, {"name": EXISTING})
    print(instructions(experiment, prepare(experiment, args.prepare, about)))
    return 0


def check(experiments: Sequence[Experiment], folder: Path) -> Experiment:
    """The one requested run; SpecError where hosts cannot do it by themselves."""
    if len(experiments) != 1:
        raise SpecError(f"prepare takes one run, and this makes {len(experiments)}")
    (experiment,) = experiments
    if experiment.program is not None:
        raise SpecError("prepare is for gradwire's own training: start your program by torchrun")
    if experiment.launcher != "torch":
        raise SpecError(
            f"prepare is for torchrun, that is --launcher torch, not {experiment.launcher}"
        )
    if experiment.virtual:
        raise SpecError(
            "virtual does not go with --prepare: virtual workers need no hosts; leave out one"
        )
    if experiment.gpu:
        raise SpecError(
            "gpu does not go with --prepare, whose Python has torch for the CPU alone: for GPUs of"
            " several hosts use compose/gpu.yml's profile multi-host (docs/gpu.md)"
        )
    refuse_limits(experiment, "leave out --prepare for nodes on this machine")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise SpecError(f"prepare {folder}: that is there already; name a new folder")
    return experiment


def prepare(experiment: Experiment, folder: Path, environment: Environment) -> RunFolder:
    try:
        return prepare_folder(folder.resolve(), environment, experiment)
    except OSError as error:
        raise SpecError(f"prepare {folder} cannot be written: {error.strerror}") from error


def instructions(experiment: Experiment, run: RunFolder) -> str:
    """The steps on every host, with commands to paste."""
    hosts = range(experiment.nodes)
    sets = files_of(experiment.model, experiment.dataset)
    return "\n".join(
        [
            f"{run.path} is ready for {experiment.nodes} hosts."
            " On every host, in this project's folder:",
            "",
            "1. once: its Python and the data; and a copy of that folder, in the same place",
            "    ./measure.sh --doctor",
            *([f"    {_python()} -m workloads.data fetch {' '.join(sets)}"] if sets else []),
            "2. within some minutes: on host K the line with --node-rank K, where HOST0 is a name"
            " or address of host 0 that all others reach",
            *(f"    {command(experiment, run, rank)}" for rank in hosts),
            "3. when they have ended: copy their events/ into that of one folder, and there",
            f"    {_python()} -m analysis.summary {shlex.quote(str(run.path))}",
        ]
    )


def command(experiment: Experiment, run: RunFolder, rank: int) -> str:
    """The torchrun command of a host; every node of every engine runs the same module."""
    return " ".join(
        [
            f"GRADWIRE_RUNS={shlex.quote(str(run.path))} GRADWIRE_RECORD=unattended",
            f"{_python()} -m torch.distributed.run --nnodes {experiment.nodes} --node-rank {rank}",
            f"--nproc-per-node 1 --master-addr HOST0 --master-port {PORT} -m workloads.worker",
        ]
    )


def _python() -> str:
    """This Python, relative to the project's folder where it is inside."""
    path = Path(sys.executable)
    return (
        str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else shlex.quote(str(path))
    )
