"""Horovod carries the same training: same models, same bytes, control traffic booked apart."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from cluster.observe.units import option_text
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
from tests.program_laws import PROGRAMS, THEORY

pytestmark = pytest.mark.usefixtures("horovod")
COMMON = (
    *("--engine", "netns", "--seed", "2", "--lr-rule", "none", "--batch-size", "16"),
    *("--test-size", "200", "--workers", "3"),
)
STRATEGIES = {
    "strategy": "allreduce,allgather,gather-scatter,pairwise,local-sgd",
    "epochs": "2",
    "train_size": "432",
}
"""18 steps; the last step of an epoch ends an accumulation of local-sgd early."""
LOCAL_STEPS = {"local_steps": "1,2,4", "epochs": "2", "train_size": "480"}
"""10 steps an epoch: with 4 local steps the third exchange has only two."""
ONE_EPOCH = {"epochs": "1", "train_size": "240"}
OPTIONS = [
    {"reduce": "sum"},
    {"compress": "fp16", "strategy": "allreduce,pairwise"},
    {"average": "parameters", "strategy": "allreduce,allgather,gather-scatter"},
    {"bucket_mb": "0"},
    {"model": "mnist-bn", "buffers": "broadcast,average"},
]
Summary = dict[str, Any]


@dataclass(frozen=True)
class Pairs:
    """The same runs by torch and by Horovod, made in one session."""

    output: Path
    summaries: list[tuple[Summary, Summary]]

    def of(self, sweep: dict[str, str]) -> list[tuple[Summary, Summary]]:
        """Those with the options of a sweep."""
        return [pair for pair in self.summaries if is_of(sweep, pair[0]["spec"])]

    def model(self, summary: Summary) -> torch.Tensor:
        state = torch.load(RunFolder(self.output / summary["session"] / summary["run"]).model)
        return torch.cat([tensor.flatten() for tensor in state.values()])

    def are_alike(self, pair: tuple[Summary, Summary], tolerance: float = 1e-5) -> bool:
        ours, horovods = (self.model(summary) for summary in pair)
        return torch.allclose(ours, horovods, rtol=0, atol=tolerance)


def is_of(sweep: dict[str, str], spec: dict[str, Any]) -> bool:
    return all(option_text(spec[name]) in texts.split(",") for name, texts in sweep.items())


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    output = tmp_path_factory.mktemp("pairs")
    sweeps = [
        STRATEGIES | {"passes": "1"},
        LOCAL_STEPS,
        *(ONE_EPOCH | options for options in OPTIONS),
    ]
    both = [sweep | {"launcher": "torch,horovod"} for sweep in sweeps]
    timeline = ONE_EPOCH | {"launcher": "horovod", "timeline": "yes"}
    measured = measure(*COMMON, "--output", str(output), sweeps=[*both, timeline])
    assert measured.code == 0, measured.stderr
    assert measured.stderr.count("starting ") == 2  # clusters: one of each launcher
    found = [summary for summary in measured.summaries if not summary["spec"]["timeline"]]
    by_launcher = [
        [summary for summary in found if summary["spec"]["launcher"] == launcher]
        for launcher in ("torch", "horovod")
    ]
    return Pairs(output, list(zip(*by_launcher, strict=True)))


def test_the_same_spec_learns_the_same_and_sends_the_same(pairs: Pairs) -> None:
    found = pairs.of(STRATEGIES)
    assert len(found) == 5
    for ours, horovod in found:
        name = horovod["run"]
        assert pairs.are_alike((ours, horovod)), name
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
        laws.received_adds_up(RunFolder(pairs.output / horovod["session"] / name), 3)


def test_accumulated_gradients_divide_the_bytes_and_none_are_lost(pairs: Pairs) -> None:
    found = pairs.of(LOCAL_STEPS)
    sent = [laws.sent_once(horovod) for _, horovod in found]
    assert [horovod["rounds"] for _, horovod in found] == [20, 10, 6]
    assert sent[0] / sent[1] == pytest.approx(2, rel=0.05)
    assert sent[0] / sent[2] == pytest.approx(20 / 6, rel=0.05)
    for pair in found:
        assert pairs.are_alike(pair), pair[1]["run"]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
def test_options_mean_the_same(options: dict[str, str], pairs: Pairs) -> None:
    found = pairs.of(ONE_EPOCH | options)
    assert found
    for ours, horovod in found:
        tolerance = 1e-3 if "compress" in options else 1e-5
        assert pairs.are_alike((ours, horovod), tolerance), horovod["run"]
        predicted = horovod["per_step"]["predicted_mean_bytes"]
        assert laws.sent_once(horovod) == pytest.approx(predicted, rel=0.06), horovod["run"]


def test_the_timeline_lands_in_the_run_folder(pairs: Pairs) -> None:
    (file,) = pairs.output.glob("*/*/logs/timeline.json")
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


def test_horovods_usual_script_sends_what_theory_says(tmp_path: Path) -> None:
    """Without control traffic; parameters and the optimizer's momentum are broadcast first."""
    program, workers, model_bytes, steps = PROGRAMS / "horovod_mnist.py", 2, 683_160, 40
    flags = ("--engine", "netns", "--workers", str(workers), "--output", str(tmp_path / "runs"))
    command = f"{program} --samples {steps * workers * 32}"
    measured = measure(*flags, "--launcher", "horovod", "--program", command)
    assert measured.code == 0, measured.stderr
    (summary,) = measured.summaries
    assert summary["steps"] == steps
    sent = summary["per_step"]["sent_mean_bytes"] * steps * workers
    theory = (2 * steps + 2) * (workers - 1) * model_bytes
    assert abs(sent / theory - 1) < THEORY
