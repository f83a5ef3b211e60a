"""compose/gpu.yml in real containers, without a GPU (tests/docker/gpu-on-cpu.yml)."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from analysis.network_report import main as write_report
from analysis.summary.command import main as summarise_folder
from cluster.containers import image
from cluster.containers.checks import check_gpus
from cluster.containers.compose_file import compose_document
from cluster.containers.projects import PROJECT_LABEL, client
from cluster.engine import EngineUnavailable
from cluster.spec.documents.run_folder import RunFolder, find_runs, write_json
from cluster.spec.experiment import Experiment
from tests import laws
from tests.docker.test_docker_runs import exit_codes
from tests.measuring import PROJECT
from workloads.data.prepare import prepare
from workloads.data.sets import DATASETS

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker"), pytest.mark.timeout(1200)]

FILES = [str(PROJECT / "compose" / "gpu.yml"), str(PROJECT / "tests" / "docker" / "gpu-on-cpu.yml")]
SMALL = {"EPOCHS": "1", "FLAGS": "--train-size 1280 --test-size 500"}


@dataclass
class Host:
    """A host that runs `docker compose up`, and what is left of it."""

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
            timeout=500,
        )

    def exit_codes(self) -> dict[str, int]:
        filters = {"label": f"{PROJECT_LABEL}={self.project}"}
        found = client().containers.list(all=True, filters=filters)
        return {
            c.name.removeprefix(f"{self.project}-"): c.attrs["State"]["ExitCode"] for c in found
        }

    def run(self) -> RunFolder:
        (found,) = find_runs(self.runs)
        return found

    def summary(self) -> dict[str, Any]:
        return self.run().read_summary().to_json()


@pytest.fixture(scope="module")
def images() -> dict[str, str]:
    """Images of this checkout: another may be tested on the same engine."""
    engine = client()
    return {
        "GRADWIRE_REPORT_IMAGE": image.ensure("report", engine, print),
        "GRADWIRE_CPU_IMAGE": image.ensure("torch", engine, print),
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


def test_it_trains_ends_by_itself_leaves_a_report_and_the_next_up_is_another_run(
    hosts: Any,
) -> None:
    """A plan is for one `up`: then one process trains, and the nodes of ddp end at once."""
    host = hosts()
    up = host.compose("up")
    assert up.returncode == 0, up.stdout
    names = ["session-1", "plan-1", "collector-1", "node-1", "node-2", "report-1"]
    assert host.exit_codes() == dict.fromkeys(names, 0), up.stdout
    first, summary = host.run(), host.summary()
    assert summary["status"] == "completed"
    assert (summary["spec"]["strategy"], summary["spec"]["workers"]) == ("ddp", 2)
    laws.bytes_are_as_predicted(summary, 0.02)
    # The collector read the nodes' counters without the engine's socket, and agrees with them.
    assert summary["counters"]["kernel_bytes"] is not None
    assert summary["counters"]["largest_difference"] < 0.01
    assert "accuracy against bytes" in (first.path / "report.html").read_text().lower()
    assert write_report([str(host.runs), "--output", str(host.runs / "again")]) == 0
    assert summary["run"] in (host.runs / "again" / "tables" / "runs.csv").read_text()

    host.profiles = ("data-parallel",)
    host.variables["BATCH_SIZE"] = "32"
    up = host.compose("up")
    assert up.returncode == 0, up.stdout
    assert up.stdout.count("not needed, profile data-parallel was chosen") == 2
    assert set(host.exit_codes().values()) == {0}
    (second,) = [run for run in find_runs(host.runs) if run.path != first.path]
    again = second.read_summary()
    assert (again.status, again.spec["strategy"], again.spec["batch_size"]) == (
        *("completed", "single", 32),
    )
    assert (second.path / "report.html").exists()


def test_horovod_trains(hosts: Any) -> None:
    name = image.ensure("horovod", client(), print)
    variables = {"GPUS": "3", "STRATEGY": "pairwise", "PASSES": "1"}
    host = hosts("horovod", GRADWIRE_CPU_HOROVOD_IMAGE=name, **variables)
    up = host.compose("up")
    assert up.returncode == 0, up.stdout
    assert set(host.exit_codes().values()) == {0}, up.stdout
    summary = host.summary()
    assert (summary["status"], summary["spec"]["launcher"]) == ("completed", "horovod")
    spec = summary["spec"]
    assert (spec["strategy"], spec["workers"], spec["passes"]) == ("pairwise", 3, 1)


def test_hosts_share_a_network_and_their_events_make_one_summary(hosts: Any) -> None:
    """Two Compose projects are two hosts: they share nothing but a network."""
    network = f"gradwire-hosts-{secrets.token_hex(3)}"
    client().networks.create(network)
    try:
        both = [hosts("multi-host", NETWORK=network, RANK=str(rank)) for rank in range(2)]
        with ThreadPoolExecutor(2) as pool:
            ups = list(pool.map(lambda host: host.compose("up"), both))
        assert [up.returncode for up in ups] == [0, 0], ups
        assert "copy it here from host 1" in ups[0].stdout
        shutil.copy(both[1].run().events(1), both[0].run().events(1))
        assert summarise_folder([str(both[0].run().path)]) == 0
        laws.bytes_are_as_predicted(both[0].summary(), 0.02)
        for host in both:
            host.compose("down", "--volumes")
    finally:
        client().networks.get(network).remove()


def test_a_mistake_is_one_line_and_nothing_is_trained(hosts: Any) -> None:
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
            time.sleep(0.2)
        filters = {"name": f"{host.project}-node-2"}
        client().containers.list(filters=filters)[0].kill()
        up = waiting.result()
    assert host.exit_codes()["report-1"] == 1, up.stdout
    summary = host.summary()
    assert summary["status"] == "failed"
    assert "node1" in summary["error"]
    assert (host.run().path / "report.html").exists()


def test_measure_with_gpus_where_there_are_none_is_one_line_and_code_2(tmp_path: Path) -> None:
    try:
        check_gpus(0)
    except EngineUnavailable:
        pass
    else:
        pytest.skip("this engine has GPUs")
    answer = subprocess.run(
        [str(PROJECT / "measure.sh"), "--gpu", "--output", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert line.startswith("measure: gpu: no GPU is visible to Docker: looked for")
    assert list(tmp_path.iterdir()) == []


def test_nodes_that_measure_generates_for_gpus_run_and_end_by_hand(
    images: dict[str, str], tmp_path: Path
) -> None:
    """Without devices and ulimits: nodes share memory and process numbers, and end together."""
    run = RunFolder(tmp_path / "session" / "001-run").create()
    on_gpus = Experiment(workers=2, gpu=1, epochs=1, train_size=1280, engine="docker")
    document = compose_document(
        on_gpus,
        run,
        image=images["GRADWIRE_CPU_IMAGE"],
        user="1000:1000",
        data_folder=prepare(DATASETS["mnist"]),
    )
    for service in document["services"].values():
        service.pop("deploy", None)
        service.pop("ulimits", None)
    run.compose.write_text(json.dumps(document))
    write_json(run.spec, dataclasses.replace(on_gpus, gpu=0).to_json())
    command = ["docker", "compose", "--file", str(run.compose)]
    up = subprocess.run([*command, "up"], capture_output=True, text=True, timeout=500)
    codes = exit_codes(run.compose)
    subprocess.run([*command, "down"], capture_output=True)
    assert up.returncode == 0, up.stderr
    assert up.stdout.count(" result accuracy=") == 2
    assert codes == [0] * 3


def test_the_gpu_image_can_be_built_on_any_base_with_torch() -> None:
    """PyTorch's CUDA image is not available everywhere: here the stage `torch` is the base."""
    build = PROJECT / "docker" / "build_image.sh"
    base, gpu = "gradwire-torch:test", "gradwire-gpu:test"
    for target, tag, variables in (("torch", base, {}), ("gpu", gpu, {"GPU_BASE": base})):
        made = subprocess.run(
            [str(build), target, tag],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr[-2000:]
    program = (
        "import os, torch, workloads.worker, cluster.gpu.node; print(os.getuid(), os.getcwd())"
    )
    command = ["docker", "run", "--rm", "--network", "none", gpu, "python", "-c", program]
    assert subprocess.run(command, capture_output=True, text=True).stdout.split() == [
        "1000",
        "/app",
    ]
