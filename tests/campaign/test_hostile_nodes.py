"""Hostile nodes: the run fails with the node named, the host and the next runs do not suffer.

    python -m pytest tests/campaign/test_hostile_nodes.py -m "soak or not soak" -n 0

node1 does in each run what tests/campaign/hostile_node.py says; after the acts one run is honest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.spec.experiment import PROCESSES
from tests.campaign import hostile_node
from tests.measuring import PROJECT, Measured, finish, gone, processes_of

MOST_MB = 300
"""Of the process that measures."""
USER = 12345
AS_USER = f"""set -e
mount --bind {sys.base_prefix} /mnt
case {sys.base_prefix} in /root/*)
    mount -t tmpfs -o mode=755 tmpfs /root
    mkdir -p {sys.base_prefix}
    mount --bind /mnt {sys.base_prefix} ;;
esac
umount /mnt
exec setpriv --reuid {USER} --regid {USER} --clear-groups "$@"
"""
"""Root's home is closed to others, and this Python may be in it: it is opened in a mount namespace.
"""
ORDINARY_USER = ("unshare", "--mount", "sh", "-c", AS_USER, "sh", "env", "HOME=/tmp")


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
    if found.prefix and os.geteuid() != 0:
        pytest.skip("only root becomes another user; without root the other case is this one")
    if found.engine == "docker":
        request.getfixturevalue("docker")
    return found


@pytest.fixture
def output(host: Host) -> Iterator[Path]:
    """A folder that the user of the host owns and reaches; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        os.chmod(folder, 0o755)
        if host.prefix:
            os.chown(folder, USER, USER)
        yield Path(folder)


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


@pytest.mark.parametrize("host", [Host("netns", ORDINARY_USER)], indirect=True, ids=["user"])
def test_hostile_nodes_end_their_run_and_nothing_else(host: Host, output: Path) -> None:
    """As an ordinary user, whose nodes can do most: they own their folder."""
    acts_are_harmless(host, ["fifo", "long_line", "forged"], output)


@pytest.mark.soak
@pytest.mark.parametrize("acts", [ALL[:3], ALL[3:6], ALL[6:]], ids=",".join)
def test_every_hostile_act_ends_its_run_and_nothing_else(
    acts: list[str], host: Host, output: Path
) -> None:
    acts_are_harmless(host, acts, output)
    if acts[-1] == "fork_bomb":
        (bomb,) = output.glob(f"*/{len(acts):03d}-*/logs/node1.log")
        children = int(bomb.read_text().partition("children: ")[2].split()[0])
        assert 100 < children < 2 * PROCESSES


def test_a_node_reaches_nothing_but_its_own_files(host: Host, output: Path) -> None:
    measured = finish(start(host, "probe", output))
    assert measured.code == 0, measured.stderr
    log = log_of(output, measured.summaries[0])
    assert log.count("refused: ") > 12
    breaches = [line for line in log.splitlines() if line.startswith("BREACH")]
    assert breaches == [], log
    assert {path.stat().st_uid for path in output.rglob("*")} == {output.stat().st_uid}


@pytest.mark.soak
def test_sigterm_ends_a_run_with_a_hostile_node(host: Host, output: Path) -> None:
    process = start(host, "sleep", output)
    deadline = time.monotonic() + 300
    while not any(path.stat().st_size for path in output.glob("*/001-*/events/node0.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 128 + signal.SIGTERM
    assert gone(lambda: processes_of(output))
