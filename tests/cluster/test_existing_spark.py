"""--spark-master, an existing Spark cluster: the same experiment, and every worker's bytes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.namespaces.cluster import unshare_command
from tests import laws
from tests.measuring import PATIENCE_S, PROJECT, Measured, finish, measure, one, processes_of, start

pytestmark = pytest.mark.usefixtures("pyspark")
SMALL = (
    *("--epochs", "2", "--train-size", "960", "--batch-size", "32", "--seed", "3"),
    *("--test-size", "200"),
)


def in_lab(folder: Path, workers: int, *flags: str) -> Measured:
    """A measure on a host beside a standalone cluster of some workers, one slot each."""
    folder.mkdir(exist_ok=True)
    lab = [
        sys.executable,
        "-m",
        "tests.spark_lab",
        str(workers),
        str(folder),
        *flags,
        "--json",
        "--no-report",
    ]
    answer = subprocess.run(
        [*unshare_command(), *lab, "--output", str(folder / "runs")],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    summaries = json.loads(answer.stdout) if answer.stdout else []
    return Measured(answer.returncode, summaries, answer.stderr)


def test_a_run_on_existing_hosts_learns_the_same_and_counts_every_worker(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--strategy", "allreduce,pairwise", "--lr-rule", "none", *SMALL)
    there = in_lab(tmp_path / "lab", 2, *flags)
    assert there.code == 0, there.stderr
    here = measure("--engine", "netns", *flags, "--output", str(tmp_path / "here"))
    assert here.code == 0, here.stderr
    assert len(there.summaries) == len(here.summaries) == 2
    for remote, ours in zip(there.summaries, here.summaries, strict=True):
        assert remote["accuracy"] == pytest.approx(ours["accuracy"], abs=1e-3)
        predicted = remote["per_step"]["predicted_mean_bytes"]
        assert laws.sent_once(remote) == pytest.approx(predicted, rel=0.03)
        assert laws.sent_once(remote) == pytest.approx(laws.sent_once(ours), rel=0.03)
        assert remote["spec"]["engine"] == "existing"
        nodes: list[dict[str, Any]] = remote["bytes"]["nodes"]
        assert [node["node"] for node in nodes] == ["node0", "node1"]
        assert min(node["train_sent_bytes"] for node in nodes) > 0
        assert remote["control_traffic"]["bytes_per_s"] > 0
        laws.pairs_are_as_predicted(remote, 0.05)
        folder = tmp_path / "lab" / "runs" / remote["session"] / remote["run"]
        assert (folder / "model" / "consensus.pt").stat().st_size > 80_000
    assert "10.77" not in there.stderr.partition("workers on")[0]
    assert processes_of(tmp_path) == []


@pytest.fixture(scope="module")
def too_few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A measure that waits for a slot that never comes, started early: it takes long."""
    flags = ("--launcher", "spark", "--spark-master", "local-cluster[1,1,1024]", "--workers", "2")
    output = ("--output", str(tmp_path_factory.mktemp("too_few")))
    process = start(*flags, "--patience", "8s", *SMALL, *output)
    yield process
    if process.poll() is None:
        process.terminate()
        process.communicate()


@pytest.mark.usefixtures("too_few")
def test_another_version_of_a_package_on_the_cluster_is_named(tmp_path: Path) -> None:
    """The cluster's Python finds the metadata of another psutil first."""
    other = tmp_path / "packages" / "psutil-5.0.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: psutil\nVersion: 5.0.0\n")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={other.parent}:$PYTHONPATH exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    flags = ("--launcher", "spark", "--spark-master", "local-cluster[1,1,1024]", "--workers", "1")
    prefix = ("env", f"PYSPARK_PYTHON={python}")
    refused = measure(*flags, *SMALL, "--output", str(tmp_path / "runs"), prefix=prefix)
    assert refused.code == 2
    last = refused.stderr.splitlines()[-1]
    assert "psutil is 5.0.0 on " in last
    assert "it must be the same" in last


def test_fewer_slots_than_workers_is_an_error_with_both_numbers(
    too_few: subprocess.Popen[str],
) -> None:
    refused = finish(too_few)
    assert refused.code == 2
    last = refused.stderr.splitlines()[-1]
    # A machine that is busy beyond measure may not bring up the one that there is in time.
    said = "2 workers need 2 free slots, one each, and the cluster gave [01] and no more within 8 s"
    assert re.search(said, last)


def test_workers_that_share_a_host_share_its_bytes_with_a_warning(tmp_path: Path) -> None:
    flags = ("--launcher", "spark", "--spark-master", "local-cluster[2,1,1024]", "--workers", "2")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = set(Path("/tmp").glob("*lz4*"))
    measured = measure(
        *flags, *SMALL, "--output", str(tmp_path), prefix=("env", f"TMPDIR={scratch}")
    )
    # Its executors are killed, and could remove nothing themselves.
    assert list(scratch.iterdir()) == []
    assert set(Path("/tmp").glob("*lz4*")) <= before
    summary = one(measured)
    assert "up to 2 share a host" in measured.stderr
    assert summary["counters"]["workers_per_host"] == 2
    assert (
        summary["per_step"]["sent_mean_bytes"] > 0.9 * summary["per_step"]["predicted_mean_bytes"]
    )
    # Their interfaces cannot tell them apart, their connections can.
    pairs = {(p["sender"], p["receiver"]): p for p in summary["traffic_matrix"]["pairs"]}
    assert set(pairs) == {(0, 1), (1, 0)}
    for (sender, receiver), pair in pairs.items():
        assert pair["sent_bytes"] - pair["control_bytes"] == pytest.approx(
            pair["predicted_bytes"], rel=0.1
        )
        # Two workers send each other the same; a node reads what it sent and what it received at
        # once.
        assert pair["received_bytes"] == pytest.approx(
            pairs[receiver, sender]["sent_bytes"], rel=0.01
        )
    assert processes_of(tmp_path) == []
