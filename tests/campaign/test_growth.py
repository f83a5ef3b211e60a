"""A long sweep needs no more at its end than after ten runs, and leaves nothing."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from statistics import median

import pytest

from tests.measuring import COMMAND, PROJECT, network_namespaces, owned_processes, record_of

RUNS_PER_CLUSTER = 10
FLAGS = ("--workers", "2", "--epochs", "1", "--train-size", "80", "--batch-size", "40")
SMALL = (*FLAGS, "--test-size", "100", "--repeat", str(RUNS_PER_CLUSTER))
MORE = 1.05


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("engine", "clusters"), [("netns", 10), pytest.param("docker", 2, marks=pytest.mark.docker)]
)
def test_descriptors_threads_memory_and_nodes_do_not_grow(
    engine: str, clusters: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Read while the last run of the first and of the last cluster is at work.

    How many threads and descriptors there are depends on the phase: the usual number at the end is
    compared with the largest of the tenth run.
    """
    if engine == "docker":
        request.getfixturevalue("docker")
    cpus = ",".join(f"{0.99 - 0.01 * number:.2f}" for number in range(clusters))
    command = [*COMMAND, "--engine", engine, *SMALL, "--cpus", cpus, "--output", str(tmp_path)]
    process = subprocess.Popen([*command, "--quiet", "--no-report"], cwd=PROJECT)
    readings: dict[int, list[dict[str, int]]] = {
        RUNS_PER_CLUSTER - 1: [],
        clusters * RUNS_PER_CLUSTER - 1: [],
    }
    while process.poll() is None:
        done = len(list(tmp_path.glob("*/*/summary.json")))
        if done in readings:
            readings[done].append(resources(process.pid))
        time.sleep(0.02)
    assert process.returncode == 0
    first, last = readings.values()
    early = {name: max(reading[name] for reading in first) for name in first[0]}
    late = {name: median(reading[name] for reading in last) for name in last[0]}
    print(f"{engine}, {clusters * RUNS_PER_CLUSTER} runs:", early, late)
    for name, count in early.items():
        assert late[name] <= MORE * count, (name, early, late)
    assert record_of(process.pid) == []
    assert owned_processes(process.pid) == []


def resources(measure: int) -> dict[str, int]:
    """Of a measure itself, and of all processes that it has started."""
    own = _of_process(measure)
    started = [_of_process(process) for process in owned_processes(measure)]
    return {
        **own,
        "processes": len(started),
        **{f"started_{name}": sum(found[name] for found in started) for name in own},
        "namespaces": len(network_namespaces(owned_processes(measure))),
    }


def _of_process(process: int) -> dict[str, int]:
    folder = Path(f"/proc/{process}")
    try:
        lines = (folder / "status").read_text().splitlines()
        descriptors = len(os.listdir(folder / "fd"))
    except OSError:  # it has just ended
        return {"descriptors": 0, "threads": 0, "memory_kb": 0}
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return {
        "descriptors": descriptors,
        "threads": int(status["Threads"][0]),
        "memory_kb": int(status["VmRSS"][0]) if "VmRSS" in status else 0,
    }
