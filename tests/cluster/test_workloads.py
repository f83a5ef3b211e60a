"""Workloads on real nodes: data, optimisers, and what happens without enough memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cluster.spec.catalogue import MODELS
from cluster.spec.documents.run_folder import RunFolder
from tests import laws
from tests.measuring import measure, one
from workloads.data.dataset import DataError
from workloads.data.prepare import prepare
from workloads.data.sets import DATASETS


def test_every_strategy_updates_alike_with_adamw_decay_and_a_warm_up(tmp_path: Path) -> None:
    """Also the parameter server, which updates by pieces and counts rounds, not steps."""
    measured = measure(
        *("--engine", "netns", "--workers", "2", "--strategy", "allreduce,parameter-server,ddp"),
        *("--optimizer", "adamw", "--lr", "0.001", "--weight-decay", "0.01", "--lr-rule", "linear"),
        *("--warmup-epochs", "1", "--local-steps", "3", "--epochs", "2", "--batch-size", "16"),
        *("--train-size", "320", "--test-size", "100", "--output", str(tmp_path)),
    )
    assert measured.code == 0, measured.stderr
    assert "lr (rule)" in measured.stderr
    assert measured.stderr.count("0.006 (linear)") == 3
    states = []
    for summary in measured.summaries:
        assert summary["training"]["learning_rate"]["full"] == pytest.approx(0.001 * 2 * 3)
        folder = RunFolder(tmp_path / summary["session"] / summary["run"])
        states.append(torch.cat([t.flatten() for t in torch.load(folder.model).values()]))
    for state in states[1:]:
        assert torch.allclose(state, states[0], rtol=0, atol=2e-5)


def test_vgg11_trains_with_label_skew_on_cifar10(tmp_path: Path) -> None:
    try:
        prepare(DATASETS["cifar10"])
    except DataError as error:
        pytest.skip(str(error))
    measured = measure(
        *("--engine", "netns", "--workload", "vgg11-cifar10", "--workers", "2"),
        *("--strategy", "allreduce", "--partition", "label", "--global-batch-size", "8"),
        *("--train-size", "24", "--test-size", "10", "--output", str(tmp_path)),
    )
    summary = one(measured)
    assert "vgg11 on cifar10, 9,231,114 parameters, 36.9 MB" in measured.stderr
    spec, training = summary["spec"], summary["training"]
    assert (spec["model"], spec["dataset"], spec["batch_size"]) == ("vgg11", "cifar10", 4)
    assert (spec["lr"], spec["momentum"], spec["weight_decay"]) == (0.1, 0.9, 1e-4)
    assert training["parameters"] == MODELS["vgg11"].parameters
    assert summary["model_bytes"] == 4 * MODELS["vgg11"].parameters
    laws.bytes_are_as_predicted(summary, 0.02)
    assert training["shards"]["label_skew"] > 0.4
    assert sum(map(sum, training["shards"]["label_counts"])) == 24
    (epoch,) = training["epochs"]
    parts = [epoch[name] for name in ("data_s", "compute_s", "exposed_communication_s")]
    assert sum(parts) == pytest.approx(epoch["seconds"], rel=0.01)


def test_a_batch_that_memory_cannot_hold_ends_that_run_and_says_so(tmp_path: Path) -> None:
    measured = measure(
        *("--engine", "netns", "--strategy", "single", "--train-size", "30000", "--epochs", "1"),
        *("--batch-size", "30000,1000", "--test-size", "100", "--output", str(tmp_path)),
        prefix=("prlimit", "--data=1500000000:1500000000"),
    )
    assert measured.code == 1
    too_large, fits = measured.summaries
    assert too_large["status"] == "failed"
    assert "node0 ran out of memory in the 1.5 GB it may take" in too_large["error"]
    assert "batches of 30,000" in too_large["error"]
    assert fits["status"] == "completed"
