"""A run on any hosts by torchrun: the commands to type on every one of them. Pure."""

import shlex
import sys
from pathlib import Path

from cluster import PROJECT
from cluster.spec.catalogue import files_of
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment

PORT = 29500


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
            *([f"    {python()} -m workloads.data fetch {' '.join(sets)}"] if sets else []),
            "2. within some minutes: on host K the line with --node-rank K, where HOST0 is a name"
            " or address of host 0 that all others reach",
            *(f"    {command(experiment, run, rank)}" for rank in hosts),
            "3. when they have ended: copy their events/ into that of one folder, and there",
            f"    {python()} -m analysis.summary {shlex.quote(str(run.path))}",
        ]
    )


def command(experiment: Experiment, run: RunFolder, rank: int) -> str:
    """The torchrun command of a host; every node of every engine runs the same module."""
    return " ".join(
        [
            f"GRADWIRE_RUNS={shlex.quote(str(run.path))} GRADWIRE_RECORD=unattended",
            f"{python()} -m torch.distributed.run --nnodes {experiment.nodes} --node-rank {rank}",
            f"--nproc-per-node 1 --master-addr HOST0 --master-port {PORT} -m workloads.worker",
        ]
    )


def python() -> str:
    """This Python, relative to the project's folder where it is inside."""
    path = Path(sys.executable)
    return (
        str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else shlex.quote(str(path))
    )
