"""Memory limits on real containers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests import laws
from tests.docker.test_docker_runs import containers, leftovers
from tests.measuring import await_steps, finish, measure, one, start

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]
FLAGS = ("--engine", "docker", "--workers", "2", "--total-memory", "512m")


def test_every_container_has_its_share_without_swap_and_a_run_within_it_completes(
    tmp_path: Path,
) -> None:
    """256m is the least that is accepted, and must be enough."""
    process = start(*FLAGS, "--epochs", "200", "--output", str(tmp_path))
    await_steps(tmp_path)
    hosts = [container.attrs["HostConfig"] for container in containers(tmp_path)]
    process.send_signal(signal.SIGINT)
    finish(process)
    summary = one(measure(*FLAGS, *laws.SMALL, "--output", str(tmp_path)))
    assert [(host["Memory"], host["MemorySwap"]) for host in hosts] == [(2**28, 2**28)] * 2
    assert summary["spec"]["total_memory"] == "512m"
    laws.summary_is_true(summary, "docker")


def test_a_container_that_exceeds_its_share_is_named_with_the_reason(
    tmp_path: Path,
) -> None:
    model = ("--model", "synthetic:200M", "--batch-size", "1", "--train-size", "20")
    measured = measure(*FLAGS, "--epochs", "1", *model, "--output", str(tmp_path))
    assert measured.code == 1
    (summary,) = measured.summaries
    assert " ran out of memory: the kernel ended it at its limit of 256m" in summary["error"]
    assert leftovers(tmp_path) == []
