"""A run says whether its nodes got the CPU that they wanted."""

from __future__ import annotations

import os
from pathlib import Path

from cluster.spec.documents.events import Step
from cluster.spec.documents.run_folder import find_runs
from tests.measuring import measure, one

TRAINING = ("--engine", "netns", "--model", "mnist-cnn", "--epochs", "1", "--test-size", "100")


def test_more_computing_nodes_than_cores_are_contended(tmp_path: Path) -> None:
    """Three nodes on one core: each waits for the others, whatever else the machine does."""
    core = min(os.sched_getaffinity(0))
    sizes = ("--workers", "3", "--batch-size", "128", "--train-size", "7680")
    measured = measure(
        *(*TRAINING, *sizes, "--strategy", "ddp", "--output", str(tmp_path)),
        prefix=("taskset", "--cpu-list", str(core)),
    )
    fidelity = one(measured)["fidelity"]
    assert fidelity["verdict"] == "contended"
    assert fidelity["largest_wait_share"] > 0.15
    assert fidelity["least_cpu_share"] < 0.75
    assert [node["node"] for node in fidelity["by_node"]] == ["node0", "node1", "node2"]
    for share in ("busy_share", "others_share", "steal_share"):
        assert 0 <= fidelity[share] <= 1
    assert fidelity["load"] >= 0
    assert "contended host" in measured.stderr

    (run,) = find_runs(tmp_path)
    steps = [event for event in run.read_events(0) if isinstance(event, Step)]
    assert len(steps) == 20
    assert all(step.cpu_s is not None and step.wait_s is not None for step in steps)
    assert all((step.cpu_s or 0) <= 1.5 * step.step_s + 0.01 for step in steps)
    samples = list(run.read_host_samples())
    assert len(samples) > 2
    assert samples[-1].busy_s > samples[0].busy_s


def test_only_a_node_with_a_limit_is_throttled(cpu_limits: None, tmp_path: Path) -> None:
    """Node 1 may use a fifth of a core: it is throttled, and that is not counted as contention."""
    sizes = ("--workers", "2", "--batch-size", "128", "--train-size", "5120")
    measured = measure(*TRAINING, *sizes, "--straggler", "1:0.2", "--output", str(tmp_path))
    free, limited = one(measured)["fidelity"]["by_node"]
    assert limited["throttled_s"] > limited["cpu_s"]
    assert not free["throttled_s"]
    (run,) = find_runs(tmp_path)
    steps = [event for event in run.read_events(1) if isinstance(event, Step)][1:]
    waited = sum(step.wait_s or 0 for step in steps)
    assert waited > 0.5 * limited["throttled_s"]  # this kernel counts throttled time as waiting
    assert limited["wait_s"] < waited
