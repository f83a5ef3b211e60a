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
from tests.measuring import PROJECT, Measured, measure

NETNS = ("--engine", "netns")
STEP = ("--epochs", "1", "--batch-size", "10")


@pytest.mark.timed
def test_links_from_1_mbit_to_1_gbit_reach_their_targets(tmp_path: Path) -> None:
    laws.links_reach_their_targets("netns", tmp_path)


@pytest.mark.timed
def test_paths_between_sites_reach_their_targets(tmp_path: Path) -> None:
    laws.paths_between_sites_reach_their_targets("netns", tmp_path)


def test_background_traffic_is_not_the_workers(tmp_path: Path) -> None:
    laws.background_is_not_the_workers_traffic("netns", tmp_path)


@pytest.mark.timed
def test_a_link_follows_its_trace(tmp_path: Path) -> None:
    laws.a_link_follows_its_trace("netns", tmp_path)


def in_lab(text: str) -> subprocess.CompletedProcess[str]:
    command = [*unshare_command(), sys.executable, "-m", "tests.link_lab", text]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=500)


@pytest.mark.timed
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


@pytest.mark.timed
def test_a_link_is_given_other_rates_in_place() -> None:
    texts = ["20mbit/30mbit", "5mbit/9mbit", "40mbit"]
    command = [*unshare_command(), sys.executable, "-m", "tests.changing_link_lab", *texts]
    answer = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    rates = [rate for entry in found for rate in entry["rates"]]
    assert rates == pytest.approx([20e6, 30e6, 5e6, 9e6, 40e6, 40e6], rel=0.01)
    first, *others = (entry["qdiscs"] for entry in found)
    assert len(first) == 3
    assert others == [first] * 2  # the same qdiscs, not new ones


def test_bytes_of_verifying_links_are_not_booked_to_the_run(tmp_path: Path) -> None:
    flags = ("--workers", "3", "--link", "100mbit", "--strategy", "allreduce,pairwise", *laws.SMALL)
    measured = measure(*NETNS, *flags, "--dilation", "1", "--output", str(tmp_path))
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


@pytest.mark.timed
def test_a_bottleneck_slows_an_all_reduce_and_its_link_counts_overlimits(tmp_path: Path) -> None:
    """2 MB at 20 Mbit/s: 1.33 M each way, 1.1 s per step. A burst of 6 kB needs no warning."""
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
    assert "warning: the link" not in measured.stderr


def test_a_burst_that_is_large_for_a_message_is_warned_of_once(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--train-size", "40", "--link", "200mbit", "--repeat", "2", *STEP)
    measured = measure(*NETNS, *flags, "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    assert measured.stderr.count("warning: the link of node0 (200mbit) lets") == 1


def test_a_round_of_the_default_model_takes_at_least_its_bound(tmp_path: Path) -> None:
    """87 kB on links of 100 Mbit/s: 7.3 ms, less 1 ms of burst.

    The node that begins first receives everything afterwards; for the other, some may wait already.
    """
    flags = ("--workers", "2", "--train-size", "200", "--link", "100mbit", "--dilation", "1", *STEP)
    strategies = ("--strategy", "allreduce,gather-scatter,pairwise")
    measured = measure(*NETNS, *flags, *strategies, "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    for summary in measured.summaries:
        bound_s = summary["seconds"]["communication_bound_s"]
        assert bound_s == pytest.approx(0.0063, rel=0.02)
        run = RunFolder(tmp_path / summary["session"] / summary["run"])
        for steps in zip(*(NodeLog(run.read_events(rank)).steps for rank in (0, 1)), strict=True):
            assert max(step.exchange_s or 0.0 for step in steps) >= bound_s


@pytest.mark.timed
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


def with_another_tc(script: str, bottleneck: str, folder: Path) -> Measured:
    """A run where `tc` is this script, which must not have trained; the real tc is in $TC."""
    real = shutil.which("tc", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    binaries, output = folder / "bin", folder / "runs"
    binaries.mkdir()
    (binaries / "tc").write_text(f'#!/bin/sh\nTC={real}\n{script}\nexec $TC "$@"\n')
    (binaries / "tc").chmod(0o755)
    prefix = ("env", f"PATH={binaries}:{os.environ['PATH']}")
    flags = ("--workers", "3", "--bottleneck", bottleneck, "--train-size", "60", *STEP)
    rates_as_written = ("--dilation", "1")
    measured = measure(*NETNS, *flags, *rates_as_written, "--output", str(output), prefix=prefix)
    assert measured.code == 1, measured.stderr
    (summary,) = measured.summaries
    assert (summary["status"], summary["steps"]) == ("failed", 0)
    assert list(output.glob("*/*/events/*")) == []
    assert "\n" not in summary["error"]
    return measured


def test_tc_that_fails_stops_the_run_with_the_command_and_its_error(tmp_path: Path) -> None:
    script = (
        'case "$*" in *"dev gw-ingress root"*)'
        ' set -- $(echo "$*" | sed s/gw-ingress/nowhere/);; esac'
    )
    (summary,) = with_another_tc(script, "1:20mbit", tmp_path).summaries
    assert "'tc qdisc add dev gw-ingress root handle 1: tbf rate 20000000bit" in summary["error"]
    assert "nowhere" in summary["error"]


@pytest.mark.timed
def test_links_off_their_targets_stop_the_run(tmp_path: Path) -> None:
    """node0 sends and node1 receives too fast, node2's link was silently not shaped."""
    script = """case "$*" in
        *"dev eth0 root handle 1: tbf rate 20000000bit"*)
            set -- $(echo "$*" | sed s/20000000bit/22000000bit/);;
        *"dev gw-ingress root handle 1: tbf rate 30000000bit"*)
            set -- $(echo "$*" | sed s/30000000bit/33000000bit/);;
        *"dev eth0 root handle 1: tbf rate 40000000bit"*) exit 0;;
    esac"""
    measured = with_another_tc(script, "0:20mbit,1:30mbit,2:40mbit", tmp_path)
    (summary,) = measured.summaries
    assert summary["error"].startswith("the link of node0 measures ")
    assert "instead of 20" in summary["error"]
    fast_out, fast_in, unshaped = summary["links"]
    assert fast_out["sent_mbit"] == pytest.approx(22, rel=0.02)
    assert fast_out["received_mbit"] == pytest.approx(20, rel=0.02)
    assert fast_in["received_mbit"] == pytest.approx(33, rel=0.02)
    assert fast_in["sent_mbit"] == pytest.approx(30, rel=0.02)
    assert [fast_out["error"], fast_in["error"]] == [pytest.approx(0.1, abs=0.02)] * 2
    assert unshaped["error"] > 0.5
