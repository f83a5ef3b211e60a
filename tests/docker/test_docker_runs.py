"""Real runs on real containers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.containers import image
from cluster.containers.compose_file import OWNER_LABEL, SESSION_LABEL
from cluster.containers.projects import client
from cluster.environment import note_data_folder
from tests import laws
from tests.measuring import (
    COMMAND,
    PROJECT,
    SILENCE_S,
    await_handlers,
    await_steps,
    finish,
    gone,
    measure,
    one,
    owned_processes,
    record_of,
    start,
)
from workloads.data.prepare import prepare
from workloads.data.sets import DATASETS

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]
DOCKER = ("--engine", "docker")


def leftovers(output: Path) -> list[str]:
    """Containers, networks and volumes of the sessions below `output`."""
    docker = client()
    found = []
    for session in output.iterdir():
        label = {"label": f"{SESSION_LABEL}={session.name}"}
        there = docker.containers.list(all=True, filters=label, ignore_removed=True)
        found += [container.name for container in there]
        found += [network.name for network in docker.networks.list(filters=label)]
        found += [v.name for v in docker.volumes.list() if session.name in v.name]
    return found


def containers(output: Path) -> list[Any]:
    (session,) = output.iterdir()
    docker = client()
    label = {"label": f"{SESSION_LABEL}={session.name}"}
    return sorted(docker.containers.list(filters=label), key=lambda container: container.name)


@pytest.mark.parametrize(("workers", "flags", "runs"), laws.SOME)
def test_measured_bytes_match_theory_and_each_other(
    workers: int, flags: tuple[str, ...], runs: int, tmp_path: Path
) -> None:
    laws.bytes_agree("docker", workers, flags, runs, tmp_path)
    assert leftovers(tmp_path) == []


def test_every_strategy_moves_a_large_model_as_theory_says(tmp_path: Path) -> None:
    laws.large_models_agree("docker", 4, "synthetic:4M", tmp_path)
    assert leftovers(tmp_path) == []


def test_containers_and_namespaces_reach_the_same_accuracy(tmp_path: Path) -> None:
    flags = ("--workers", "3", "--passes", "1", *laws.SMALL, "--output", str(tmp_path))
    in_containers = one(measure(*DOCKER, *flags))
    in_namespaces = one(measure("--engine", "netns", *flags))
    assert in_containers["accuracy"] == pytest.approx(in_namespaces["accuracy"], abs=5e-5)


def test_nodes_are_hardened(tmp_path: Path) -> None:
    process = start(*DOCKER, "--workers", "2", "--epochs", "200", "--output", str(tmp_path))
    await_steps(tmp_path)
    nodes = containers(tmp_path)
    details = [container.attrs for container in nodes]
    status = nodes[0].exec_run(["grep", "-E", "Cap(Eff|Bnd)|NoNewPrivs", "/proc/1/status"]).output
    writing = nodes[0].exec_run(["touch", "/app/x"]).exit_code
    routes = nodes[0].exec_run(["cat", "/proc/net/route"]).output.decode().splitlines()[1:]
    (network,) = details[0]["NetworkSettings"]["Networks"]
    internal = client().networks.get(network).attrs["Internal"]
    process.send_signal(signal.SIGINT)
    finish(process)
    for detail in details:
        host = detail["HostConfig"]
        assert detail["Config"]["User"].split(":")[0] not in ("", "0", "root")
        assert host["CapDrop"] == ["ALL"]
        assert not host["CapAdd"]
        assert not host["Privileged"]
        assert host["ReadonlyRootfs"]
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert not host["PortBindings"]
        name = detail["Config"]["Hostname"]
        written = [mount["Source"] for mount in detail["Mounts"] if mount["RW"]]
        assert [source.endswith(f"/.nodes-001/{name}") for source in written] == [True]
        assert host["PidsLimit"] == 512
    for line in status.decode().splitlines():
        name, value = line.split(":\t")
        assert int(value, 16) == (1 if name == "NoNewPrivs" else 0), line
    assert writing != 0
    assert internal
    assert routes
    assert "00000000" not in [route.split()[1] for route in routes]  # no default route


def test_a_killed_container_fails_the_run_by_name(tmp_path: Path) -> None:
    process = start(*DOCKER, "--workers", "3", "--epochs", "200", "--output", str(tmp_path))
    await_steps(tmp_path, 2)
    next(c for c in containers(tmp_path) if "node2" in c.name).kill()
    killed = time.monotonic()
    measured = finish(process)
    assert time.monotonic() - killed < SILENCE_S
    assert measured.code == 1
    (summary,) = measured.summaries
    assert summary["status"] == "failed"
    assert summary["error"].startswith("node2 was ended by SIGKILL")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("attempt", range(3))
def test_nothing_is_left_after_ctrl_c_at_a_random_moment(attempt: int, tmp_path: Path) -> None:
    process = start(*DOCKER, "--workers", "3", "--epochs", "100", "--output", str(tmp_path))
    delay = 3 * (attempt + random.Random(attempt).random())
    await_handlers(process)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    measured = finish(process)
    assert measured.code == 130, (delay, measured.stderr)
    assert leftovers(tmp_path) == [], delay


def test_what_a_killed_measure_left_is_removed_by_the_next(tmp_path: Path) -> None:
    process = start(*DOCKER, "--workers", "2", "--epochs", "200", "--output", str(tmp_path))
    await_steps(tmp_path)
    process.kill()
    process.communicate()
    assert leftovers(tmp_path) != []
    measured = measure(*DOCKER, "--workers", "1", *laws.SMALL, "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    assert "left behind" in measured.stderr
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("least", [1, pytest.param(4, marks=pytest.mark.soak)])
def test_a_measure_killed_while_containers_start_leaves_nothing_after_clean(
    least: int, tmp_path: Path
) -> None:
    """With a link that takes seconds to verify, so that `docker compose up` is at work."""
    flags = ("--workers", "2", "--link", "100kbit", "--output", str(tmp_path))
    process = start(*DOCKER, *flags)
    while process.poll() is None and len(leftovers(tmp_path)) < 1 + least:  # and the network
        time.sleep(0.01)
    assert owned_processes(process.pid, "compose")
    process.kill()
    process.communicate()
    cleaned = subprocess.run([*COMMAND, "--clean"], cwd=PROJECT, capture_output=True, text=True)
    assert cleaned.returncode == 0, cleaned.stderr
    assert f"process {process.pid}" in cleaned.stdout
    assert leftovers(tmp_path) == []
    assert gone(lambda: owned_processes(process.pid))
    assert record_of(process.pid) == []
    time.sleep(2)  # what compose might still have asked for would be here by now
    assert leftovers(tmp_path) == []


def test_old_images_are_removed_but_for_those_in_use() -> None:
    docker = client()
    name = image.ensure("torch", docker, print)
    old, used = f"{image.repository('torch')}:{0:012x}", f"{image.repository('torch')}:{1:012x}"
    others = {tag for found in docker.images.list() for tag in found.tags}
    for tag in (old, used):
        docker.images.get(name).tag(*tag.split(":"))
    assert image.remove_old(docker, {used, *others}) == []  # it is young
    assert image.remove_old(docker, {used, *others}, age_s=0) == [old]
    left = {tag for found in docker.images.list() for tag in found.tags}
    assert used in left
    assert {name, f"{image.repository('torch')}:latest"} <= left
    docker.images.remove(used)


def test_the_compose_file_in_a_run_folder_repeats_the_run_by_hand(tmp_path: Path) -> None:
    summary = one(measure(*DOCKER, "--workers", "2", *laws.SMALL, "--output", str(tmp_path)))
    run = tmp_path / summary["session"] / summary["run"]
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    up = compose(run / "compose.yml", "up")
    codes = exit_codes(run / "compose.yml")
    compose(run / "compose.yml", "down")
    assert up.returncode == 0, up.stdout
    assert f"accuracy={summary['accuracy']:.4g}" in up.stdout
    assert codes == [0] * 2
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()} == before
    assert leftovers(tmp_path) == []


def test_the_two_node_example_runs_by_itself() -> None:
    note_data_folder(prepare(DATASETS["mnist"]))  # as every measure does
    file = PROJECT / "compose" / "cluster.yml"
    up = compose(file, "up")
    compose(file, "down", "--volumes")
    assert up.returncode == 0, up.stdout
    results = [line for line in up.stdout.splitlines() if " result " in line]
    assert len(results) == 2
    assert all(float(line.partition("accuracy=")[2].split()[0]) > 0.8 for line in results)


def test_every_resource_of_a_cluster_carries_its_owner(tmp_path: Path) -> None:
    process = start(*DOCKER, "--workers", "1", "--epochs", "200", "--output", str(tmp_path))
    await_steps(tmp_path)
    owners = {container.labels[OWNER_LABEL] for container in containers(tmp_path)}
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 143
    assert [owner.partition(":")[0] for owner in owners] == [str(process.pid)]


def test_the_run_folder_names_the_image_and_the_engines_version(tmp_path: Path) -> None:
    summary = one(measure(*DOCKER, "--workers", "1", *laws.SMALL, "--output", str(tmp_path)))
    environment = tmp_path / summary["session"] / summary["run"] / "environment.json"
    image = json.loads(environment.read_text())["engine"]["image"]
    assert client().images.get(image).attrs["Config"]["User"] == "1000:1000"


def exit_codes(file: Path) -> list[int]:
    """Exit codes of a Compose file's containers; `up` may return before it prints them."""
    listed = compose(file, "ps", "--all", "--quiet").stdout.split()
    states = [client().containers.get(container).attrs["State"] for container in listed]
    return [state["ExitCode"] for state in states]


def compose(file: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", "compose", "--file", str(file), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        env={**os.environ, "COMPOSE_ANSI": "never"},
    )
