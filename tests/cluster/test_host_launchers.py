"""Host launchers on real clusters of namespaces: the same bytes and accuracy as our own nodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.namespaces.cluster import unshare_command
from cluster.spec.documents.events import Hello
from cluster.spec.documents.run_folder import RunFolder
from tests.measuring import PATIENCE_S, PROJECT, Measured, measure, processes_of

SLURM = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradwire" / "slurm"
RUNS = (
    *("--workers", "3", "--strategy", "allreduce,gather-scatter,pairwise", "--epochs", "2"),
    *("--train-size", "5760", "--batch-size", "32", "--test-size", "500", "--lr-rule", "none"),
)
"""2 x 60 steps."""


def need(found: bool, how: str) -> None:
    """A skip, which is a failure where GRADWIRE_REQUIRE_HOSTS=1."""
    if not found and os.environ.get("GRADWIRE_REQUIRE_HOSTS") == "1":
        pytest.fail(f"required here: {how}")
    if not found:
        pytest.skip(how)


@pytest.fixture(scope="module")
def slurm() -> None:
    need((SLURM / "usr/sbin/slurmctld-wlm").exists(), "no Slurm here: tests/labs/get_slurm.sh")


def in_lab(launcher: str, folder: Path, hosts: int, *flags: str, kill: str = "none") -> Measured:
    """A measure beside a cluster of some hosts; nothing of either may be left behind."""
    packages = [str(SLURM)] if launcher == "slurm" else []
    lab = [sys.executable, "-m", f"tests.labs.{launcher}", *packages, str(hosts), str(folder), kill]
    output = ["--json", "--no-report", "--output", str(folder / "runs")]
    scratch = folder / "scratch"
    scratch.mkdir()
    answer = subprocess.run(
        [*unshare_command(), *lab, "--launcher", launcher, *flags, *output],
        cwd=PROJECT,
        env={**os.environ, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert processes_of(folder) == []
    if kill == "none":
        assert [path for path in scratch.glob("*") if path.name.startswith("gradwire-")] == []
    summaries = json.loads(answer.stdout) if answer.stdout.startswith("[") else []
    return Measured(answer.returncode, summaries, answer.stderr)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The same runs on nodes of our own."""
    output = str(tmp_path_factory.mktemp("here"))
    found = measure("--engine", "netns", "--dilation", "1", *RUNS, "--output", output)
    assert found.code == 0, found.stderr
    return found.summaries


@pytest.mark.parametrize("launcher", ["slurm"])
def test_hosts_learn_the_same_and_send_the_same_as_our_own_nodes(
    launcher: str,
    tmp_path: Path,
    here: list[dict[str, Any]],
    request: pytest.FixtureRequest,
) -> None:
    request.getfixturevalue(launcher)
    found = in_lab(launcher, tmp_path, 3, *RUNS)
    assert found.code == 0, found.stderr
    assert [s["spec"]["strategy"] for s in found.summaries] == [
        "allreduce",
        "gather-scatter",
        "pairwise",
    ]
    for there, ours in zip(found.summaries, here, strict=True):
        assert (there["status"], there["spec"]["engine"]) == ("completed", "existing")
        assert there["accuracy"] == ours["accuracy"]
        assert there["loss"] == pytest.approx(ours["loss"], abs=1e-6)
        sent = [s["per_step"]["sent_mean_bytes"] for s in (there, ours)]
        assert sent[0] == pytest.approx(sent[1], rel=1e-3)
        run = tmp_path / "runs" / there["session"] / there["run"]
        assert (run / "model" / "consensus.pt").stat().st_size > 80_000
        assert [name_of_host(run, rank) for rank in range(3)] == ["host0", "host1", "host2"]
    assert found.stderr.count("in Slurm's queue") == (launcher == "slurm")  # one job for all runs


def name_of_host(run: Path, rank: int) -> str | None:
    """As a node's hello tells it."""
    events = RunFolder(run).read_events(rank)
    return next(event.host for event in events if isinstance(event, Hello))


@pytest.mark.parametrize("launcher", ["slurm"])
def test_a_host_that_is_killed_ends_the_run_with_its_name(
    launcher: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(launcher)
    flags = ("--workers", "3", "--epochs", "200", "--train-size", "960", "--test-size", "100")
    found = in_lab(launcher, tmp_path, 3, *flags, kill="2")
    ended_at = time.time()
    assert found.code == 1, found.stderr
    (summary,) = found.summaries
    assert summary["status"] == "failed"
    assert "node2 on host2 is gone" in summary["error"]
    killed = re.search(r"lab: killed host2 ([\d.]+)", found.stderr)
    assert killed is not None
    assert ended_at - float(killed[1]) < 30  # stated in docs/several-hosts.md


@pytest.mark.parametrize("launcher", ["slurm"])
def test_more_workers_than_hosts_are_refused_with_both_numbers(
    launcher: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(launcher)
    found = in_lab(launcher, tmp_path, 1, "--workers", "3")
    assert found.code == 2, found.stderr
    last = found.stderr.splitlines()[-1]
    assert last.startswith(f"measure: launcher {launcher}: 3 nodes need 3 hosts, one each, and ")
    assert " has 1" in last


@pytest.mark.usefixtures("slurm")
@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--slurm-partition", "fast"), "there is no partition 'fast'; there is debug"),
        (("--slurm-time", "2-00:00:00"), r"job 1 cannot start: PartitionTimeLimit"),
        (("--host-python", "/no/python"), "before all of its hosts had come .*/no/python"),
    ],
)
def test_what_slurm_cannot_do_is_one_line(
    flags: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    found = in_lab("slurm", tmp_path, 2, "--workers", "2", *flags)
    assert found.code == 2, found.stderr
    assert re.search(says, found.stderr.splitlines()[-1])
