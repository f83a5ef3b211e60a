"""Real links on real namespaces: they reach their targets, or nothing is trained on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

import pytest

from analysis.summary.node_log import NodeLog
from cluster.namespaces.cluster import unshare_command
from cluster.spec.documents.links import COUNTS
from cluster.spec.documents.run_folder import RunFolder
from tests import laws
from tests.measuring import PROJECT, Measured, measure, one

pytestmark = pytest.mark.alone
NETNS = ("--engine", "netns")
STEP = ("--epochs", "1", "--batch-size", "10")


def test_links_from_1_mbit_to_1_gbit_reach_their_targets(tmp_path: Path) -> None:
    laws.links_reach_their_targets("netns", tmp_path)


def in_lab(text: str) -> subprocess.CompletedProcess[str]:
    command = [*unshare_command(), sys.executable, "-m", "tests.link_lab", text]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=500)


def test_iperf3_measures_the_same(iperf3: None) -> None:
    """Three links at the same time, slow enough for the machine."""
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(in_lab, ["5mbit", "20mbit", "100mbit"]))
    for answer in answers:
        assert answer.returncode == 0, answer.stderr
        link, iperf3_bit = (json.loads(line) for line in answer.stdout.splitlines())
        for direction in ("sent", "received"):
            rate = pytest.approx(iperf3_bit[direction] / 1e6, rel=0.01)
            assert link["target_mbit"] == rate, (link["target"], direction)
            assert link[f"{direction}_mbit"] == rate, (link["target"], direction)


def test_bytes_of_verifying_links_are_not_booked_to_the_run(tmp_path: Path) -> None:
    flags = ("--workers", "3", "--link", "100mbit", "--strategy", "allreduce,pairwise", *laws.SMALL)
    measured = measure(*NETNS, *flags, "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    first, second = measured.summaries
    for summary in (first, second):
        laws.summary_is_true(summary, "netns")
        assert [link["node"] for link in summary["links"]] == ["node0", "node1", "node2"]
        # Verifying a link of 100 Mbit/s takes at least 0.4 s, 5 MB in each direction.
        assert summary["bytes"]["setup"]["sent_bytes"] < 100_000
    verified = [{**link, **dict.fromkeys(COUNTS)} for link in first["links"]]
    again = [{**link, **dict.fromkeys(COUNTS)} for link in second["links"]]
    assert verified == again  # once, for both runs
    assert measured.stderr.count("3 links verified") == 1


def test_a_bottleneck_slows_an_all_reduce_and_its_link_counts_overlimits(tmp_path: Path) -> None:
    """2 MB at 20 Mbit/s: 1.33 M each way, 1.1 s per step. A burst of 28 kB needs no warning."""
    model = ("--model", "synthetic:2M:4", "--workers", "3", "--train-size", "120", *STEP)
    flags = ("--bottleneck", "none", "--bottleneck", "1:20mbit", *model, "--output", str(tmp_path))
    measured = measure(*NETNS, *flags)
    assert measured.code == 0, measured.stderr
    free, slow = measured.summaries
    bound_s = 4 / 3 * slow["model_bytes"] * 8 * 1514 / 1448 / 20e6
    assert free["seconds"]["step_median_s"] < bound_s / 4
    assert 0.95 * bound_s < slow["seconds"]["step_median_s"] < 1.15 * bound_s
    laws.bytes_are_as_predicted(slow, 0.005)
    assert free["links"] == []
    (link,) = slow["links"]
    assert link["sent_overlimits"] > 0
    assert link["received_overlimits"] > 0
    assert None not in [link[name] for name in COUNTS]
    assert "warning" not in measured.stderr


def test_a_burst_that_is_large_for_a_message_is_warned_of_once(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--train-size", "40", "--link", "10mbit", "--repeat", "2", *STEP)
    measured = measure(*NETNS, *flags, "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    assert measured.stderr.count("warning: the link of node0 (10mbit) lets") == 1


def test_an_ordinary_user_shapes_links_without_root(tmp_path: Path) -> None:
    prefix = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
    flags = ("--workers", "2", "--link", "50mbit", *laws.SMALL, "--output", str(tmp_path))
    summary = one(measure(*NETNS, *flags, prefix=prefix))
    assert [abs(link["error"]) < 0.03 for link in summary["links"]] == [True, True]


def test_a_straggler_computes_more_slowly_and_learns_the_same(tmp_path: Path) -> None:
    cases = ("--straggler", "none", "--straggler", "1:0.1", "--workers", "2")
    measured = measure(*NETNS, *cases, *laws.SMALL, "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    free, slow = measured.summaries
    assert slow["accuracy"] == free["accuracy"]
    fast, straggler = (computing_s(tmp_path / slow["session"] / slow["run"], k) for k in (0, 1))
    assert straggler > 2 * fast  # side by side: the machine may be busy with other things


def computing_s(run: Path, rank: int) -> float:
    """Mean compute time of a node's steps: a CPU limit stops some of them."""
    steps = NodeLog(RunFolder(run).read_events(rank)).steps
    return fmean(step.compute_s or 0.0 for step in steps)


