"""Horovod carries the same training: same models, same bytes, control traffic booked apart."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from cluster.spec.documents.run_folder import RunFolder
from tests import laws
from tests.measuring import (
    await_steps,
    finish,
    gone,
    measure,
    processes_of,
    start,
    worker_processes,
)

pytestmark = pytest.mark.usefixtures("horovod")
BOTH = (
    *("--engine", "netns", "--launcher", "torch,horovod", "--seed", "2"),
    *("--lr-rule", "none", "--test-size", "1000"),
)
ALL = "allreduce,allgather,gather-scatter,pairwise,local-sgd"


def pairs(output: Path, *flags: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The summaries of the same runs by torch and by Horovod."""
    measured = measure(*BOTH, *flags, "--output", str(output))
    assert measured.code == 0, measured.stderr
    by_launcher: dict[str, list[dict[str, Any]]] = {"torch": [], "horovod": []}
    for summary in measured.summaries:
        by_launcher[summary["spec"]["launcher"]].append(summary)
    return list(zip(by_launcher["torch"], by_launcher["horovod"], strict=True))


def model(output: Path, summary: dict[str, Any]) -> torch.Tensor:
    state = torch.load(RunFolder(output / summary["session"] / summary["run"]).model)
    return torch.cat([tensor.flatten() for tensor in state.values()])


def test_the_same_spec_learns_the_same_and_sends_the_same(tmp_path: Path) -> None:
    """20 steps; the last step of an epoch ends an accumulation of local-sgd early."""
    sizes = ("--workers", "4", "--epochs", "2", "--batch-size", "16", "--train-size", "640")
    found = pairs(tmp_path, "--strategy", ALL, "--passes", "1", *sizes)
    assert len(found) == 5
    for ours, horovod in found:
        name = horovod["run"]
        assert torch.allclose(model(tmp_path, ours), model(tmp_path, horovod), rtol=0, atol=1e-5), (
            name
        )
        assert horovod["accuracy"] == pytest.approx(ours["accuracy"], abs=1e-3), name
        assert horovod["consensus_distance"] == pytest.approx(
            ours["consensus_distance"], abs=1e-6, rel=1e-3
        ), name
        assert laws.sent_once(horovod) == pytest.approx(laws.sent_once(ours), rel=0.03), name
        assert ours["control_traffic"] is None
        assert horovod["control_traffic"]["bytes_per_s"] > 0
        # What each pair carried, by the counts of both, without Horovod's control traffic, which
        # is an estimate.
        laws.pairs_are_as_predicted(ours, 0.03)
        laws.pairs_are_as_predicted(horovod, 0.05)
        laws.pairs_add_up(horovod)
        laws.received_adds_up(RunFolder(tmp_path / horovod["session"] / name), 4)


def test_accumulated_gradients_divide_the_bytes_and_none_are_lost(tmp_path: Path) -> None:
    """10 steps an epoch: with 4 local steps the third exchange has only two."""
    sizes = ("--workers", "3", "--epochs", "2", "--batch-size", "16", "--train-size", "480")
    found = pairs(tmp_path, "--local-steps", "1,2,4", *sizes)
    sent = [laws.sent_once(horovod) for _, horovod in found]
    assert [h["rounds"] for _, h in found] == [20, 10, 6]
    assert sent[0] / sent[1] == pytest.approx(2, rel=0.05)
    assert sent[0] / sent[2] == pytest.approx(20 / 6, rel=0.05)
    for ours, horovod in found:
        assert torch.allclose(model(tmp_path, ours), model(tmp_path, horovod), rtol=0, atol=1e-5), (
            horovod["run"]
        )


def test_options_mean_the_same(tmp_path: Path) -> None:
    sizes = ("--workers", "2", "--epochs", "1", "--batch-size", "16", "--train-size", "160")
    for index, flags in enumerate(
        [
            ("--reduce", "sum"),
            ("--compress", "fp16", "--strategy", "allreduce,pairwise"),
            ("--average", "parameters", "--strategy", "allreduce,allgather,gather-scatter"),
            ("--bucket-mb", "0"),
            ("--model", "mnist-bn", "--buffers", "broadcast,average"),
        ]
    ):
        output = tmp_path / str(index)
        for ours, horovod in pairs(output, *flags, *sizes):
            tolerance = 1e-3 if "fp16" in flags else 1e-5
            assert torch.allclose(
                model(output, ours), model(output, horovod), rtol=0, atol=tolerance
            ), (flags, horovod["run"])
            predicted = horovod["per_step"]["predicted_mean_bytes"]
            assert laws.sent_once(horovod) == pytest.approx(predicted, rel=0.06), flags


def test_the_timeline_lands_in_the_run_folder(tmp_path: Path) -> None:
    sizes = ("--workers", "2", "--epochs", "1", "--batch-size", "16", "--train-size", "160")
    flags = (
        "--engine",
        "netns",
        "--launcher",
        "horovod",
        "--timeline",
        *sizes,
        "--test-size",
        "100",
    )
    measured = measure(*flags, "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    (file,) = tmp_path.glob("*/*/logs/timeline.json")
    events = json.loads(file.read_text())
    assert any("ALLREDUCE" in str(event.get("name")) for event in events)


def test_a_killed_worker_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    flags = ("--engine", "netns", "--launcher", "horovod", "--workers", "3", "--epochs", "500")
    process = start(*flags, "--output", str(tmp_path))
    folder = await_steps(tmp_path, 5)
    os.kill(worker_processes(tmp_path)[1], signal.SIGKILL)
    measured = finish(process)
    assert measured.code == 1
    assert "node1 was ended by SIGKILL" in measured.summaries[0]["error"]
    assert (folder / "events" / "node1.jsonl").exists()
    assert gone(lambda: processes_of(tmp_path))
