"""The batch script of a Slurm job: one task on each of N hosts. Standard library only, pure."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from cluster.spec.errors import SpecError
from cluster.spec.hosts import HostOptions

PROGRAMS = ("sbatch", "squeue", "sinfo", "scontrol", "scancel")
"""Of Slurm, on the host of ./measure.sh."""
KINDS = ("apptainer", "pyxis")


def check_image(image: str) -> tuple[str, str]:
    """The kind of container and its image; SpecError for anything else."""
    kind, _, name = image.partition(":")
    if kind not in KINDS or not name:
        raise SpecError(
            f"image {image!r} is none for Slurm: give apptainer:FILE.sif, or pyxis:IMAGE where the"
            " cluster has that plugin"
        )
    return kind, name


def job_script(
    options: HostOptions, hosts: int, commands: Sequence[str], log: Path, name: str = "gradwire"
) -> str:
    """Hosts are asked for as a whole: other jobs' bytes would be counted, too.

    A host that fails ends the run, which names it: Slurm must not end all others first.
    """
    asked = {
        "job-name": name,
        "nodes": str(hosts),
        "ntasks-per-node": "1",
        "exclusive": "",
        "no-kill": "",
        "no-requeue": "",
        "output": str(log),
        "open-mode": "append",
        "partition": options.slurm_partition,
        "account": options.slurm_account,
        "time": options.slurm_time,
    }
    lines = [
        f"#SBATCH --{option}{f'={shlex.quote(value)}' if value else ''}"
        for option, value in asked.items()
        if value is not None
    ]
    return "\n".join(["#!/bin/bash", *lines, *commands]) + "\n"


def python_command(options: HostOptions, arguments: Sequence[str], before: str = "") -> str:
    """What follows srun: Python on each host, in a container where one was asked for.

    `before` is shell before the command, such as a variable's value on each host.
    """
    settings: list[str] = ["--no-kill", "--kill-on-bad-exit=0"]
    inside: list[str] = []
    python = options.host_python or sys.executable
    if options.image is not None:
        kind, image = check_image(options.image)
        python = options.host_python or "python3"
        if kind == "pyxis":
            settings.append(f"--container-image={image}")
        else:
            inside = ["apptainer", "exec", image]
    command = [*inside, python, *arguments]
    if before:
        command = ["bash", "-c", f"{before} exec {shlex.join(command)}"]
    return shlex.join([*settings, *command])
