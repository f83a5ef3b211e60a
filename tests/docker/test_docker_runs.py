"""Real runs on real containers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.containers import image
from cluster.containers.compose_file import OWNER_LABEL, SESSION_LABEL
from cluster.containers.projects import SERVICE_LABEL, client
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
    laws.large_models_agree("docker", 3, "synthetic:2M", tmp_path)
    assert leftovers(tmp_path) == []


# --- nodes while they run -------------------------------------------------------------------------


@dataclass(frozen=True)
class Inspected:
    """Two nodes while they trained, with limits, and a shaped link on the second."""

    output: Path
    process: int
    nodes: list[Any]
    """The containers that ran, by name; the link's helper and reference were done."""
    network_is_internal: bool
    answers: dict[str, tuple[int, str]]
    """Command on the second node -> exit code and output."""
    code: int
    """Of the measure, after SIGTERM."""


COMMANDS = {
    "status": ["grep", "-E", "Cap(Eff|Bnd)|NoNewPrivs", "/proc/1/status"],
    "write": ["touch", "/app/x"],
    "routes": ["cat", "/proc/net/route"],
    "link": ["tc", "qdisc", "show", "dev", "eth0"],
    "unshape": ["tc", "qdisc", "del", "dev", "eth0", "root"],
}


@pytest.fixture(scope="module")
def inspected(docker: None, tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    output = tmp_path_factory.mktemp("inspected")
    limits = ("--total-memory", "512m", "--straggler", "1:0.25", "--bottleneck", "1:100mbit")
    flags = ("--workers", "2", *limits, "--epochs", "200", "--output", str(output))
    process = start(*DOCKER, *flags)
    await_steps(output)
    nodes = containers(output)
    answers = {}
    for name, command in COMMANDS.items():
        code, said = nodes[1].exec_run(command)
        answers[name] = code, said.decode()
    (network,) = nodes[0].attrs["NetworkSettings"]["Networks"]
    internal = client().networks.get(network).attrs["Internal"]
    process.send_signal(signal.SIGTERM)
    return Inspected(output, process.pid, nodes, internal, answers, finish(process).code)


def test_nodes_are_hardened(inspected: Inspected) -> None:
    assert [node.labels[SERVICE_LABEL] for node in inspected.nodes] == ["node0", "node1"]
    for node in inspected.nodes:
        host = node.attrs["HostConfig"]
        assert node.attrs["Config"]["User"].split(":")[0] not in ("", "0", "root")
        assert host["CapDrop"] == ["ALL"]
        assert not host["CapAdd"]
        assert not host["Privileged"]
        assert host["ReadonlyRootfs"]
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert not host["PortBindings"]
        name = node.attrs["Config"]["Hostname"]
        written = [mount["Source"] for mount in node.attrs["Mounts"] if mount["RW"]]
        assert [source.endswith(f"/.nodes-001/{name}") for source in written] == [True]
        assert host["PidsLimit"] == 512
    for line in inspected.answers["status"][1].splitlines():
        name, value = line.split(":\t")
        assert int(value, 16) == (1 if name == "NoNewPrivs" else 0), line
    assert inspected.answers["write"][0] != 0
    assert inspected.network_is_internal
    routes = inspected.answers["routes"][1].splitlines()[1:]
    assert routes
    assert "00000000" not in [route.split()[1] for route in routes]  # no default route


def test_a_node_cannot_change_its_link(inspected: Inspected) -> None:
    assert "tbf" in inspected.answers["link"][1]
    assert inspected.answers["unshape"][0] != 0


def test_limits_are_those_of_the_containers(inspected: Inspected) -> None:
    """512m is the least that is accepted for two; no node has swap."""
    hosts = [node.attrs["HostConfig"] for node in inspected.nodes]
    limits = [(host["CpuQuota"], host["CpuPeriod"]) for host in hosts]
    assert limits[0] == (0, 0)
    assert limits[1][0] / limits[1][1] == 0.25
    assert [(host["Memory"], host["MemorySwap"]) for host in hosts] == [(2**28, 2**28)] * 2


def test_nodes_carry_their_owner_and_are_removed_on_sigterm(inspected: Inspected) -> None:
    owners = {node.labels[OWNER_LABEL].partition("-")[0] for node in inspected.nodes}
    assert owners == {str(inspected.process)}
    assert inspected.code == 143
    assert leftovers(inspected.output) == []


# --- a run, and what it leaves --------------------------------------------------------------------


@dataclass(frozen=True)
class Recorded:
    """A run within the least memory, with a shaped link."""

    folder: Path
    summary: dict[str, Any]


RUN = ("--workers", "2", "--passes", "1", *laws.SMALL)


@pytest.fixture(scope="module")
def recorded(docker: None, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    output = tmp_path_factory.mktemp("recorded")
    limits = ("--total-memory", "512m", "--bottleneck", "1:50mbit")
    summary = one(measure(*DOCKER, *RUN, *limits, "--output", str(output)))
    return Recorded(output / summary["session"] / summary["run"], summary)


def test_the_laws_hold_within_the_least_memory(recorded: Recorded) -> None:
    assert recorded.summary["spec"]["total_memory"] == "512m"
    laws.summary_is_true(recorded.summary, "docker")


def test_containers_and_namespaces_reach_the_same_accuracy(
    recorded: Recorded, tmp_path: Path
) -> None:
    there = one(measure("--engine", "netns", *RUN, "--output", str(tmp_path)))
    assert recorded.summary["accuracy"] == pytest.approx(there["accuracy"], abs=5e-5)


def test_the_compose_file_in_a_run_folder_repeats_the_run_by_hand(recorded: Recorded) -> None:
    """With its links shaped."""
    run = recorded.folder
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    up = compose(run / "compose.yml", "up")
    codes = exit_codes(run / "compose.yml")
    compose(run / "compose.yml", "down")
    assert up.returncode == 0, up.stdout
    assert '"target": "50mbit"' in up.stdout
    assert f"accuracy={recorded.summary['accuracy']:.4g}" in up.stdout
    assert codes == [0] * 4  # two nodes, a helper, the reference
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()} == before
    assert leftovers(run.parent.parent) == []


def test_the_run_folder_names_the_image_and_the_engines_version(recorded: Recorded) -> None:
    engine = json.loads((recorded.folder / "environment.json").read_text())["engine"]
    assert client().images.get(engine["image"]).attrs["Config"]["User"] == "1000:1000"


# --- failures and interruptions -------------------------------------------------------------------


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


def test_nothing_is_left_after_ctrl_c_at_a_random_moment(tmp_path: Path) -> None:
    """Three measures at the same time, and so three moments."""
    flags = (*DOCKER, "--workers", "3", "--epochs", "100")
    outputs = [tmp_path / str(attempt) for attempt in range(3)]
    for output in outputs:
        output.mkdir()
    started = [start(*flags, "--output", str(output)) for output in outputs]
    for process in started:
        await_handlers(process)
    began = time.monotonic()
    for attempt, (process, output) in enumerate(zip(started, outputs, strict=True)):
        delay = 3 * (attempt + random.Random(attempt).random())
        time.sleep(max(0.0, began + delay - time.monotonic()))
        process.send_signal(signal.SIGINT)
        measured = finish(process)
        assert measured.code == 130, (delay, measured.stderr)
        assert leftovers(output) == [], delay


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


@pytest.mark.usefixtures("own_temporary_files")
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


def test_the_two_node_example_runs_by_itself() -> None:
    note_data_folder(prepare(DATASETS["mnist"]))  # as every measure does
    file = PROJECT / "compose" / "cluster.yml"
    up = compose(file, "up")
    compose(file, "down", "--volumes")
    assert up.returncode == 0, up.stdout
    results = [line for line in up.stdout.splitlines() if " result " in line]
    assert len(results) == 2
    assert all(float(line.partition("accuracy=")[2].split()[0]) > 0.8 for line in results)


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


def test_code_of_ones_own_runs_in_containers_and_sends_what_it_says(tmp_path: Path) -> None:
    examples = PROJECT / "docs" / "examples"
    net = examples / "net.py"
    cases = [
        {"model": "synthetic:4M", "batch_size": "1", "train_size": "30"},
        {"model": f"{net}:Net", "dataset": f"{net}:load", "train_size": "1920"},
    ]
    flags = ("--engine", "docker", "--workers", "3", "--strategy", str(examples / "star.py"))
    measured = measure(*flags, "--epochs", "1", "--output", str(tmp_path), sweeps=cases)
    assert measured.code == 0, measured.stderr
    synthetic, learned = measured.summaries
    laws.bytes_are_as_predicted(synthetic, 0.01)
    laws.pairs_are_as_predicted(synthetic, 0.01)
    assert learned["accuracy"] > 0.5