# --- links that miss their targets -----------------------------------------------------------


def with_another_tc(folder: Path, script: str, output: Path) -> Measured:
    """A run where `tc` is this script; the real one is in $TC."""
    real = shutil.which("tc", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    folder.mkdir()
    (folder / "tc").write_text(f"#!/bin/sh\nTC={real}\n{script}\n")
    (folder / "tc").chmod(0o755)
    prefix = ("env", f"PATH={folder}:{os.environ['PATH']}")
    flags = ("--workers", "2", "--bottleneck", "1:20mbit", "--train-size", "40", *STEP)
    return measure(*NETNS, *flags, "--output", str(output), prefix=prefix)


def nothing_was_trained(measured: Measured, output: Path) -> str:
    """Check what holds for every refused link; the run's error."""
    assert measured.code == 1, measured.stderr
    (summary,) = measured.summaries
    assert summary["status"] == "failed"
    assert summary["steps"] == 0
    assert list(output.glob("*/*/events/*")) == []
    assert "\n" not in summary["error"]
    return str(summary["error"])


def test_tc_that_fails_stops_the_run_with_the_command_and_its_error(tmp_path: Path) -> None:
    script = (
        'case "$*" in *"dev gw-ingress root"*)'
        ' set -- $(echo "$*" | sed s/gw-ingress/nowhere/);; esac\nexec $TC "$@"'
    )
    measured = with_another_tc(tmp_path / "bin", script, tmp_path / "runs")
    error = nothing_was_trained(measured, tmp_path / "runs")
    assert "'tc qdisc add dev gw-ingress root handle 1: tbf rate 20000000bit" in error
    assert "nowhere" in error


@pytest.mark.parametrize(
    ("device", "direction"),
    [("eth0", "sent"), ("gw-ingress", "received")],
    ids=["sent", "received"],
)
def test_a_link_off_its_target_stops_the_run(device: str, direction: str, tmp_path: Path) -> None:
    script = (
        f'case "$*" in *"dev {device} root handle 1: tbf"*)'
        ' set -- $(echo "$*" | sed s/20000000bit/22000000bit/);; esac\nexec $TC "$@"'
    )
    measured = with_another_tc(tmp_path / "bin", script, tmp_path / "runs")
    error = nothing_was_trained(measured, tmp_path / "runs")
    assert error.startswith("the link of node1 measures ")
    assert "instead of 20" in error
    (link,) = measured.summaries[0]["links"]
    assert link[f"{direction}_mbit"] == pytest.approx(22, rel=0.02)
    assert link["error"] == pytest.approx(0.1, abs=0.02)


def test_a_link_that_is_silently_not_shaped_stops_the_run(tmp_path: Path) -> None:
    script = 'case "$*" in *"qdisc add dev eth0 root handle 1:"*) exit 0;; esac\nexec $TC "$@"'
    measured = with_another_tc(tmp_path / "bin", script, tmp_path / "runs")
    assert "instead of 20" in nothing_was_trained(measured, tmp_path / "runs")
