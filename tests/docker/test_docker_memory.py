"""Memory limits on real containers; tests/docker/test_docker_runs.py has a run within one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docker.test_docker_runs import leftovers
from tests.measuring import measure

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]
FLAGS = ("--engine", "docker", "--workers", "2", "--total-memory", "512m")


def test_a_container_that_exceeds_its_share_is_named_with_the_reason(
    tmp_path: Path,
) -> None:
    model = ("--model", "synthetic:200M", "--batch-size", "1", "--train-size", "20")
    measured = measure(*FLAGS, "--epochs", "1", *model, "--output", str(tmp_path))
    assert measured.code == 1
    (summary,) = measured.summaries
    assert " ran out of memory: the kernel ended it at its limit of 256m" in summary["error"]
    assert leftovers(tmp_path) == []
