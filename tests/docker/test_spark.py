"""Horovod on Spark in real containers, by ./measure.sh and by hand."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.containers import image
from cluster.containers.projects import PROJECT_LABEL, SERVICE_LABEL, client
from cluster.spec.launchers import LAUNCHERS
from tests import laws
from tests.docker.test_docker_runs import containers, leftovers
from tests.measuring import PROJECT, SILENCE_S, Measured, await_steps, finish, start

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("images"), pytest.mark.timeout(1800)]
SMALL = (
    *("--train-size", "960", "--batch-size", "32", "--seed", "3"),
    *("--test-size", "200"),
)


@pytest.fixture(scope="module")
def images(docker: None) -> None:
    """Compiling Horovod takes minutes, once per machine."""
    for launcher in set(LAUNCHERS) & set(image.TARGETS):
        image.ensure(launcher, client(), print)


@dataclass(frozen=True)
class Session:
    """Runs of all launchers, and a last one on Spark in which a node was killed."""

    output: Path
    measured: Measured
    killed_run: Path
    page: bytes
    """Of Spark's master, during the last run."""
    silence_s: float
    """From the kill to the end of the measure."""


@pytest.fixture(scope="module")
def session(images: None, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Both runs on Spark share a cluster, and one Spark application."""
    output = tmp_path_factory.mktemp("spark")
    sweeps = [
        {"launcher": "torch,horovod,spark", "epochs": "2"},
        {"launcher": "spark", "epochs": "500"},
    ]
    flags = ("--engine", "docker", "--workers", "2", "--lr-rule", "none", *SMALL)
    process = start(*flags, "--output", str(output), sweeps=sweeps)
    folder = await_steps(output, 5, run="004-*")
    with urllib.request.urlopen(published(output, "8080/tcp"), timeout=120) as answer:
        page = answer.read()
    (victim,) = [c for c in containers(output) if c.labels[SERVICE_LABEL] == "node1"]
    victim.kill()
    began = time.monotonic()
    measured = finish(process)
    return Session(output, measured, folder, page, time.monotonic() - began)


def test_the_same_spec_by_torch_horovod_and_spark(session: Session) -> None:
    assert session.measured.stderr.count("starting 2 nodes") == 3
    reference, horovod, spark, _ = session.measured.summaries
    for launcher, other in (("horovod", horovod), ("spark", spark)):
        assert other["spec"]["launcher"] == launcher
        assert other["accuracy"] == pytest.approx(reference["accuracy"], abs=1e-3), launcher
        assert laws.sent_once(other) == pytest.approx(laws.sent_once(reference), rel=0.03), launcher
        assert other["control_traffic"]["bytes_per_s"] > 0
        assert other["counters"]["largest_difference"] < 0.01
    roles = {node["node"]: node for node in spark["bytes"]["nodes"]}
    assert list(roles) == ["node0", "node1", "master", "driver"]
    assert [node["role"] for node in roles.values()] == ["worker"] * 2 + ["master", "driver"]
    for service in ("master", "driver"):
        assert roles[service]["sent_bytes"] > 0
        assert roles[service]["train_sent_bytes"] < 0.2 * roles["node0"]["train_sent_bytes"]


def test_a_killed_spark_worker_is_named_and_nothing_is_left(session: Session) -> None:
    assert b"Spark Master" in session.page
    assert session.silence_s < SILENCE_S
    assert session.measured.code == 1
    *others, killed = session.measured.summaries
    assert [summary["status"] for summary in others] == ["completed"] * 3
    assert killed["status"] == "failed"
    assert "node1 was ended by SIGKILL" in killed["error"]
    assert (session.killed_run / "events" / "node1.jsonl").exists()
    assert leftovers(session.output) == []


def published(output: Path, port: str) -> str:
    """The address of a web page of the cluster, which must be on loopback only."""
    (pages,) = [c for c in containers(output) if c.labels[SERVICE_LABEL] == "pages"]
    (binding,) = pages.attrs["NetworkSettings"]["Ports"][port]
    assert binding["HostIp"] == "127.0.0.1"
    return f"http://127.0.0.1:{binding['HostPort']}"


PROGRAM = """
import sys
import horovod.spark
import horovod.torch as hvd
import torch
from pyspark.sql import SparkSession

def train(scale):
    hvd.init()
    mean = hvd.allreduce(torch.tensor([scale * (hvd.rank() + 1.0)]), name="x")
    return mean.item()

session = SparkSession.builder.appName("any program").getOrCreate()
print("master", session.sparkContext.master)
print("means", horovod.spark.run(train, args=(float(sys.argv[1]),), num_proc=2, verbose=0))
sys.exit(7)
"""


@pytest.fixture
def cluster_by_hand() -> Iterator[dict[str, str]]:
    """compose/spark.yml as started by hand; Docker chooses free ports for its pages."""
    environment = {
        **os.environ,
        "GRADWIRE_MASTER_PAGE": "0",
        "GRADWIRE_DRIVER_PAGE": "0",
        "COMPOSE_PROJECT_NAME": f"gradwire-spark-test-{os.getpid()}",
    }
    compose = ["docker", "compose", "-f", "compose/spark.yml"]
    up = [*compose, "up", "--detach", "--no-build", "--pull", "never"]
    try:
        subprocess.run(up, cwd=PROJECT, env=environment, check=True, capture_output=True)
        yield environment
    finally:
        down = [*compose, "down", "--volumes", "--timeout", "1"]
        subprocess.run(down, cwd=PROJECT, env=environment, check=True, capture_output=True)


def test_any_program_runs_in_the_driver_of_a_cluster_by_hand(
    cluster_by_hand: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "any program.py"
    program.write_text(PROGRAM)
    answer = subprocess.run(
        [str(PROJECT / "cluster" / "run_in_driver.sh"), str(program), "2"],
        cwd=tmp_path,
        env=cluster_by_hand,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert answer.returncode == 7, answer.stderr
    assert "master spark://master:7077" in answer.stdout
    assert "means [3.0, 3.0]" in answer.stdout
    (master,) = client().containers.list(
        filters={
            "label": [
                f"{PROJECT_LABEL}={cluster_by_hand['COMPOSE_PROJECT_NAME']}",
                f"{SERVICE_LABEL}=master",
            ]
        }
    )
    assert b"authentication enabled" in master.logs()
