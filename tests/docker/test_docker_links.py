"""Real links on real containers: they reach their targets, or nothing is trained on them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.containers.engine import link_modules
from cluster.containers.image import repository
from cluster.containers.projects import client
from cluster.spec.documents.links import COUNTS
from tests import laws
from tests.docker.test_docker_runs import leftovers
from tests.measuring import PROJECT, measure, one

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]
DOCKER = ("--engine", "docker")
STEP = ("--epochs", "1", "--batch-size", "10")


@pytest.mark.timed
def test_links_from_1_mbit_to_1_gbit_reach_their_targets(tmp_path: Path) -> None:
    laws.links_reach_their_targets("docker", tmp_path)
    assert leftovers(tmp_path) == []


@pytest.mark.timed
def test_paths_between_sites_reach_their_targets(tmp_path: Path) -> None:
    laws.paths_between_sites_reach_their_targets("docker", tmp_path)
    assert leftovers(tmp_path) == []


def test_background_traffic_is_not_the_workers(tmp_path: Path) -> None:
    laws.background_is_not_the_workers_traffic("docker", tmp_path)


@pytest.mark.timed
def test_a_link_follows_its_trace(tmp_path: Path) -> None:
    laws.a_link_follows_its_trace("docker", tmp_path)


def test_bytes_on_shaped_links_count_once_and_without_verification(tmp_path: Path) -> None:
    """The helper uses the same interface, and received packets pass two devices."""
    flags = ("--workers", "3", "--link", "100mbit", "--strategy", "allreduce,pairwise", *laws.SMALL)
    measured = measure(*DOCKER, *flags, "--dilation", "2", "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    for summary in measured.summaries:
        laws.summary_is_true(summary, "docker")
        assert summary["bytes"]["setup"]["sent_bytes"] < 100_000
        for link in summary["links"]:
            assert link["target"] == "100mbit"  # in emulated time: 50 Mbit/s of the host
            assert None not in [link[name] for name in COUNTS]
    assert measured.stderr.count("3 links verified") == 1


@pytest.mark.timed
def test_a_bottleneck_slows_an_all_reduce(tmp_path: Path) -> None:
    model = ("--model", "synthetic:2M:4", "--workers", "3", "--train-size", "90", *STEP)
    summary = one(measure(*DOCKER, "--bottleneck", "1:20mbit", *model, "--output", str(tmp_path)))
    bound_s = 4 / 3 * summary["model_bytes"] * 8 * 1514 / 1448 / 20e6
    assert 0.95 * bound_s < summary["seconds"]["step_median_s"] < 1.15 * bound_s
    laws.bytes_are_as_predicted(summary, 0.005)


def test_a_helper_without_its_capability_stops_the_run_with_the_command(tmp_path: Path) -> None:
    program = (
        "import sys; from cluster.containers import compose_file as c; c.HELPER_CAPABILITIES = ();"
        " from cluster.measure import main; sys.exit(main(sys.argv[1:]))"
    )
    flags = ["--workers", "2", "--bottleneck", "1:20mbit", "--train-size", "40", *STEP]
    answer = subprocess.run(
        [sys.executable, "-c", program, *DOCKER, *flags, "--json", "--output", str(tmp_path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1, answer.stderr
    (summary,) = json.loads(answer.stdout)
    assert summary["status"] == "failed"
    assert "'tc qdisc add dev eth0 root handle 1: tbf rate 20000000bit" in summary["error"]
    assert "Operation not permitted" in summary["error"]
    assert summary["steps"] == 0
    assert list(tmp_path.glob("*/*/events/*")) == []
    assert leftovers(tmp_path) == []


def test_more_cores_than_there_are_is_a_mistake(tmp_path: Path) -> None:
    cores = client().info()["NCPU"]
    measured = measure(*DOCKER, "--cpus", str(cores + 1), "--output", str(tmp_path))
    assert measured.code == 2
    assert measured.stderr.splitlines() == [
        f"measure: {cores + 1} CPU cores for a node are more than this machine's {cores}"
    ]


def test_delay_on_a_kernel_without_netem_is_a_mistake(tmp_path: Path) -> None:
    if "sch_netem" in link_modules(f"{repository('torch')}:latest"):
        pytest.skip("this kernel has netem")
    measured = measure(*DOCKER, "--link", "20mbit/10ms", "--output", str(tmp_path))
    assert measured.code == 2
    assert "sch_netem" in measured.stderr.splitlines()[-1]
