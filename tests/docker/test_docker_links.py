"""Real links on real containers: they reach their targets, or nothing is trained on them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.containers.engine import link_modules
from cluster.containers.image import repository
from cluster.containers.projects import SERVICE_LABEL, client
from cluster.spec.documents.links import COUNTS
from tests import laws
from tests.docker.test_docker_runs import compose, containers, exit_codes, leftovers
from tests.measuring import PROJECT, await_steps, finish, measure, one, start

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.usefixtures("docker")]
DOCKER = ("--engine", "docker")
STEP = ("--epochs", "1", "--batch-size", "10")


def test_links_from_1_mbit_to_1_gbit_reach_their_targets(tmp_path: Path) -> None:
    laws.links_reach_their_targets("docker", tmp_path)
    assert leftovers(tmp_path) == []


def test_bytes_on_shaped_links_count_once_and_without_verification(tmp_path: Path) -> None:
    """The helper uses the same interface, and received packets pass two devices."""
    flags = ("--workers", "3", "--link", "100mbit", "--strategy", "allreduce,pairwise", *laws.SMALL)
    measured = measure(*DOCKER, *flags, "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    for summary in measured.summaries:
        laws.summary_is_true(summary, "docker")
        assert summary["bytes"]["setup"]["sent_bytes"] < 100_000
        for link in summary["links"]:
            assert None not in [link[name] for name in COUNTS]
    assert measured.stderr.count("3 links verified") == 1


def test_a_bottleneck_slows_an_all_reduce(tmp_path: Path) -> None:
    model = ("--model", "synthetic:2M:4", "--workers", "3", "--train-size", "90", *STEP)
    summary = one(measure(*DOCKER, "--bottleneck", "1:20mbit", *model, "--output", str(tmp_path)))
    bound_s = 4 / 3 * summary["model_bytes"] * 8 * 1514 / 1448 / 20e6
    assert 0.95 * bound_s < summary["seconds"]["step_median_s"] < 1.15 * bound_s
    laws.bytes_are_as_predicted(summary, 0.005)


def test_workers_on_shaped_links_are_as_unprivileged_as_others(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--bottleneck", "1:100mbit", "--epochs", "200")
    process = start(*DOCKER, *flags, "--output", str(tmp_path))
    await_steps(tmp_path)
    nodes = {node.labels[SERVICE_LABEL]: node for node in containers(tmp_path)}
    privileges = [node.attrs["HostConfig"]["CapAdd"] for node in nodes.values()]
    reading = nodes["node1"].exec_run(["tc", "qdisc", "show", "dev", "eth0"]).output.decode()
    changing = nodes["node1"].exec_run(["tc", "qdisc", "del", "dev", "eth0", "root"]).exit_code
    process.send_signal(signal.SIGINT)
    finish(process)
    assert sorted(nodes) == ["node0", "node1"]  # the helper and the reference are done
    assert privileges == [None, None]
    assert "tbf" in reading
    assert changing != 0
    assert leftovers(tmp_path) == []


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


def test_the_compose_file_shapes_its_links_when_started_by_hand(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--bottleneck", "1:50mbit", *laws.SMALL)
    summary = one(measure(*DOCKER, *flags, "--output", str(tmp_path)))
    file = tmp_path / summary["session"] / summary["run"] / "compose.yml"
    up = compose(file, "up")
    codes = exit_codes(file)
    compose(file, "down")
    assert up.returncode == 0, up.stdout
    assert '"target": "50mbit"' in up.stdout
    assert f"accuracy={summary['accuracy']:.4g}" in up.stdout
    assert codes == [0] * 4  # two nodes, a helper, the reference
    assert leftovers(tmp_path) == []


def test_a_straggler_has_a_cpu_limit(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--straggler", "1:0.25", "--epochs", "200")
    process = start(*DOCKER, *flags, "--output", str(tmp_path))
    await_steps(tmp_path)
    limits = [node.attrs["HostConfig"]["NanoCpus"] for node in containers(tmp_path)]
    process.send_signal(signal.SIGINT)
    finish(process)
    assert limits == [0, 250_000_000]


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
