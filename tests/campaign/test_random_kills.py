"""SIGKILL of a measure at random moments: no process is left, and --clean removes the rest."""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from cluster.host import cgroups
from tests.docker.test_docker_runs import leftovers
from tests.measuring import COMMAND, PROJECT, gone, owned_processes, record_of

pytestmark = pytest.mark.usefixtures("own_temporary_files")
TRIES = 20
LATEST_S = 15.0
FLAGS = (
    "--workers",
    "2",
    "--link",
    "1mbit",
    "--cpus",
    "0.9",
    "--epochs",
    "2",
    "--test-size",
    "100",
)
SMALL = (*FLAGS, "--train-size", "80", "--batch-size", "40", "--quiet")


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ["netns", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_killed_measure_leaves_nothing_after_clean(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "docker":
        request.getfixturevalue("docker")
    chance, taken = random.Random(engine), []
    for _ in range(TRIES):
        command = [*COMMAND, "--engine", engine, *SMALL, "--output", str(tmp_path)]
        process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LATEST_S * chance.random())
        process.kill()
        process.wait()
        began = time.monotonic()
        assert gone(partial(owned_processes, process.pid))
        taken.append(time.monotonic() - began)
        cleaned = subprocess.run([*COMMAND, "--clean"], cwd=PROJECT, capture_output=True)
        assert cleaned.returncode == 0
        assert record_of(process.pid) == []
        assert left_of(engine, tmp_path) == []
    print(f"{engine}: {TRIES} kills, gone after {median(taken):.2f} s, at most {max(taken):.2f} s")


def left_of(engine: str, output: Path) -> list[str]:
    """Containers, networks, control groups and nodes' folders of sessions below `output`."""
    groups = [
        str(group)
        for session in output.iterdir()
        for group in cgroups.ROOT.glob(f"**/gradwire-{session.name}-*")
    ]
    folders = [str(folder) for folder in output.glob("*/.*")]
    return groups + folders + (leftovers(output) if engine == "docker" else [])
