"""Hostile nodes: the run fails with the node named, the host and the next runs do not suffer.

    python -m pytest tests/campaign/test_hostile_nodes.py -m "soak or not soak" -n 0

node1 does in each run what tests/campaign/hostile_node.py says; after the acts one run is honest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.namespaces.isolation import PROCESSES
from tests.campaign import hostile_node
from tests.measuring import PROJECT, Measured, finish, gone, processes_of

MOST_MB = 300
"""Of the process that measures."""
ORDINARY_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


@dataclass(frozen=True)
class Host:
    """Where nodes run, and as whom."""

    engine: str
    prefix: tuple[str, ...] = ()


@pytest.fixture(
    params=[
        pytest.param(Host("netns"), id="root"),
        pytest.param(Host("netns", ORDINARY_USER), id="ordinary user"),
        pytest.param(Host("docker"), id="docker", marks=pytest.mark.docker),
    ]
)
def host(request: pytest.FixtureRequest) -> Host:
    found: Host = request.param
    if found.engine == "docker":
        request.getfixturevalue("docker")
    return found


ALL = [fail.__name__ for fail in hostile_node.FAILING]
CAUSES = {
    "long_line": "wrote no event log",
    "garbage": "wrote no event log",
    "forged": "claims to be node0",
    "flood": "has more than",
}
"""What the host says of an act; of the others that the node ended."""


def start(host: Host, acts: str, output: Path) -> subprocess.Popen[str]:
    runs = str(acts.count(",") + 2)
    tiny = ("--workers", "2", "--model", "synthetic:4k", "--epochs", "1", "--train-size", "4")
    flags = ("--engine", host.engine, *tiny, "--batch-size", "1", "--repeat", runs)
    command = [sys.executable, "-m", "tests.campaign.hostile_measure", acts, *flags]
    return subprocess.Popen(
        [*host.prefix, *command, "--output", str(output), "--json", "--no-report"],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def peak_mb(measured: Measured) -> float:
    return float(measured.stderr.splitlines()[-1])


def log_of(output: Path, summary: dict[str, Any]) -> str:
    return Path(output, summary["session"], summary["run"], "logs", "node1.log").read_text()


def acts_are_harmless(host: Host, acts: list[str], output: Path) -> None:
    measured = finish(start(host, ",".join(acts), output))
    assert measured.code == 1, measured.stderr
    *hostile, honest = measured.summaries
    assert len(hostile) == len(acts)
    for act, summary in zip(acts, hostile, strict=True):
        assert summary["status"] == "failed", act
        assert summary["error"].startswith("node1 "), (act, summary["error"])
        assert CAUSES.get(act, "ended with code") in summary["error"], act
    assert honest["status"] == "completed", honest["error"]
    assert peak_mb(measured) < MOST_MB
    assert "Traceback" not in measured.stderr
    assert list(output.glob("*/.nodes*")) == []


def test_hostile_nodes_end_their_run_and_nothing_else(tmp_path: Path) -> None:
    """As an ordinary user, whose nodes can do most: they own their folder."""
    acts_are_harmless(Host("netns", ORDINARY_USER), ["fifo", "long_line", "forged"], tmp_path)


@pytest.mark.soak
def test_every_hostile_act_ends_its_run_and_nothing_else(host: Host, tmp_path: Path) -> None:
    acts_are_harmless(host, ALL, tmp_path)
    (bomb,) = tmp_path.glob(f"*/{len(ALL):03d}-*/logs/node1.log")
    children = int(bomb.read_text().partition("children: ")[2].split()[0])
    assert 100 < children < 2 * PROCESSES


def test_a_node_reaches_nothing_but_its_own_files(host: Host, tmp_path: Path) -> None:
    measured = finish(start(host, "probe", tmp_path))
    assert measured.code == 0, measured.stderr
    log = log_of(tmp_path, measured.summaries[0])
    assert log.count("refused: ") > 12
    breaches = [line for line in log.splitlines() if line.startswith("BREACH")]
    # A test's ordinary user is root outside of its user namespace, and may read what root may.
    assert breaches == ["BREACH: read shadow"] * bool(host.prefix), log
    assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {os.geteuid()}


@pytest.mark.soak
def test_sigterm_ends_a_run_with_a_hostile_node(host: Host, tmp_path: Path) -> None:
    process = start(host, "sleep", tmp_path)
    deadline = time.monotonic() + 300
    while not any(path.stat().st_size for path in tmp_path.glob("*/001-*/events/node0.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 128 + signal.SIGTERM
    assert gone(lambda: processes_of(tmp_path))
