"""torchrun on several hosts (namespaces here): the same worker, bytes and model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.namespaces.cluster import unshare_command
from cluster.observe.units import percent_text
from tests import laws
from tests.measuring import COMMAND, PROJECT, measure, one

WORKERS = 3
RUN = (
    *("--workers", "3", "--epochs", "1", "--train-size", "1920", "--batch-size", "32"),
    *("--test-size", "1000"),
)
"""20 steps."""


def on_hosts(commands: list[str], folder: Path, copies: list[Path]) -> list[dict[str, Any]]:
    """What each host said and its exit code."""
    plan = {"commands": commands, "folder": str(folder), "copies": [str(copy) for copy in copies]}
    lab = [*unshare_command(), sys.executable, "-m", "tests.hosts_lab"]
    answer = subprocess.run(
        lab, cwd=PROJECT, input=json.dumps(plan), capture_output=True, text=True, timeout=500
    )
    assert answer.returncode == 0, answer.stderr
    hosts: list[dict[str, Any]] = json.loads(answer.stdout)
    return hosts


def prepare(folder: Path) -> list[str]:
    """The commands to type, host by host."""
    prepared = subprocess.run(
        [*COMMAND, *RUN, "--prepare", str(folder)], cwd=PROJECT, capture_output=True, text=True
    )
    assert prepared.returncode == 0, prepared.stderr
    lines = [line.strip() for line in prepared.stdout.splitlines()]
    return [line.replace("HOST0", "node0") for line in lines if "torch.distributed.run" in line]


def summarise(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "analysis.summary", str(folder)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)


def test_torchrun_on_several_hosts_measures_what_measure_does(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    commands = prepare(folder)
    copies = [shutil.copytree(folder, tmp_path / f"host{rank}") for rank in range(WORKERS)]
    hosts = on_hosts(commands, folder, copies)
    assert [host["code"] for host in hosts] == [0] * WORKERS, hosts
    assert all(f"node{rank} result " in host["said"] for rank, host in enumerate(hosts))
    assert list((folder / "events").iterdir()) == []  # each host wrote where it is

    incomplete = summarise(copies[0])
    assert incomplete.returncode == 2
    assert "node1.jsonl is missing or empty: copy it here from host 1" in incomplete.stderr
    for copy in copies:
        shutil.copytree(copy / "events", folder / "events", dirs_exist_ok=True)
    printed = summarise(folder)
    assert printed.returncode == 0, printed.stderr
    summary = json.loads((folder / "summary.json").read_text())
    reference = one(measure("--engine", "netns", *RUN, "--output", str(tmp_path / "runs")))

    assert (summary["status"], summary["steps"]) == ("completed", 20)
    assert summary["spec"] == reference["spec"] | {"engine": "existing"}
    assert summary["accuracy"] == pytest.approx(reference["accuracy"], abs=1e-6)
    assert summary["loss"] == pytest.approx(reference["loss"], abs=1e-6)
    laws.bytes_are_as_predicted(summary, 0.03)
    train = summary["bytes"]["train"]
    assert train["sent_bytes"] == pytest.approx(train["received_bytes"], rel=0.01)
    assert laws.sent_once(summary) == pytest.approx(laws.sent_once(reference), rel=0.03)
    assert [summary["counters"][source] for source in ("kernel_bytes", "docker_bytes")] == [
        None,
        None,
    ]
    assert percent_text(summary["accuracy"]) in printed.stdout.splitlines()[1]


def test_too_few_hosts_end_at_once_with_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    commands = [line.replace("--nnodes 3", "--nnodes 2") for line in prepare(folder)[:2]]
    hosts = on_hosts(commands, folder, [folder, folder])
    for host in hosts:
        assert host["code"] != 0
        assert "worker: WORLD_SIZE is 2, but the run in" in host["said"]
        assert "torchrun --nnodes 3" in host["said"]
    assert list((folder / "events").iterdir()) == []
