"""A worker that runs out of memory gets an error, instead of being killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.spec.experiment import Experiment
from workloads.counters import memory

PROGRAM = """
import os, resource, torch
from cluster.spec.experiment import Experiment
from workloads.counters import memory
spec = Experiment(workers=4, batch_size=512)
{before}
memory.limit_memory(spec)
limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
print(limit)
try:
    torch.empty({size}, dtype=torch.uint8)
    print("got it")
except Exception as error:
    print(memory.is_out_of_memory(error), memory.explain(error, spec))
"""


def run(size: str, before: str = "") -> list[str]:
    program = PROGRAM.format(size=size, before=before)
    root = Path(__file__).parents[2]
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    return answer.stdout.splitlines()


def test_an_allocation_above_a_workers_share_is_an_error() -> None:
    limit, said = run("2 * memory.available_bytes()")
    assert int(limit) < memory.available_bytes()
    assert said.startswith("True ran out of memory in the ")
    assert "mnist-cnn with batches of 512 does not fit" in said
    assert "--batch-size" in said


def test_an_allocation_within_the_share_succeeds() -> None:
    assert run("1000_000")[1] == "got it"


def test_an_existing_lower_limit_is_kept() -> None:
    before = "resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))"
    limit, said = run("2**31", before)
    assert int(limit) == 2**30
    assert said.startswith("True ran out of memory in the 1.1 GB")


def test_the_number_of_workers_on_a_machine_is_that_of_torchrun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = Experiment(workers=4)
    assert memory.workers_on_machine(spec) == 4
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert memory.workers_on_machine(spec) == 1


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("Connection closed by peer"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_only_out_of_memory_errors_are_recognised(error: Exception, is_memory: bool) -> None:
    assert memory.is_out_of_memory(error) == is_memory
