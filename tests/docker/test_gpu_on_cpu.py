"""compose/gpu.yml in real containers, with tests/docker/gpu-on-cpu.yml: the same services and commands without a GPU."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from analysis.network_report import main as write_report
from analysis.summarise_folder import main as summarise_folder
from cluster import docker_engine, docker_image
from cluster.run_folder import RunFolder, find_runs
from tests.measuring import PROJECT
from workloads.data import prepare
from workloads.datasets import DATASETS

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker"), pytest.mark.timeout(1200)]

FILES = [str(PROJECT / "compose" / "gpu.yml"), str(PROJECT / "tests" / "docker" / "gpu-on-cpu.yml")]
SMALL = {"EPOCHS": "1", "FLAGS": "--train-size 1280 --test-size 500"}


@dataclass
class Host:
    """One that types `docker compose up`, and everything that is left of it."""

    runs: Path
    variables: dict[str, str]
    profiles: tuple[str, ...] = ()
    project: str = field(default_factory=lambda: f"gradwire-gpu-test-{secrets.token_hex(3)}")

    def compose(self, *command: str) -> subprocess.CompletedProcess[str]:
        options = [part for file in FILES for part in ("--file", file)]
        options += [part for profile in self.profiles for part in ("--profile", profile)]
        return subprocess.run(
            ["docker", "compose", "--project-name", self.project, *options, *command],
            env={**os.environ, "COMPOSE_ANSI": "never", **self.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )

    def exit_codes(self) -> dict[str, int]:
        filters = {"label": f"{docker_engine.PROJECT_LABEL}={self.project}"}
        found = docker_engine.client().containers.list(all=True, filters=filters)
        return {
            c.name.removeprefix(f"{self.project}-"): c.attrs["State"]["ExitCode"] for c in found
        }

    def run(self) -> RunFolder:
        (found,) = find_runs(self.runs)
        return found

    def summary(self) -> dict[str, Any]:
        return self.run().read_summary()


@pytest.fixture(scope="module")
def images() -> dict[str, str]:
    """Of this checkout: another one may be tested on the same engine."""
    engine = docker_engine.client()
    return {
        "GRADWIRE_REPORT_IMAGE": docker_image.ensure("report", engine, print),
        "GRADWIRE_CPU_IMAGE": docker_image.ensure("torch", engine, print),
    }


@pytest.fixture
def hosts(images: dict[str, str], tmp_path: Path) -> Iterator[Any]:
    made: list[Host] = []

    def make(*profiles: str, **variables: str) -> Host:
        data = prepare(DATASETS["mnist"]).parent
        own = {**SMALL, **images, "GRADWIRE_DATA_DIR": str(data), **variables}
        host = Host(tmp_path / f"runs{len(made)}", own, profiles)
        host.runs.mkdir()
        own["GRADWIRE_RUNS_DIR"] = str(host.runs)
        made.append(host)
        return host

    yield make
    for host in made:
        host.compose("down", "--volumes")
        assert host.exit_codes() == {}


def test_as_typed_it_trains_ends_by_itself_and_leaves_a_run_that_the_report_reads(
    hosts: Any,
) -> None:
    host = hosts()
    up = host.compose("up")
    assert up.returncode == 0, up.stdout
    names = ["session-1", "plan-1", "collector-1", "node-1", "node-2", "report-1"]
    assert host.exit_codes() == dict.fromkeys(names, 0), up.stdout
    summary = host.summary()
    assert summary["status"] == "completed"
    assert (summary["spec"]["strategy"], summary["spec"]["workers"]) == ("ddp", 2)
    assert summary["per_step"]["ratio"] == pytest.approx(1, abs=0.02)
    # The collector saw the nodes from outside, without the engine's socket, and agrees with them.
    assert summary["counters"]["kernel"] is not None
    assert summary["counters"]["largest_difference"] < 0.01
    assert "accuracy against bytes" in (host.run().path / "report.html").read_text().lower()
    assert write_report([str(host.runs), "--output", str(host.runs / "again")]) == 0
    assert summary["run"] in (host.runs / "again" / "tables" / "runs.csv").read_text()


def test_more_nodes_and_another_strategy_come_from_the_environment(hosts: Any) -> None:
    host = hosts(GPUS="3", STRATEGY="pairwise", PASSES="1", BATCH_SIZE="32")
    up = host.compose("up")
    assert up.returncode == 0, up.stdout
    spec = host.summary()["spec"]
    assert (spec["strategy"], spec["workers"], spec["passes"], spec["batch_size"]) == (
        "pairwise",
        3,
        1,
        32,
    )
    assert [code for name, code in host.exit_codes().items() if name.startswith("node")] == [
        0,
        0,
        0,
    ]


def test_with_data_parallel_one_process_trains_and_the_others_stand_aside(hosts: Any) -> None:
    host = hosts("data-parallel")
    up = host.compose("up")
    assert up.returncode == 0, up.stdout
    assert up.stdout.count("not needed, profile data-parallel was chosen") == 2
    assert set(host.exit_codes().values()) == {0}
    summary = host.summary()
    assert (summary["status"], summary["spec"]["strategy"]) == ("completed", "single")
    assert (host.run().path / "report.html").exists()


def test_the_next_up_without_a_profile_is_ddp_again(hosts: Any) -> None:
    """What a profile has planned is for one `up`."""
    host = hosts("data-parallel")
    assert host.compose("up").returncode == 0
    first = {run.path for run in find_runs(host.runs)}
    host.profiles = ()
    assert host.compose("up").returncode == 0
    (second,) = {run.path for run in find_runs(host.runs)} - first
    assert json.loads((second / "summary.json").read_text())["spec"]["strategy"] == "ddp"
    host.profiles = ("data-parallel",)  # to be taken down


def test_horovod_trains_too(hosts: Any) -> None:
    image = docker_image.ensure("horovod", docker_engine.client(), print)
    host = hosts("horovod", GRADWIRE_CPU_HOROVOD_IMAGE=image)
    up = host.compose("up")
    assert up.returncode == 0, up.stdout
    assert set(host.exit_codes().values()) == {0}, up.stdout
    summary = host.summary()
    assert (summary["status"], summary["spec"]["launcher"]) == ("completed", "horovod")


def test_hosts_meet_on_a_network_of_theirs_and_their_events_make_one_summary(hosts: Any) -> None:
    """Two projects stand for two hosts: they share nothing but a network."""
    network = f"gradwire-hosts-{secrets.token_hex(3)}"
    docker_engine.client().networks.create(network)
    try:
        both = [hosts("multi-host", NETWORK=network, RANK=str(rank)) for rank in range(2)]
        with ThreadPoolExecutor(2) as pool:
            ups = list(pool.map(lambda host: host.compose("up"), both))
        assert [up.returncode for up in ups] == [0, 0], ups
        assert "copy it here from host 1" in ups[0].stdout
        shutil.copy(both[1].run().events(1), both[0].run().events(1))
        assert summarise_folder([str(both[0].run().path)]) == 0
        assert both[0].summary()["per_step"]["ratio"] == pytest.approx(1, abs=0.02)
        for host in both:
            host.compose("down", "--volumes")
    finally:
        docker_engine.client().networks.get(network).remove()


def test_what_cannot_be_done_is_said_in_a_line_and_nothing_is_trained(hosts: Any) -> None:
    host = hosts(STRATEGY="gossip")
    up = host.compose("up")
    assert up.returncode != 0
    assert "plan: unknown strategy 'gossip'" in up.stdout
    assert find_runs(host.runs) == []


def test_a_node_that_dies_ends_the_others_and_the_report_names_it(hosts: Any) -> None:
    host = hosts(EPOCHS="400")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(host.compose, "up")
        while not any(
            run.events(1).exists() and len(run.read_events(1)) > 20 for run in find_runs(host.runs)
        ):
            assert not waiting.done(), waiting.result().stdout
        filters = {"name": f"{host.project}-node-2"}
        docker_engine.client().containers.list(filters=filters)[0].kill()
        up = waiting.result()
    assert host.exit_codes()["report-1"] == 1, up.stdout
    summary = host.summary()
    assert summary["status"] == "failed"
    assert "node1" in summary["error"]
    assert (host.run().path / "report.html").exists()
